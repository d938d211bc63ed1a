"""Compares golden numbers of other libraries with arl, key by key, in float64.

  python tests/golden/check.py FILE.npz [FILE.json]
  python tests/golden/check.py FOLDER

A file holds inputs `in/NAME` and results `out/KIND/NAME`; the json beside it
gives the settings of a NAME. A folder is a checkpoint with expected outputs.
One line a key: the largest absolute error and ok or MISMATCH. Keys without a
row below are named as unknown. Exits 1 on a mismatch or if nothing is known,
2 on wrong usage.

To cover a new method, add a row to one of the tables.
"""

import functools
import json
import pathlib
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import levels
from arl.kernels import (
  advantages,
  aggregations,
  divergences,
  returns,
  surrogates,
)
from arl.methods import binding, compose, grpo, reinforce, sequence, terms

TOLERANCE = 1e-6

# Our column <- the file's `in/NAME`.
COLUMNS = {
  'logp': 'logp',
  'old_logp': 'logp_old',
  'rollout_logp': 'logp_rollout',
  'ref_logp': 'logp_ref',
  'rewards': 'token_reward',
  'value': 'values',
  'old_value': 'values_old',
  'returns': 'returns',
  'advantage': 'adv',
}


def _aggregate(settings, width):
  """verl's aggregations: its norm is by the width of the mask, over rows."""
  return {
    'token-mean': aggregations.token_mean,
    'seq-mean-token-mean': aggregations.sequence_mean,
    'seq-mean-token-sum': aggregations.sequence_sum,
    'seq-mean-token-sum-norm': functools.partial(
      aggregations.constant, length=width
    ),
  }[settings['agg']]


def _bounds(settings):
  return {
    'low': settings['clip_ratio_low'],
    'high': settings['clip_ratio_high'],
  }


def _clip(settings):
  return grpo.dapo(**_bounds(settings))


def _dual_clip(settings):
  return _clip(settings)._replace(
    surrogate=functools.partial(
      surrogates.dual_clip, **_bounds(settings), cap=settings['clip_ratio_c']
    )
  )


# out/loss/NAME and out/grad/NAME: settings -> objective. The advantage is the
# file's, the aggregation that of the settings.
OBJECTIVES = {
  'ppo_clip/token-mean': _clip,
  'ppo_clip/seq-mean-token-mean': _clip,
  'ppo_clip/seq-mean-token-sum': _clip,
  'ppo_clip/seq-mean-token-sum-norm': _clip,
  'dapo_clip_higher': _clip,
  'dual_clip': _dual_clip,
  'gspo': lambda settings: sequence.gspo(**_bounds(settings)),
  'cispo': lambda settings: grpo.cispo(**_bounds(settings)),
  'reinforce': lambda settings: reinforce.rloo(),
}

# out/loss/NAME: terms. verl's default critic: half the square, clip 0.2. Its
# entropy is a value, ours a bonus: hence the sign.
TERMS = {
  'value_clipped': terms.critic(1.0, gamma=1.0, lam=1.0, clip=0.2),
  'entropy_token_mean': terms.entropy(-1.0),
}


def _gae(kernel, gamma, lam):
  """verl's GAE reads the values of the rollout from `in/values`."""
  bound = functools.partial(kernel, gamma=gamma, lam=lam)
  return binding.on(bound, old_value='value')


def _whitened(gamma, lam):
  estimate = _gae(returns.gae, gamma, lam)
  return (('advantage', estimate), ('advantage', returns.whiten))


# out/adv/NAME and out/ret/NAME: kernels, or steps. Without a critic verl's
# returns are its advantages.
GROUP_ADVANTAGES = {
  'grpo': advantages.group_normalize,
  'dr_grpo': advantages.group_center,
  'rloo': advantages.leave_one_out,
}
ADVANTAGES = {
  **GROUP_ADVANTAGES,
  'gae_g1_l0.95_whitened': _whitened(1.0, 0.95),
  'gae_g0.97_l0.9_whitened': _whitened(0.97, 0.9),
}
RETURNS = {
  **GROUP_ADVANTAGES,
  'gae_g1_l0.95_whitened': _gae(returns.lambda_return, 1.0, 0.95),
  'gae_g0.97_l0.9_whitened': _gae(returns.lambda_return, 0.97, 0.9),
}

# out/kl/NAME. verl's low_var_kl is k3 cut to [-10, 10], which ours is not, and
# we have no absolute log-ratio.
DIVERGENCES = {
  'k1': divergences.k1,
  'k2': divergences.k2,
  'k3': divergences.k3,
}

KINDS: dict[str, Any] = {
  'loss': {**OBJECTIVES, **TERMS},
  'grad': OBJECTIVES,
  'adv': ADVANTAGES,
  'ret': RETURNS,
  'kl': DIVERGENCES,
}


class Golden(NamedTuple):
  """A file: its inputs as columns, its results by KIND/NAME, its settings."""

  columns: dict
  results: dict
  settings: dict


def _entropy(logits):
  logp = jax.nn.log_softmax(logits)
  return -jnp.sum(jnp.exp(logp) * logp, axis=-1)


def _load(path: pathlib.Path, settings: pathlib.Path) -> Golden:
  with np.load(path) as file:
    arrays = dict(file)
  results = {
    name.removeprefix('out/'): array
    for name, array in arrays.items()
    if name.startswith('out/')
  }
  columns: dict[str, Any] = {
    ours: jnp.asarray(arrays['in/' + theirs])
    for ours, theirs in COLUMNS.items()
    if 'in/' + theirs in arrays
  }
  mask = arrays['in/mask'] > 0
  columns['mask'] = jnp.asarray(mask)
  if 'in/logits' in arrays:
    columns['entropy'] = _entropy(jnp.asarray(arrays['in/logits']))
  rows = np.arange(len(mask))
  for name, ids in (('seq', rows), ('group', arrays.get('in/group', rows))):
    column = np.broadcast_to(ids[:, None], mask.shape[:2]).astype(np.int32)
    columns[name] = levels.Level(jnp.asarray(column), int(ids.max()) + 1)
  return Golden(columns, results, json.loads(settings.read_text()))


def _loss(golden: Golden, name: str):
  """The loss of a row and its gradient with respect to logp."""
  if name in TERMS:
    part = TERMS[name]
  else:
    settings = golden.settings[name]
    aggregate = _aggregate(settings, golden.columns['mask'].shape[1])
    part = OBJECTIVES[name](settings)._replace(aggregate=aggregate)
  method = compose.method(part)
  credits: dict[str, dict] = {term.name: {} for term in compose.terms_of(part)}
  weights = method.weigh(golden.columns, credits)

  def loss(logp):
    columns = {**golden.columns, 'logp': logp}
    return method.loss(columns, credits, weights)[0]

  return jax.jit(jax.value_and_grad(loss))(golden.columns['logp'])


def _column(golden: Golden, row):
  """A column on the mask; off it verl leaves what comes out."""
  chain = compose.steps(row)
  made = compose.run(chain, compose.visible(golden.columns))
  return made['advantage']


def _ours(golden: Golden, kind: str, name: str):
  if kind in ('loss', 'grad'):
    return _loss(golden, name)[kind == 'grad']
  return _column(golden, KINDS[kind][name])


def _error(golden: Golden, key: str) -> float:
  """The largest absolute difference of a key; of columns, on the mask."""
  kind, name = key.split('/', 1)
  ours, theirs = np.asarray(_ours(golden, kind, name)), golden.results[key]
  if ours.shape != theirs.shape:
    return float('inf')
  gap = np.abs(ours - theirs)
  if kind not in ('loss', 'grad'):
    gap = gap[np.asarray(golden.columns['mask'])]
  return float(np.max(gap))


def _is_known(key: str) -> bool:
  kind, _, name = key.partition('/')
  return name in KINDS.get(kind, {})


def _report(name: str, error: float, ok: bool) -> bool:
  print(f'{name:40} {error:.1e} {"ok" if ok else "MISMATCH"}')
  return ok


def check_folder(path: pathlib.Path) -> int:
  """Prints a line a comparison of a checkpoint; returns the exit status."""
  import hf_check  # the model is built only if it is asked for

  verdicts = [_report(*each) for each in hf_check.check_folder(path)]
  return 0 if all(verdicts) else 1


def check_file(path: pathlib.Path, settings: pathlib.Path) -> int:
  """Prints a line a key of the file; returns the exit status."""
  golden = _load(path, settings)
  known = [key for key in golden.results if _is_known(key)]
  failed = 0
  for key in known:
    error = _error(golden, key)
    failed += not _report(key, error, error <= TOLERANCE)  # so that nan fails
  for key in sorted(golden.results.keys() - set(known)):
    print(f'{key:40} unknown')
  print(f'{len(known)} keys compared, {failed} differ.')
  return 1 if failed or not known else 0


def main(argv: list[str]) -> int:
  """Checks the file or the folder that `argv` names; returns the status."""
  if len(argv) not in (2, 3) or not pathlib.Path(argv[1]).exists():
    print(__doc__, file=sys.stderr)
    return 2
  path = pathlib.Path(argv[1])
  if path.is_dir():
    return check_folder(path)
  settings = pathlib.Path(argv[2]) if argv[2:] else path.with_suffix('.json')
  with jax.enable_x64(True):
    return check_file(path, settings)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
