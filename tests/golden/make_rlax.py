"""Remakes returns_rlax_0_1_9.npz, in an environment of its own:

  pip install rlax==0.1.9
  python tests/golden/make_rlax.py

Sequences without gaps, of value 0 after their ends, stand one after another in
`in/NAME` and `out/NAME`; `length`, `gamma` and `lam` hold a number a sequence.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import rlax

LENGTHS = (1, 2, 5, 9, 16)
DISCOUNTS = ((1.0, 1.0), (1.0, 0.95), (0.9, 0.8), (0.97, 0.0))  # gamma, lambda
FILE = pathlib.Path(__file__).parent / 'returns_rlax_0_1_9.npz'


def _after(x):
  """What holds one step later; 0 after the end."""
  return jnp.append(x[1:], 0.0)


def _inputs(rng, length):
  names = ('rewards', 'value', 'q', 'expected_q')
  columns = {name: rng.normal(size=length) for name in names}
  columns['log_ratio'] = 0.7 * rng.normal(size=length)
  return columns


def _results(columns, gamma, lam):
  rewards, value, q, expected_q, log_ratio = map(jnp.asarray, columns.values())
  discounts, ratio = jnp.full_like(rewards, gamma), jnp.exp(log_ratio)
  steps = value, _after(value), rewards, discounts, ratio
  made = {
    'gae': rlax.truncated_generalized_advantage_estimation(
      rewards, discounts, lam, jnp.append(value, 0.0)
    ),
    'vtrace': value + rlax.vtrace(*steps, lam),
    'vtrace_advantage': rlax.vtrace_td_error_and_advantage(
      *steps, 1.0
    ).pg_advantage,
    'retrace': rlax.general_off_policy_returns_from_q_and_v(
      q[1:],
      _after(expected_q),
      rewards,
      discounts,
      lam * jnp.minimum(1.0, ratio[1:]),
    ),
  }
  return {name: np.asarray(x) for name, x in made.items()}


def main():
  jax.config.update('jax_enable_x64', True)
  rng, made = np.random.default_rng(0), []
  for gamma, lam in DISCOUNTS:
    for length in LENGTHS:
      columns = _inputs(rng, length)
      results = _results(columns, gamma, lam)
      arrays = {f'in/{name}': x for name, x in columns.items()}
      arrays |= {f'out/{name}': x for name, x in results.items()}
      arrays |= {'length': [length], 'gamma': [gamma], 'lam': [lam]}
      made.append(arrays)
  np.savez_compressed(
    FILE, **{name: np.concatenate([x[name] for x in made]) for name in made[0]}
  )


if __name__ == '__main__':
  main()
