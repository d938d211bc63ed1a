"""The critic that a run begins with."""

import pathlib

import jax
import ml_collections

from arl.models import critics, functional, heads, hf, hf_place
from arl.train import export

OWN = 'own'


def add(
  params: functional.Params,
  block: ml_collections.ConfigDict,
  width: int,
  place: hf_place.Place | None = None,
) -> functional.Params:
  """The params of a policy, and of its critic.

  Args:
    params: of the policy.
    block: config.model, whose `critic` says where the critic comes from: '' is
      a fresh value head on the policy's trunk, 'own' one on a copy of it, and
      anything else the folder of a critic: that of the policy itself, for a
      head on its trunk, or another's.
    width: of the policy's states.
    place: where on a mesh the parameters of a folder lie; None for one device.

  Raises:
    ValueError: the folder has no critic, or one of other sizes or bins.
  """
  fresh = heads.with_value_head(params, width, block.value_bins)
  if not block.critic:
    return fresh
  if block.critic == OWN:
    return critics.with_trunk(fresh)
  folder = export.critic_folder(block.critic)
  head = export.load_head(folder)
  if folder.resolve() != pathlib.Path(block.path).resolve():
    loaded = hf.load(folder, dtype=block.dtype, cast='float32', place=place)
    head[critics.TRUNK] = loaded.params
  made = {**params, functional.VALUE_HEAD: head}
  expected = jax.eval_shape(critics.alone, fresh)
  _check(critics.alone(made), expected, block.critic)
  return made


def _check(given, expected, folder) -> None:
  shapes = [functional.shapes(critic) for critic in (given, expected)]
  for name in sorted(shapes[0].keys() | shapes[1].keys()):
    found, wanted = (each.get(name, 'missing') for each in shapes)
    if found != wanted:
      raise ValueError(
        f'config.model.critic: in {folder} {name} is {found}, but this run has'
        f" {wanted}; give a critic of the policy's sizes, and its value_bins."
      )
