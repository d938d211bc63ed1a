"""Checkpoints of a run: its state and what it knew, written by orbax.

Restoring is strict: a leaf that is missing, left over, of another shape or of
another dtype is an error that names it. Nothing is filled in or cast.
"""

import os
import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp


def _manifest(state: Any) -> dict[str, list]:
  """Path, shape and dtype of each leaf."""
  leaves = jax.tree_util.tree_leaves_with_path(state)
  return {
    jax.tree_util.keystr(path): [list(x.shape), str(x.dtype)]
    for path, x in leaves
  }


def _check(saved: dict, state: Any, where: str) -> None:
  wanted = _manifest(state)
  for path in [*wanted, *saved]:
    if saved.get(path) != wanted.get(path):
      raise ValueError(
        f'checkpoint {where}: {path} is {saved.get(path, "missing")} there and'
        f' {wanted.get(path, "missing")} in this run; resume with the model and'
        ' optimizer it was written with, or choose another workdir.'
      )


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
      options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True),
      item_names=('state', 'meta'),
    )

  def save(self, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes the state and JSON-serializable facts, in the background.

    An error of the write before is raised here or in `close`.
    """
    facts = {**meta, 'step': step, 'manifest': _manifest(state)}
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave(facts)
      ),
    )

  def latest(self, note=print) -> dict[str, Any] | None:
    """The facts of the newest checkpoint that can be read; None if none is.

    Args:
      note: told of a checkpoint that cannot be read.

    Raises:
      ValueError: there are checkpoints and none can be read.
    """
    steps = sorted(self._manager.all_steps(), reverse=True)
    for step in steps:
      try:
        args = ocp.args.Composite(meta=ocp.args.JsonRestore())
        return dict(self._manager.restore(step, args=args)['meta'])
      except (OSError, ValueError, KeyError) as error:
        note(f'checkpoint {self.folder}/{step} cannot be read: {error}')
    if steps:
      raise ValueError(
        f'none of the checkpoints {steps} in {self.folder} can be read; move'
        ' the folder away to start anew.'
      )
    return None

  def restore(self, meta: dict[str, Any], state: Any) -> Any:
    """The saved state, placed and typed as `state` is.

    Raises:
      ValueError: it is not a state of this shape.
    """
    step = meta['step']
    _check(meta['manifest'], state, f'{self.folder}/{step}')
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
    args = ocp.args.Composite(state=ocp.args.StandardRestore(like))
    return self._manager.restore(step, args=args)['state']

  def close(self) -> None:
    """Waits for what is being written."""
    self._manager.wait_until_finished()
    self._manager.close()
