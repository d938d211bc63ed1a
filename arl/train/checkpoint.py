"""Checkpoints of a run: its state and what it knew, written by orbax.

Restoring is strict: a leaf that is missing, left over, of another shape or of
another dtype is an error that names it. Nothing is filled in or cast. A digest
of each leaf, and one of the facts, tell whether what is read is what was saved;
where it is not, the checkpoint cannot be read.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

from arl.train import processes

# Seconds that a write may take. Orbax counts them, and those until its threads
# have made folders, by the time of day. That may jump, which must not look like
# a write that takes too long.
_PATIENCE = 7 * 24 * 3600


def _manifest(state: Any) -> dict[str, list]:
  """Path, shape and dtype of each leaf."""
  leaves = jax.tree_util.tree_leaves_with_path(state)
  return {
    jax.tree_util.keystr(path): [list(x.shape), str(x.dtype)]
    for path, x in leaves
  }


def _digests(state: Any) -> dict[str, int]:
  """A checksum of each leaf, by its path."""
  sums = jax.device_get(jax.tree.map(_checksum, state))
  leaves = jax.tree_util.tree_leaves_with_path(sums)
  return {jax.tree_util.keystr(path): int(x) for path, x in leaves}


def _seal(facts: dict[str, Any]) -> str:
  """Stands for facts as JSON has them."""
  text = json.dumps(facts, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def _check(saved: dict, state: Any, where: str) -> None:
  wanted = _manifest(state)
  for path in [*wanted, *saved]:
    if saved.get(path) != wanted.get(path):
      raise ValueError(
        f'checkpoint {where}: {path} is {saved.get(path, "missing")} there and'
        f' {wanted.get(path, "missing")} in this run; resume with the model and'
        ' optimizer it was written with, or choose another workdir.'
      )


@jax.jit
def _checksum(x: jax.Array) -> jax.Array:
  """A uint32 that depends on every bit and on its place."""
  as_bits = {2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize]
  bits = jax.lax.bitcast_convert_type(x, as_bits).astype(jnp.uint32)
  place = jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape)
  return jnp.sum(bits * (2 * place + 1), dtype=jnp.uint32)


def _sealed(meta: dict[str, Any]) -> None:
  """Raises ValueError for facts that are not as they were saved."""
  facts = dict(meta)
  if facts.pop('seal', None) != _seal(facts):
    raise ValueError('its facts are not those that were saved')


def _unharmed(digests: dict[str, int], state: Any) -> None:
  """Raises ValueError for a state that is not as it was saved."""
  now = _digests(state)
  harmed = [path for path, digest in digests.items() if now[path] != digest]
  if harmed:
    raise ValueError(f'{", ".join(harmed)} is not what was saved')


def _reason(error: Exception) -> str:
  """What an error says, in a line; TensorStore adds all that it knows."""
  first = str(error).strip().partition('\n')[0]
  return first.partition(' See full TensorStore details')[0]


def fingerprint(params: Any) -> str:
  """Twelve hex digits that tell parameters of 16 or 32 bits apart."""
  sums = jax.device_get(jax.tree.map(_checksum, params))
  facts = [_manifest(params), [int(x) for x in jax.tree.leaves(sums)]]
  return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


class Checkpoints:
  """The checkpoints of one run, newest last."""

  def __init__(self, workdir: str | os.PathLike, *, keep: int):
    """Opens workdir/checkpoints.

    Args:
      workdir: of the run.
      keep: how many to keep.
    """
    self.folder = pathlib.Path(workdir).absolute() / 'checkpoints'
    self._manager = ocp.CheckpointManager(
      self.folder,
      options=ocp.CheckpointManagerOptions(
        max_to_keep=keep,
        create=True,
        async_options=ocp.AsyncOptions(
          timeout_secs=_PATIENCE, create_directories_asynchronously=False
        ),
      ),
      item_names=('state', 'meta'),
    )

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes the state and JSON-serializable facts, in the background.

    The state may be changed or donated as soon as this returns. An error of the
    write before is raised here or in `close`.

    Raises:
      ValueError: there is a checkpoint of this step or of a later one.
      TypeError: the facts are no JSON.
      RuntimeError: this one, or the one before, could not be written.
    """
    facts = {
      **meta,
      'step': step,
      'manifest': _manifest(state),
      'digests': _digests(state),
    }
    facts = json.loads(json.dumps(facts))  # as they will be read
    facts.pop('seal', None)  # of the checkpoint that a resumed run goes on from
    facts['seal'] = _seal(facts)
    asked = ocp.args.Composite(
      state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave(facts)
    )
    with self._writing():
      written = self._manager.save(step, args=asked)
    if not written:
      raise ValueError(
        f'checkpoint {self.folder}/{step} was not written: there is one of step'
        f' {self._manager.latest_step()}; resume from it, or choose another'
        ' workdir.'
      )

  def resume(
    self,
    state: Any,
    agree: Callable[[dict[str, Any]], None],
    note: Callable[[str], None] = print,
  ) -> tuple[dict[str, Any], Any] | None:
    """The facts and the state of the newest checkpoint that can be read.

    One that cannot be read is moved aside, to workdir/unreadable, once an older
    one could.

    Args:
      state: of the shapes, dtypes and places that are wanted.
      agree: told the facts before the state is read; it raises if they are of
        another run.
      note: told of a checkpoint that cannot be read.

    Returns:
      (facts, state), or None where there is no checkpoint.

    Raises:
      ValueError: the checkpoint is of another state, or there are checkpoints
        and none can be read.
    """
    steps = sorted(self._manager.all_steps(), reverse=True)
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
    for i, step in enumerate(steps):
      meta = self._read(step, 'meta', ocp.args.JsonRestore(), _sealed, note)
      if meta is None:
        continue
      agree(meta)
      _check(meta['manifest'], state, f'{self.folder}/{step}')
      unharmed = functools.partial(_unharmed, meta['digests'])
      asked = ocp.args.StandardRestore(like)
      found = self._read(step, 'state', asked, unharmed, note)
      if found is not None:
        self._set_aside(steps[:i])
        return dict(meta), found
    if steps:
      raise ValueError(
        f'none of the checkpoints {steps} in {self.folder} can be read; move'
        ' the folder away to start anew.'
      )
    return None

  def _read(self, step: int, item: str, args: Any, confirm, note) -> Any:
    """One item of a checkpoint; None, and a note, if it cannot be read.

    What a damaged file raises is up to whoever reads it.
    """
    try:
      asked = ocp.args.Composite(**{item: args})
      found = self._manager.restore(step, args=asked)[item]
      confirm(found)
      return found
    except Exception as error:
      where = f'{self.folder}/{step}'
      note(f'checkpoint {where} cannot be read: {_reason(error)}')
      return None

  def _set_aside(self, steps: list[int]) -> None:
    for step in steps:
      aside = self.folder.parent / 'unreadable' / str(step)
      if processes.is_first():
        aside.parent.mkdir(exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        (self.folder / str(step)).rename(aside)
    if steps:
      processes.everybody(None)  # none looks before they are away
      self._manager.reload()

  @contextlib.contextmanager
  def _writing(self) -> Iterator[None]:
    """Says of whatever keeps a checkpoint from being written what it costs."""
    try:
      yield
    except Exception as error:
      raise RuntimeError(
        f'a checkpoint could not be written to {self.folder}:'
        f' {_reason(error)}; those'
        ' before it are whole: mend what is wrong there, and run the same'
        ' command again to go on from the newest.'
      ) from error

  def close(self) -> None:
    """Waits for what is being written.

    Raises:
      RuntimeError: it could not be.
    """
    with self._writing():
      self._manager.wait_until_finished()
    self._manager.close()
