"""V-trace, Retrace and GAE: by hand, as rlax has them, what they reduce to.

The numbers of rlax 0.1.9 are remade by tests/golden/make_rlax.py.
"""

import functools
import pathlib

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels, methods
from arl.kernels import returns, traces
from arl.methods import binding, compose

GOLDEN = pathlib.Path(__file__).parents[1] / 'golden' / 'returns_rlax_0_1_9.npz'
ROW = {'mask': jnp.ones((1, 3), bool), 'seq': worked.sequences(1)}


def _row(*values):
  return jnp.asarray([values], jnp.float32)


def _off_policy(*ratios):
  """Log-probs of the two policies with these ratios."""
  log_ratio = jnp.log(_row(*ratios))
  return {'old_logp': log_ratio - 1, 'rollout_logp': -jnp.ones_like(log_ratio)}


def test_vtrace_by_hand():
  columns = {
    'rewards': _row(0, 0, 1),
    'old_value': _row(0.5, 0.6, 0.8),
    **_off_policy(1.5, 0.5, 1.2),
    **ROW,
  }
  target = jax.jit(functools.partial(traces.vtrace, gamma=1.0))(**columns)
  np.testing.assert_allclose(target, [[0.8, 0.8, 1.0]], rtol=1e-6)
  kernel = jax.jit(functools.partial(traces.vtrace_advantage, gamma=1.0))
  got = kernel(**columns, returns=target)
  np.testing.assert_allclose(got, [[0.3, 0.2, 0.2]], rtol=1e-5)


def test_retrace_by_hand():
  kernel = jax.jit(functools.partial(traces.retrace, gamma=1.0))
  got = kernel(
    rewards=_row(0, 0, 1),
    q=_row(0.55, 0.5, 0.9),
    expected_q=_row(0.5, 0.6, 0.8),
    **_off_policy(1.5, 0.5, 1.2),
    **ROW,
  )
  np.testing.assert_allclose(got, [[0.8, 0.9, 1.0]], rtol=1e-6)


# rlax's numbers.


def _padded(lengths):
  """A sequence a row, and a row's sequence said once."""
  places = [(row, slice(length)) for row, length in enumerate(lengths)]
  ids = np.arange(len(lengths), dtype=np.int32)[:, None]
  return places, (len(lengths), max(lengths)), ids


def _packed(lengths):
  """All in one row, every second place being an observation."""
  ends = np.cumsum(lengths) * 2
  places = [(0, slice(e - 2 * n, e, 2)) for n, e in zip(lengths, ends)]
  shape = (1, int(ends[-1]) + 3)
  ids = np.full(shape, -4, np.int32)
  for sequence, place in enumerate(places):
    ids[place] = sequence
  return places, shape, ids


def _arranged(file, arrange, chosen):
  """Columns of the chosen sequences of a file, and its results."""
  lengths = file['length'][chosen].tolist()
  starts = (np.cumsum(file['length']) - file['length'])[chosen]
  places, shape, ids = arrange(lengths)
  columns = {'mask': np.zeros(shape, bool)}
  for key in file.files:
    if '/' not in key:
      continue
    columns[key] = np.full(shape, np.nan if key[:2] == 'in' else 0.0)
    for place, start, length in zip(places, starts, lengths):
      columns['mask'][place] = True
      columns[key][place] = file[key][start : start + length]
  return columns, levels.Level(jnp.asarray(ids), len(lengths))


@functools.partial(jax.jit, static_argnums=(2, 3))
def _all(columns, seq, gamma, lam):
  rewards, value = columns['in/rewards'], columns['in/value']
  old_logp = columns['in/log_ratio'] - 2
  policies = old_logp, jnp.full_like(old_logp, -2)
  whole = columns['mask'], seq
  target = traces.vtrace(rewards, value, *policies, *whole, gamma=gamma)
  return {
    'gae': returns.gae(rewards, value, *whole, gamma=gamma, lam=lam),
    'vtrace': traces.vtrace(
      rewards, value, *policies, *whole, gamma=gamma, lam=lam
    ),
    'vtrace_advantage': traces.vtrace_advantage(
      rewards, value, target, *policies, *whole, gamma=gamma
    ),
    'retrace': traces.retrace(
      rewards,
      columns['in/q'],
      columns['in/expected_q'],
      *policies,
      *whole,
      gamma=gamma,
      lam=lam,
    ),
  }


@pytest.mark.parametrize('arrange', [_padded, _packed])
def test_equal_those_of_rlax(arrange, x64):
  file = np.load(GOLDEN)
  pairs = set(zip(file['gamma'].tolist(), file['lam'].tolist()))
  assert len(pairs) == 4
  for gamma, lam in pairs:
    chosen = np.flatnonzero((file['gamma'] == gamma) & (file['lam'] == lam))
    columns, seq = _arranged(file, arrange, chosen)
    for name, got in _all(columns, seq, gamma, lam).items():
      want = columns[f'out/{name}']
      np.testing.assert_allclose(got, want, atol=1e-12, err_msg=name)


# The results of rlax -> the recipes whose credit these kernels are.
CREDIT: dict[str, tuple[str, ...]] = {
  'gae': (
    'ppo.ppo', 'ppo.vc_ppo', 'ppo.categorical', 'ppo.reft', 'ppo.starpo',
    'ppo.starpo_s', 'ppo.psgpo',
  ),
  'vtrace': ('ppo.vtrace',),
  'vtrace_advantage': ('ppo.vtrace',),
}  # fmt: skip


@pytest.mark.parametrize('name', CREDIT)
def test_recipes_credit_by_what_equals_rlax(name):
  kernel = returns.gae if name == 'gae' else getattr(traces, name)
  for recipe in CREDIT[name]:
    chain = compose.steps(methods.make(recipe).advantage)
    assert kernel in [binding.function_of(k) for _, k in chain], recipe


# What they reduce to.

SHAPE, NUM = (2, 8), 4


def _random(seed):
  rng = np.random.default_rng(seed)
  names = ('rewards', 'value', 'q', 'expected_q', 'log_ratio')
  columns = {f'in/{n}': rng.normal(size=SHAPE) for n in names}
  columns = {n: x.astype(np.float32) for n, x in columns.items()}
  columns['mask'] = rng.random(SHAPE) < 0.7
  half = np.arange(8) // 4
  ids = (half + 2 * np.arange(2)[:, None]).astype(np.int32)
  return columns, levels.Level(jnp.asarray(ids), NUM)


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(
  seed=st.integers(0, 2**32 - 1), lam=st.sampled_from([0.0, 0.7, 1.0])
)
def test_on_policy_vtrace_is_the_lambda_return(seed, lam):
  columns, seq = _random(seed)
  columns['in/log_ratio'] = np.zeros(SHAPE, np.float32)
  made = _all(columns, seq, 0.9, lam)
  value = np.where(columns['mask'], columns['in/value'], 0)
  np.testing.assert_allclose(made['vtrace'] - value, made['gae'], atol=1e-5)
  if lam == 1:
    np.testing.assert_allclose(made['vtrace_advantage'], made['gae'], atol=1e-5)


def _slow(columns, own, gamma, lam):
  """(vs, policy term, Retrace) of one sequence's own tokens, summed forward."""
  n = len(own)
  names = ('rewards', 'value', 'q', 'expected_q', 'log_ratio')
  reward, value, q, expected, log_ratio = (
    [float(columns[f'in/{name}'][t]) for t in own] + [0.0] for name in names
  )
  cut = [min(1.0, np.exp(x)) for x in log_ratio]
  temporal = [
    cut[t] * (reward[t] + gamma * value[t + 1] - value[t]) for t in range(n)
  ]
  surprise = [reward[t] + gamma * expected[t + 1] - q[t] for t in range(n)]

  def traced(t, errors, decay, first):
    """Errors from t on, discounted by the traces from `first` on."""
    return sum(
      decay ** (k - t) * np.prod(cut[first : k + first - t]) * errors[k]
      for k in range(t, n)
    )

  target = [value[t] + traced(t, temporal, gamma * lam, t) for t in range(n)]
  whole = [value[t] + traced(t, temporal, gamma, t) for t in range(n)] + [0.0]
  policy = [
    cut[t] * (reward[t] + gamma * whole[t + 1] - value[t]) for t in range(n)
  ]
  action = [q[t] + traced(t, surprise, gamma * lam, t + 1) for t in range(n)]
  return target, policy, action


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(
  seed=st.integers(0, 2**32 - 1), lam=st.sampled_from([0.0, 0.7, 1.0])
)
def test_equal_forward_sums_over_the_policys_tokens(seed, lam):
  columns, seq = _random(seed)
  mask, ids = columns['mask'], np.asarray(seq.ids)
  fill = {n: np.where(mask, x, np.nan) for n, x in columns.items() if '/' in n}
  fill = {n: x.astype(np.float32) for n, x in fill.items()}
  got = _all({**fill, 'mask': mask}, seq, 0.9, lam)
  want = np.zeros((3, *SHAPE))
  for sequence in range(NUM):
    own = [t for t in np.ndindex(SHAPE) if mask[t] and ids[t] == sequence]
    for column, values in zip(want, _slow(columns, own, 0.9, lam)):
      for token, value in zip(own, values):
        column[token] = value
  for name, column in zip(('vtrace', 'vtrace_advantage', 'retrace'), want):
    np.testing.assert_allclose(got[name], column, atol=2e-5, err_msg=name)


def test_caps():
  columns = {
    'rewards': _row(0, 0, 1),
    'old_value': _row(0, 0, 0),
    **_off_policy(3, 3, 3),
    **ROW,
  }
  kernel = functools.partial(traces.vtrace, gamma=1.0)
  got = kernel(**columns, delta_cap=2.0, trace_cap=1.5)
  np.testing.assert_allclose(got, [[4.5, 3, 2]], rtol=1e-6)
  # A policy that would never sample a token cuts what comes after it.
  gone = {**columns, **_off_policy(1, 1, 1)}
  gone['old_logp'] = gone['old_logp'].at[0, 1].set(-1e9)
  np.testing.assert_allclose(kernel(**gone), [[0, 0, 1]], atol=1e-6)


def test_no_gradient_passes():
  columns, seq = _random(4)
  mask = columns.pop('mask')

  def total(columns):
    made = _all({**columns, 'mask': mask}, seq, 0.9, 0.8)
    return sum(jnp.sum(x) for x in made.values())

  for got in jax.tree.leaves(jax.grad(total)(columns)):
    np.testing.assert_array_equal(got, np.zeros(SHAPE))
