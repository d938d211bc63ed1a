"""Which credit is near the truth: methods against exact advantages.

  python -m experiments.studies.credit [--quick]

Groups of rollouts of a half-trained policy on FrozenLake's 4x4 map, whose
advantages are known by dynamic programming. Each method credits them by the
kernels that it trains with, and is compared by the correlation of what it gives
a turn with the exact advantage of the action taken there, over all turns of all
groups, with a 95 % bootstrap interval over groups. VinePPO plays on nine times
from each turn; the critics know the value up to an error of deviation 0.05.
Prints a JSON object a line and rewrites experiments/results/credit.md.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from arl import levels, methods
from arl.envs import gridworld
from arl.kernels import credit
from arl.methods import binding, compose
from experiments.studies import runs, summary

GAMMA, LONGEST, VINES, NOISE = 0.95, 100, 9, 0.05
# Of each lake: its slip, how often the policy succeeds.
LAKES = {'plain': (0.0, 0.57), 'slippery': (2 / 3, 0.15)}
SIZES = {8: 200, 32: 50}  # rollouts of a group: groups
Column = Callable[[dict[str, Any]], jax.Array]


class World(NamedTuple):
  """A lake, a policy on it, and what is exactly known of both.

  Attributes:
    chance: of the next cell, [S, 4, S].
    reward: expected, [S, 4].
    policy: [S, 4].
    value: discounted, [S].
    advantage: discounted, [S, 4].
    start: the first cell.
    over: bool [S], where an episode ends.
  """

  chance: np.ndarray
  reward: np.ndarray
  policy: np.ndarray
  value: np.ndarray
  advantage: np.ndarray
  start: int
  over: np.ndarray


def world(slip: float, success: float) -> World:
  """The lake under exp(Q* / temperature), as hot as succeeds so often."""
  task = gridworld.lake('4x4', slip)
  chance, reward = gridworld.transitions(task)
  best = gridworld.optimal_values(task, GAMMA)
  scores = gridworld.action_values(task, best, GAMMA)
  start = gridworld.reset(task).cell
  cells = task.data['map'].replace('\n', '')

  def heated(sharpness):
    odds = np.exp(sharpness * (scores - scores.max(axis=1, keepdims=True)))
    return odds / odds.sum(axis=1, keepdims=True)

  low, high = 0.0, 1e4
  for _ in range(60):
    middle = (low + high) / 2
    reached = gridworld.policy_values(task, heated(middle), 1.0)[start]
    low, high = (middle, high) if reached < success else (low, middle)
  policy = heated(low)
  value = gridworld.policy_values(task, policy, GAMMA)
  advantage = gridworld.action_values(task, value, GAMMA) - value[:, None]
  over = np.array([mark in 'HG' for mark in cells])
  return World(chance, reward, policy, value, advantage, start, over)


def _draw(rng, odds: np.ndarray) -> np.ndarray:
  """An index of each row of probabilities."""
  return (rng.random((len(odds), 1)) > np.cumsum(odds, axis=1)[:, :-1]).sum(1)


def play(made: World, cells: np.ndarray, rng) -> dict[str, np.ndarray]:
  """Rollouts from cells [n]: cells, actions, rewards and marks, [n, LONGEST].

  An episode that does not end in time earns nothing more.
  """
  n = len(cells)
  at = np.zeros((n, LONGEST), int)
  action, on = np.zeros_like(at), np.zeros((n, LONGEST), bool)
  earned = np.zeros((n, LONGEST))
  now = cells.copy()
  goal = len(made.over) - 1
  for t in range(LONGEST):
    going = ~made.over[now]
    chosen = _draw(rng, made.policy[now])
    after = _draw(rng, made.chance[now, chosen])
    at[:, t], action[:, t], on[:, t] = now, chosen, going
    earned[:, t] = going & (after == goal)
    now = np.where(going, after, now)
  return {'at': at, 'action': action, 'on': on, 'earned': earned}


def vines(made: World, rows: Mapping[str, np.ndarray], rng) -> np.ndarray:
  """What VINES fresh rollouts earn from each turn on, discounted: the mean."""
  total = np.zeros(rows['at'].shape)
  begun = rows['at'][rows['on']]
  for _ in range(VINES):
    total[rows['on']] += worth(made, begun, rng)
  return total / VINES


def worth(made: World, cells: np.ndarray, rng) -> np.ndarray:
  """What one rollout from each cell earns, discounted: [n]."""
  now, earned, goal = cells.copy(), np.zeros(len(cells)), len(made.over) - 1
  for t in range(LONGEST):
    going = np.flatnonzero(~made.over[now])
    if not going.size:
      break
    chosen = _draw(rng, made.policy[now[going]])
    now[going] = _draw(rng, made.chance[now[going], chosen])
    earned[going] += GAMMA**t * (now[going] == goal)
  return earned


def columns(made: World, groups: int, size: int, rng) -> dict[str, Any]:
  """A batch of groups whose turns are one token each."""
  rows = play(made, np.full(groups * size, made.start), rng)
  shape = rows['at'].shape
  row = np.arange(shape[0])[:, None]
  group = row // size
  value = made.value[rows['at']]
  steps = np.broadcast_to(np.arange(LONGEST), shape)
  level = lambda ids, num: levels.level(np.broadcast_to(ids, shape), num)
  return {
    'rewards': jnp.asarray(rows['earned']),
    'mask': jnp.asarray(rows['on']),
    'old_value': jnp.asarray(value + NOISE * rng.normal(size=shape)),
    'turn_value': jnp.asarray(vines(made, rows, rng)),
    'seq': levels.level(row, shape[0]),
    'group': levels.level(group, groups),
    'turn': level(row * LONGEST + steps, row.size * LONGEST),
    'state': level(group * len(made.over) + rows['at'], groups * 16),
    'step_of_group': level(group * LONGEST + steps, groups * LONGEST),
    'exact': made.advantage[rows['at'], rows['action']],
  }


def recipe(name: str, step: str = 'advantage', **numbers) -> Column:
  """What a recipe's credit gives."""
  (term, *_) = compose.terms_of(methods.make(name, **numbers))
  return lambda batch: compose.run(term.credit, compose.visible(batch))[step]


def kernel(function: Callable, **numbers) -> Column:
  """What a kernel gives."""
  bound = functools.partial(function, **numbers)
  read = tuple(binding.read_by(bound))
  return lambda batch: bound(**{name: batch[name] for name in read})


METHODS: dict[str, Column] = {
  'GRPO': recipe('grpo.grpo'),
  'GROW': recipe('agentic.grow'),
  'GiGPO': recipe('states.gigpo', gamma=GAMMA),
  'GiGPO, its step alone': recipe(
    'states.gigpo', 'turn_advantage', gamma=GAMMA
  ),
  'G2PO': recipe('states.g2po', gamma=GAMMA),
  'G2PO, its step alone': recipe('states.g2po', 'turn_advantage', gamma=GAMMA),
  'T-STAR': recipe('states.t_star'),
  'GraphPO': recipe('states.graphpo'),
  'steps of one index': kernel(credit.step_return_to_go, gamma=GAMMA),
  'VinePPO': recipe('critics.vineppo'),
  'turn GAE, lam 0': kernel(credit.turn_gae, gamma=GAMMA, lam=0.0),
  'turn GAE, lam 0.9': kernel(credit.turn_gae, gamma=GAMMA, lam=0.9),
  'turn GAE, lam 1': kernel(credit.turn_gae, gamma=GAMMA, lam=1.0),
}


def moments(got, want, on, groups: int) -> np.ndarray:
  """Of each group: n, and the sums of x, y, xx, yy and xy, [groups, 6]."""
  x, y = (np.where(on, z, 0).reshape(groups, -1) for z in (got, want))
  n = on.reshape(groups, -1)
  parts = (n, x, y, x * x, y * y, x * y)
  return np.stack([part.sum(axis=1) for part in parts], axis=1)


def correlation(sums: np.ndarray) -> float:
  """Pearson's, from rows of `moments`; 0 where one side does not vary."""
  n, x, y, xx, yy, xy = sums.sum(axis=0)
  spread = (n * xx - x * x) * (n * yy - y * y)
  return float((n * xy - x * y) / np.sqrt(spread)) if spread > 1e-12 else 0.0


def interval(sums: np.ndarray) -> list[float]:
  """The 95 % bootstrap interval of the correlation, over groups."""
  found = stats.bootstrap(
    (np.arange(len(sums)),),
    lambda drawn: correlation(sums[drawn]),
    vectorized=False,
    n_resamples=2000,
    method='percentile',
    rng=np.random.default_rng(0),
  ).confidence_interval
  return [round(float(found.low), 4), round(float(found.high), 4)]


def measure(
  made: World, groups: int, size: int, seed: int
) -> dict[str, np.ndarray]:
  """The moments of each method over as many groups."""
  batch = columns(made, groups, size, np.random.default_rng(seed))
  on, exact = np.asarray(batch['mask']), batch.pop('exact')
  run = jax.jit(lambda given: {n: f(given) for n, f in METHODS.items()})
  return {
    name: moments(np.broadcast_to(x, on.shape), exact, on, groups)
    for name, x in jax.device_get(run(batch)).items()
  }


def main(argv: list[str]) -> None:
  del argv
  found: dict[str, list[str]] = {name: [name] for name in METHODS}
  header = ['method']
  for lake, (slip, success) in LAKES.items():
    made = world(slip, success)
    for size, groups in SIZES.items():
      groups = 20 if runs.quick() else groups
      header.append(f'{lake}, {size} rollouts')
      for name, sums in measure(made, groups, size, 0).items():
        value = correlation(sums)
        low, high = spread = interval(sums)
        line = f'credit/{lake}/{size}/{name}'
        runs.line(line, value, 'correlation', '', (0,), spread)
        found[name].append(f'{value:.3f} ({low:.3f} to {high:.3f})')
  if not runs.quick():
    path = runs.RESULTS / 'credit.md'
    runs.write_table(path, header, list(found.values()))
    summary.write()


if __name__ == '__main__':
  runs.start(main)
