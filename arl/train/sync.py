"""Handing weights to SGLang servers, and proving that they arrived.

A server reports success for tensors whose names it does not know, and goes on
answering from prefixes that it computed with the old weights, unless it is told
to forget them. So an update is believed only after every server has named the
version, computed a prompt anew, and given the trainer's own log-probs for it.
Whatever fails raises, and a run that trains on what it sampled stops.

Parameters are those of the whole policy: adapters are merged before, and never
shipped beside a base that holds them already.
"""

import contextlib
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors

from arl.models import functional, heads, hf, hf_files, sizes
from arl.rollout import engine as engine_lib
from arl.rollout import sglang
from arl.rollout.sglang import worker as sglang_worker
from arl.train import export, sync_tensors

MODES = ABORT, IN_PLACE, RETRACT = engine_lib.PAUSES

_HEAD = 'lm_head.weight'
_PAUSE = 60.0  # seconds to pause or continue


class SyncError(RuntimeError):
  """Servers do not hold the weights that they should, or nobody knows."""


class Probe(NamedTuple):
  """What servers must agree on with the trainer.

  Attributes:
    ids: a prompt.
    logp: parameters -> float32 [n], at temperature 1, of each id of the prompt
      given those before it; the first is not looked at.
    tolerance: the largest difference; 1e-4 in float32, where the servers hold
      bfloat16 a hundred times that.
  """

  ids: Sequence[int]
  logp: Callable[[functional.Params], np.ndarray]
  tolerance: float


def probe(
  model: functional.Model, ids: Sequence[int], tolerance: float
) -> Probe:
  """The probe with the trainer's model for its log-probs."""
  tokens = jnp.asarray(ids, jnp.int32)[None]

  @jax.jit
  def score(params):
    positions = jnp.arange(tokens.shape[1])[None]
    hidden = model.apply(params, tokens, positions, jnp.ones_like(tokens))
    want = frozenset({'logp'})
    made = heads.columns(model, params, hidden, tokens, want, temperature=1.0)
    return made['logp'][0]

  def logp(params):
    return np.asarray(score(export.policy_params(params)))

  return Probe(ids, logp, tolerance)


def disk(
  engine: sglang.SglangEngine,
  params: functional.Params,
  version: int,
  *,
  size: sizes.Sizes,
  folder: str | pathlib.Path,
  probe: Probe,
  mode: str = RETRACT,
) -> None:
  """Publishes through a folder that the trainer and all servers see.

  Args:
    engine: of the servers.
    params: of the policy; a value head is left out.
    version: of these parameters, a number of its own.
    size: of the policy.
    folder: where the weights are written; those of this version stay, as the
      servers may read them again, those of earlier ones are removed.
    probe: what proves that they arrived.
    mode: one of MODES.

  Raises:
    SyncError: not every server took them, or holds them.
  """
  home = pathlib.Path(folder).absolute()
  weights = home / f'version-{version}'

  def transfer(flush: bool) -> None:
    body = {'model_path': str(weights), 'weight_version': str(version)}
    engine.control('/update_weights_from_disk', {**body, 'flush_cache': flush})

  shutil.rmtree(weights, ignore_errors=True)
  hf.save(weights, _of_policy(params), size)
  check_names(engine, hf_files.read(weights).keys(), size)
  _publish(engine, params, version, probe, mode, transfer)
  for other in home.glob('version-*'):
    if other != weights:
      shutil.rmtree(other)


def tensors(
  engine: sglang.SglangEngine,
  params: functional.Params,
  version: int,
  *,
  size: sizes.Sizes,
  probe: Probe,
  mode: str = RETRACT,
) -> None:
  """Publishes by value, inside the calls: for servers that share no disk.

  All weights travel as one piece of text, so this is for small models; the
  servers may not be data-parallel. For arguments and errors see `disk`.
  """
  with tempfile.TemporaryDirectory() as scratch:
    hf.save(pathlib.Path(scratch) / 'w', _of_policy(params), size)
    arrays = hf_files.read(pathlib.Path(scratch) / 'w')
  check_names(engine, arrays.keys(), size)
  (ranks,) = set(engine.met.ranks)
  body = {
    'serialized_named_tensors': [sync_tensors.encode(arrays)] * ranks,
    'weight_version': str(version),
  }

  def transfer(flush: bool) -> None:
    with _session(engine):
      engine.control(
        '/update_weights_from_tensor', {**body, 'flush_cache': flush}
      )

  _publish(engine, params, version, probe, mode, transfer)


def _of_policy(params: functional.Params) -> functional.Params:
  return jax.device_get(export.policy_params(params))


@contextlib.contextmanager
def _session(engine: sglang.SglangEngine) -> Iterator[None]:
  """A session of updates, which servers before 0.5.21 do not know."""
  try:
    engine.control('/begin_weight_update', {})
  except sglang_worker.ServerError as error:
    if error.status != 404:
      raise
    yield
    return
  try:
    yield
  except BaseException:
    with contextlib.suppress(sglang_worker.ServerError):
      engine.control('/end_weight_update', {})
    raise
  engine.control('/end_weight_update', {})


def check_names(
  engine: sglang.SglangEngine, names: Iterable[str], size: sizes.Sizes
) -> None:
  """Compares tensors with those that the servers loaded at first.

  A server whose folder cannot be read from here is left to the probe.

  Raises:
    SyncError: a server lacks a tensor, or has another.
  """
  free = {_HEAD} if size.tied else set()
  for folder in map(pathlib.Path, filter(None, engine.met.folders)):
    served: set[str] = set()
    for file in sorted(folder.glob('*.safetensors')):
      with safetensors.safe_open(file, framework='np') as opened:
        served |= set(opened.keys())
    wrong = (served ^ set(names)) - free
    if served and wrong:
      raise SyncError(
        f'the servers were started with {folder}, which differs from the'
        f' trained model in {sorted(wrong)[:5]} ({len(wrong)}); serve the model'
        ' that is trained.'
      )


def _publish(
  engine: sglang.SglangEngine,
  params: functional.Params,
  version: int,
  probe: Probe,
  mode: str,
  transfer: Callable[[bool], None],
) -> None:
  """Pauses every server, transfers, continues, and verifies."""
  if mode not in MODES:
    raise ValueError(f'sync: mode is {mode!r}; set it to one of {MODES}.')
  expected = np.asarray(probe.logp(params))
  # The last verification left the prompt in the caches under this; nothing is
  # asked now, since it would wait behind all that runs.
  salt = 'arl-probe'
  try:
    engine.control('/pause_generation', {'mode': mode}, _PAUSE)
    try:
      # What runs on in place needs its cache; other requests get a new salt.
      transfer(mode != IN_PLACE)
    finally:
      engine.control('/continue_generation', {}, _PAUSE)
  except sglang_worker.ServerError as error:
    raise SyncError(
      f'the update to version {version} failed: {error}. Servers may hold'
      ' weights of different versions; restart them and resume the run.'
    ) from error
  if mode == IN_PLACE:
    salt = f'{salt}-{secrets.token_hex(4)}'
  verify(engine, version, probe, expected, salt)
  engine.holds(version)


def verify(
  engine: sglang.SglangEngine,
  version: int,
  probe: Probe,
  expected: np.ndarray,
  salt: str,
) -> None:
  """Proves that every server holds a version and computes with it.

  Args:
    engine: of the servers.
    version: that they should hold.
    probe: the prompt and the tolerance.
    expected: the trainer's log-probs of the prompt.
    salt: what the prompt may be in the servers' caches under.

  Raises:
    SyncError: one does not.
  """
  try:
    named, seen = engine.versions(), engine.probe(probe.ids, salt)
    scores = engine.score_everywhere(probe.ids)
  except sglang_worker.ServerError as error:
    raise SyncError(
      f'version {version} could not be verified: {error}'
    ) from error
  for worker, name, sample, logp in zip(engine.workers, named, seen, scores):
    where = f'{worker.url} after the update to version {version}'
    if name != str(version) or set(sample.versions.tolist()) != {version}:
      raise SyncError(
        f'{where}: it names {name!r} and samples with {sample.versions}.'
      )
    if sample.cached:
      raise SyncError(
        f'{where}: it kept {sample.cached} tokens of the probe from before.'
      )
    gap = float(np.max(np.abs(logp[1:] - expected[1:])))
    if not gap <= probe.tolerance:
      raise SyncError(
        f'{where}: its log-probs differ from the trainer by {gap:.2g}, more'
        f' than {probe.tolerance:.2g}; the weights did not arrive, or it'
        ' computes in another precision.'
      )
