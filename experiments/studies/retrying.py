"""What going back into rollouts is worth: RRPO, SRPO, R3L, ESPO and APPO.

  python -m experiments.studies.retrying [--quick] [--seeds=N]

Resets on a chain of forks with one planted error (`forks`), where a table
learns by GRPO, RRPO and SRPO from as many sampled tokens; how well SRPO's
policy knows its own first mistake is simulated, and what it says goes the way
of an answer. Retries on a chain of doors by a policy that is simulated, which
learns from a failure where keys are (`retrying_worlds`). Answers along an
expert's steps of the forks. And branches, whose responses are drawn: how many
of the tokens that decide are among the places that APPO picks. Prints a JSON
object a line and rewrites experiments/results/retrying.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from arl import episode, names
from arl.envs import base, keydoor
from arl.rollout import appo, pieces, retries, strategies
from experiments.studies import chains, forks, resetting, retrying_worlds, runs
from experiments.studies import summary as page

TURNS = 14  # of an episode behind doors, whose oracle takes 10
_ESPO = {'sharpness': 1.0, 'clip': 0.2, 'kl_coef': 0.0}
EXPERTS = {
  'steps alone': {'name': 'agentic.espo', 'coef': 0.0, **_ESPO},
  'ESPO': {'name': 'agentic.espo', 'coef': 1.0, **_ESPO},
  'ESPO, centred': {'name': 'agentic.espo_centered', 'coef': 1.0, **_ESPO},
}
# By how much what follows a decision is likelier than to the reference, nats.
GAINS = (0.0, 0.1, 0.25, 0.5)


# --- Retries ------------------------------------------------------------------


def retried(strategy, seed: int, heed: float, count: int) -> dict[str, float]:
  """What retries are worth: how often better, per token, and to whole groups.

  Args:
    strategy: that retries, or None for further rollouts from the prompt, as
      many of each task as `retries.r3l` has retries there.
    seed: of the tasks and the policy.
    heed: how often the policy follows a reflection.
    count: tasks.
  """
  env, words = keydoor.make(length=2, sides=4), retrying_worlds.Words()
  tasks = resetting.tasks_of(env, base.TRAIN, 1000 * seed, count)
  limits = strategies.Limits(TURNS, 16, 128, 1000)
  seeker = retrying_worlds.Seeker(words, seed, heed)
  base_plan, fresh_plan = (resetting.plan_of(n, limits, n) for n in (8, 2))
  made = (strategy or retries.r3l)(seeker, env, words.chat, tasks, base_plan)
  own = [one for one in made if not one.extras['demonstrated'].any()]
  fresh = strategies.multi_turn(seeker, env, words.chat, tasks, fresh_plan)
  better, mixed, tokens = [], [], 0
  for group, others in zip(episode.groups(own), episode.groups(fresh)):
    first = [one for one in group.episodes if 'better' not in one.extras]
    again = [one for one in group.episodes if 'better' in one.extras]
    if strategy is None:
      again = list(others.episodes[: len(again)])
      tokens += sum(int(one.mask.sum()) for one in again)
    else:
      kept = sum(int((x.mask & x.extras['pivotal']).sum()) for x in again)
      asked = sum(int(x.extras.get(pieces.DISCARDED, np.zeros(1)).sum())
                  for x in first)  # fmt: skip
      tokens += kept + asked
    won = [episode.total_reward(one) >= episode.SOLVED for one in again]
    better += won
    if len(won) == 2:  # both of the first failed
      mixed.append(any(won))
  return {
    'improved': float(np.mean(better)),
    'per 1000 tokens': 1000 * sum(better) / tokens,
    'mixed': float(np.mean(mixed)),
  }


def of_retries(seeds: Sequence[int], quick: bool) -> Iterator[resetting.Result]:
  count = 12 if quick else 120
  units = {
    'improved': 'share of retries that earn more',
    'per 1000 tokens': 'improvements per 1000 tokens',
    'mixed': 'share of all-fail groups that become mixed',
  }
  for name, strategy, heed in (
    ('fresh rollouts', None, 0.9),
    ('R3L', retries.r3l, 0.9),
    ('R3L, heeded half of the time', retries.r3l, 0.5),
    ('R3L, not heeded', retries.r3l, 0.0),
    ('R3L, shuffled', retries.r3l_shuffled, 0.9),
  ):
    told = [retried(strategy, seed, heed, count) for seed in seeds]
    for key, unit in units.items():
      values = [each[key] for each in told]
      yield resetting.Result(f'retries/{name}/{key}', values, unit)


# --- Along an expert, and branches --------------------------------------------


def along(method: dict[str, Any], seed: int, batches: int) -> float:
  """How likely the right way is at hard forks, after so many batches."""
  entrant = chains.Entrant(method, 'expert_steps.espo', 8, 4 * forks.LENGTH)
  env, params = forks.make(), forks.start()
  walker, made = (
    forks.Walker(params, seed, 0.0),
    chains.learner(entrant, params),
  )
  now = made.state
  strategy = names.resolve(entrant.strategy, 'arl.rollout')
  for step in range(batches):
    first = (seed * 10_000 + step) * entrant.prompts
    tasks = resetting.tasks_of(env, base.TRAIN, first, entrant.prompts)
    plan = resetting.plan_of(entrant.samples, forks.LIMITS, 0, step)
    episodes = strategy(walker, env, walker.chat, tasks, plan)
    now = chains.update(made, now, episodes, 1)
    walker.set_params(now.params, step + 1)
  odds = np.asarray(jax.nn.softmax(now.params['table']))
  hard = [
    odds[row, forks.WAYS[row]]
    for row, shown in enumerate(forks.SHOWN)
    if shown.endswith('?') and shown != '0?'
  ]
  return float(np.mean(hard))


def recalls(seed: int, gain: float, count: int) -> dict[str, float]:
  """The share of two deciding tokens among two places, by who picks them."""
  rng = np.random.default_rng([seed, int(1000 * gain)])
  how = retrying_worlds.Decided(gain=gain)
  hits: dict[str, list[float]] = {}
  for _ in range(count):
    told = retrying_worlds.response(rng, how)
    gains = appo.gains(told.log_ratio, np.zeros_like(told.log_ratio), 32)
    picked = {
      'APPO': appo.best(appo.scores(told.entropy, gains), 2, rng),
      'entropy alone': appo.best(told.entropy, 2, rng),
      'gain alone': appo.best(gains, 2, rng),
      'where turns begin': rng.permutation(told.starts[1:])[:2],
      'anywhere': appo.best(np.zeros(len(gains)), 2, rng),
    }
    for name, places in picked.items():
      found = np.isin(told.decides, places)
      hits.setdefault(name, []).append(float(np.mean(found)))
  return {name: float(np.mean(each)) for name, each in hits.items()}


def of_the_rest(
  seeds: Sequence[int], quick: bool
) -> Iterator[resetting.Result]:
  for name, method in EXPERTS.items():
    values = [along(method, seed, 2 if quick else 12) for seed in seeds]
    unit = 'probability of the right way at hard forks'
    yield resetting.Result(f'along an expert/{name}', values, unit)
  for gain in GAINS:
    told = [recalls(seed, gain, 40 if quick else 1000) for seed in seeds]
    for name in told[0]:
      values = [each[name] for each in told]
      yield resetting.Result(
        f'branches/gain {gain:g}/{name}', values, 'recall at 2'
      )


def results(seeds: Sequence[int], quick: bool) -> Iterator[resetting.Result]:
  """All numbers of the study, one after the other."""
  yield from resetting.of_resets(seeds, quick)
  yield from of_retries(seeds, quick)
  yield from of_the_rest(seeds, quick)


def main(argv: list[str]) -> None:
  del argv
  body = [
    [made.name, runs.cell(made.name, made.values, made.unit), made.unit]
    for made in results(runs.seeds(), runs.quick())
  ]
  if not runs.quick():
    path = runs.RESULTS / 'retrying.md'
    header = ['what', 'mean and 95 % interval over seeds', 'unit']
    runs.write_table(path, header, body, runs.seeds())
    page.write()


if __name__ == '__main__':
  runs.start(main)
