"""The rotary settings of a Hugging Face config.json, in both spellings."""

from collections.abc import Mapping
from typing import Any

from arl.models import rope, sizes

Config = Mapping[str, Any]


def read(published: Config) -> sizes.Rope:
  """Rotary settings in either spelling; of both, they must agree.

  Raises:
    ValueError: a type that is not implemented, a setting that is not read or
      lacking, or two spellings that differ.
  """
  found = {}
  if published.get('rope_parameters') is not None:
    found['rope_parameters'] = _spelled(
      dict(published['rope_parameters']), published
    )
  if published.get('rope_scaling') is not None or not found:
    found['rope_scaling'] = _spelled(
      dict(published.get('rope_scaling') or {}), published
    )
  first, *others = found.values()
  if any(other != first for other in others):
    raise ValueError(
      f'config.json has rope_scaling = {published["rope_scaling"]!r} and '
      f'rope_parameters = {published["rope_parameters"]!r}; make them agree.'
    )
  return first


def write(settings: sizes.Rope) -> dict[str, Any]:
  """The keys of a config.json that say them."""
  fields = rope.FIELDS[settings.type]
  scaling = {
    'rope_type': settings.type,
    **{name: getattr(settings, name) for name in fields},
  }
  scaling = {name: v for name, v in scaling.items() if v is not None}
  # Both spellings: readers of each would take a default for the other.
  return {
    'rope_theta': settings.theta,
    'rope_scaling': None if settings.type == 'default' else scaling,
    'rope_parameters': {'rope_theta': settings.theta, **scaling},
  }


def _spelled(given: dict[str, Any], published: Config) -> sizes.Rope:
  """One dict of rotary settings, every key of it read."""
  alias, kind = given.pop('type', None), given.pop('rope_type', None)
  kind = kind or alias or 'default'
  if (alias or kind) != kind or kind not in rope.FIELDS:
    raise ValueError(
      f'config.json has rope type {alias or kind!r}, but arl implements '
      f'{list(rope.FIELDS)}; choose another model.'
    )
  top = published.get('rope_theta')
  theta = given.pop('rope_theta', None) or top or 10_000.0
  partial = given.pop('partial_rotary_factor', None)
  partial = partial or published.get('partial_rotary_factor') or 1.0
  fields = rope.FIELDS[kind]
  unread = sorted(
    k for k, v in given.items() if k not in fields and v is not None
  )
  if unread or partial != 1.0 or top not in (None, theta):
    raise ValueError(
      f'config.json has rope settings {given!r}, theta {top!r} and {theta!r}, '
      f'partial_rotary_factor {partial!r}; of type {kind!r} arl reads only '
      f'{["rope_theta", *fields]}, once, over whole heads.'
    )
  for key in fields if kind != 'yarn' else fields[:2]:
    if given.get(key) is None:
      raise ValueError(f'rope type {kind!r} needs {key!r} in config.json.')
  settings = {k: v for k, v in given.items() if v is not None}
  return sizes.Rope(float(theta), kind, **settings)
