"""Worked examples of credit below the trajectory."""

import jax.numpy as jnp
import numpy as np
import worked
import worked_runs as w

from arl import kinds, levels
from arl.kernels import advantages, gates, ratios, returns, segments, states
from arl.methods import binding
from arl.rewards import rubrics, steps
from arl.rollout import arpo, distances

# Four trajectories through states by name; the first two reach the goal.
PATHS = 'abd', 'acabd', 'ace', 'abe'
LENGTHS = tuple(map(len, PATHS))
SUCCESS = 1.0, 1.0, 0.0, 0.0
NAMES = 'abcde'


def _walks():
  """Each state is left by a turn of one token."""
  made = w.rows(LENGTHS)()
  ids = np.zeros((4, 5), np.int32)
  for row, path in enumerate(PATHS):
    ids[row, : len(path)] = [NAMES.index(name) for name in path]
  return {
    **made,
    'rewards': worked.at_end(SUCCESS, jnp.nan, LENGTHS),
    'turn': w.each_token(4, 5),
    'state': levels.level(ids, len(NAMES)),
  }


def _flat(row: w.Row) -> w.Row:
  """The tokens on the mask, row by row."""
  return lambda: row().compressed()


def _each(row: w.Row) -> w.Row:
  """The number of each sequence."""
  return lambda: np.array([line.compressed()[0] for line in row()])


def _of_state(name: str) -> w.Row:
  def row():
    at = _walks()
    value = w.kernel(states.worth, _walks, gamma=0.95)()
    here = at['state'].ids == NAMES.index(name)
    return value[np.asarray(here & at['mask'])][0]

  return row


def _sample(rewards):
  """Sequences of one token, a group a line of rewards."""

  def make():
    flat = np.concatenate(rewards)
    made = w.rows((1,) * len(flat), rewards=[[x] for x in flat])()
    lines = np.repeat(np.arange(len(rewards)), list(map(len, rewards)))
    return {
      **made,
      'group': worked.level(lines, 1),
      'tree': worked.level(lines, 1),
    }

  return make


def _in_one_group(rewards):
  """The same, the lines being trees of one group."""
  return lambda: {
    **_sample(rewards)(),
    'group': worked.one_group(sum(map(len, rewards)), 1),
  }


def _lines(row: w.Row, size: int) -> w.Row:
  return lambda: row().compressed().reshape(-1, size)


PROMPTS = [[1.0, 0.0], [1.0, 1.0]]
LEAVES = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
ANSWERS = [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def _across(coef):
  return w.credit(
    'states.gigpo_across', _sample(PROMPTS), coef=coef, base='grpo.grpo'
  )


def _answered(copies):
  return lambda: {
    **_in_one_group(ANSWERS)(),
    'copies': jnp.full((6, 1), copies),
  }


def _calls():
  """A call and then an answer, of one token each."""
  made = w.rows(
    (2,) * 4,
    process_rewards=[[1.0, 0], [0, 0], [1.0, 0], [0, 0]],
    rewards=[[0, 0.2], [0, 0.9], [0, 0.4], [0, 0.5]],
  )()
  return {**made, 'turn': w.each_token(4, 2)}


def _both():
  """The same, what is scored and what is earned being one reward."""
  made = _calls()
  return {**made, 'rewards': made['rewards'] + made['process_rewards']}


def _at(turn: int, row: w.Row) -> w.Row:
  return lambda: np.asarray(row()[:, turn])


def _turns(*lengths, **numbers):
  """One sequence of turns; a number a turn is on the turn's last token."""

  def make():
    n = sum(lengths)
    columns = {}
    for name, each in numbers.items():
      columns[name] = [np.concatenate([
        [0.0] * (length - 1) + [x] for length, x in zip(lengths, each)
      ])]  # fmt: skip
    turn = np.repeat(np.arange(len(lengths)), lengths)[None]
    made = w.rows((n,), **columns)()
    return {**made, 'turn': levels.level(turn, len(lengths))}

  return make


def _signed(at, sign):
  return lambda: {
    **at(),
    'advantage': jnp.full_like(at()['mask'], sign, dtype=float),
  }


def _by_turn(lengths, row: w.Row) -> w.Row:
  """The number of each turn: that of its first token."""
  return lambda: row().compressed()[np.cumsum([0, *lengths])[:-1]]


DRACO = _turns(2, 4, process_rewards=(0.5, 1.0))
_EVIDENCE = w.rows(
  (4,), hindsight_logp=[[0.6, -0.2, 0.0, -0.4]], rollout_logp=[[0.0] * 4]
)


def _evidence():
  return {**_EVIDENCE(), 'turn': w.each_token(1, 4)}


def _tilted(sign: float) -> w.Row:
  row = w.kernel(segments.by_feedback, _signed(_evidence, sign))
  return lambda: sign * row().compressed()


def _transitions():
  made = w.rows(
    (4,),
    process_rewards=[[0.44, -0.02, 0.04, 0.42]],
    rewards=[[0, 0, 0, 1.0]],
  )()
  return {**made, 'turn': w.each_token(1, 4)}


# Answers to the steps of an expert's episode, four each: three quarters of the
# evidence are right, and half of what is decided, the intent among it.
STEPS = (
  (kinds.EVIDENCE, (1.0, 0, 0, 1.0)),
  (kinds.EVIDENCE, (1.0, 1.0, 1.0, 1.0)),
  (kinds.DECISION, (0, 0, 0, 0)),
  (kinds.INTENT, (1.0, 1.0, 1.0, 1.0)),
)


def _expert():
  right = [[x] for _, each in STEPS for x in each]
  made = w.rows((1,) * 16, rewards=right)()
  step = np.repeat(np.arange(4), 4)
  stage = np.array([stage for stage, _ in STEPS])[step]
  return {
    **made,
    'step_of_group': worked.level(step, 1),
    'stage': jnp.asarray(stage)[:, None],
  }


def _gated(*stages: int) -> w.Row:
  chosen = lambda: {
    **_expert(),
    'chosen': jnp.isin(_expert()['stage'], jnp.array(stages)),
  }
  share = w.kernel(gates.share, chosen)
  return lambda: 1 / (1 + np.exp(-share().compressed()[0]))


def _first_step(row: w.Row) -> w.Row:
  return lambda: row().compressed()[:4]


def _vines():
  """Three turns that succeed, and what fresh rollouts make of their states."""
  made = w.rows(
    (3,), turn_value=[[3 / 9, 5 / 9, 8 / 9]], rewards=[[0, 0, 1.0]]
  )()
  return {**made, 'turn': w.each_token(1, 3)}


_RATIO_LENGTHS = 3, 2


def _ratios():
  rows = (0.10, -0.30, 0.25), (0.4, -0.1)
  made = w.rows(_RATIO_LENGTHS, logp=rows, old_logp=[[0.0] * 3, [0.0] * 2])()
  return {**made, 'turn': made['seq']}


def _steps():
  made = w.rows((3,), rewards=[[0, 0, 1.0]], old_value=[[0.3, 0.5, 0.6]])()
  return {**made, 'turn': w.each_token(1, 3)}


def _observed():
  values = [[0.2, 0.3, 9, 9, 0.5, 0.7]]
  made = w.rows((6,), old_value=values, rewards=[[0, 0, 0, 0, 0, 1.0]])()
  on = jnp.asarray([[True, True, False, False, True, True]])
  return {**made, 'mask': on}


# The actions of four rollouts, the last of which has ended.
ACTIONS = 'LLRU', 'LLRU', 'LLRD', 'LL'


def _selective():
  return distances.pairwise(distances.prefixes(ACTIONS, 4))


# How much more uncertain a turn is than the first, of all that is possible.
SURPRISES = '-5', '-0.5', '0', '0.5', '5'


def _branches(more: float) -> w.Row:
  return lambda: arpo.branch_probability(more)


TABLE: w.Table = {
  'gigpo.AE': _each(w.kernel(advantages.group_normalize, _walks)),
  'gigpo.AS': _flat(w.credit('states.gigpo', _walks, name='turn_advantage')),
  'gigpo.A': _flat(w.credit('states.gigpo', _walks)),
  'gigpo_seed.inner': _lines(
    w.kernel(advantages.group_normalize, _sample(PROMPTS)), 2
  ),
  'gigpo_seed.A_alpha05': _lines(_across(0.5), 2),
  **{f'g2po.V.{name}': _of_state(name) for name in NAMES},
  'g2po.node': _flat(w.kernel(states.way_out, _walks)),
  'g2po.edge': _flat(w.kernel(states.gain, _walks)),
  'g2po.AS': _flat(w.credit('states.g2po', _walks, name='turn_advantage')),
  'tree_grpo.intra': _lines(
    w.credit('trees.tree_grpo_within', _in_one_group(LEAVES)), 3
  ),
  'tree_grpo.inter': _lines(w.credit('grpo.grpo', _in_one_group(LEAVES)), 3),
  'tree_grpo.paper_sum': _lines(
    w.credit('trees.tree_grpo', _in_one_group(LEAVES)), 3
  ),
  'tree_grpo.code_sequential': _lines(
    w.credit('trees.tree_grpo_within', _in_one_group(LEAVES)), 3
  ),
  'steppo.gae': _flat(
    w.credit('agentic.steppo', _steps, first=1, gamma=0.99, lam=0.95)
  ),
  'steppo.ratio': _each(w.of(np.ma.exp, w.kernel(ratios.turn_mean, _ratios))),
  'steppo.ratio_token_product': _each(
    w.of(np.ma.exp, w.kernel(ratios.turn, _ratios))
  ),
  'skip_obs_gae.A': lambda: w.kernel(
    returns.gae, _observed, gamma=1.0, lam=0.95
  )().filled(0)[0],
  'grpo_ma.A_thought': lambda: _each(w.credit('trees.grpo_ma', _answered(3)))()[
    ::3
  ],
  'grpo_ma.A_answer': _lines(w.credit('trees.grpo_ma', _answered(1)), 3),
  'espo.phi': _gated(kinds.EVIDENCE),
  'espo.psi': _gated(kinds.DECISION, kinds.INTENT),
  'espo.R_cout_intent1': lambda: w.credit(
    'agentic.espo', _expert, name='episode_reward'
  )().compressed()[0],
  'espo.step': _first_step(
    w.kernel(
      binding.on(advantages.group_normalize, group='step_of_group'), _expert
    )
  ),
  'espo.A': _first_step(w.credit('agentic.espo', _expert)),
  'slca.tool': _at(0, w.credit('segments.slca', _calls)),
  'slca.summ': _at(1, w.credit('segments.slca', _calls)),
  'slca.grpo_sum': _at(1, w.credit('grpo.grpo', _both)),
  'draco.pos': _by_turn(
    (2, 4), w.kernel(segments.by_quality, _signed(DRACO, 1.0))
  ),
  'draco.neg': _by_turn(
    (2, 4), w.kernel(segments.by_quality, _signed(DRACO, -1.0))
  ),
  'draco.conserved': lambda: w.kernel(
    segments.by_quality, _signed(DRACO, -1.0)
  )().sum(),
  'baton_bfa.w_pos': _tilted(1.0),
  'baton_bfa.A_pos': _tilted(1.0),
  'baton_bfa.w_neg': _tilted(-1.0),
  'vineppo': _flat(w.credit('critics.vineppo', _vines)),
  'vps.delta': lambda: steps.belief_shifts((0.1, 0.15, 0.6, 0.55, 0.9)),
  'vps.telescopes': lambda: sum(
    steps.belief_shifts((0.1, 0.15, 0.6, 0.55, 0.9))
  ),
  **{f'arpo.{more}': _branches(float(more)) for more in SURPRISES},
  'selective': _selective,
  'trca.r': lambda: rubrics.trca(
    (0.2, -0.1, 0.2, 0.1), ({'one'}, (), (), {'two'}), ('one', 'two')
  ),
  'trca.G': _flat(w.kernel(states.completed_return, _transitions)),
}
