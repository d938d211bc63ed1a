"""Traces of steps: as many as were asked for, after the first."""

import pathlib

import jax
import jax.numpy as jnp
import pytest

from arl.train import tracing


def written(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(folder.rglob('*.xplane.pb'))


def run(folder, steps, count, start=0):
  double = jax.jit(lambda x: 2 * x)
  with tracing.track(folder, start, count) as trace:
    for step in range(start, steps):
      trace(step)
      double(jnp.ones(8)).block_until_ready()


def test_nothing_is_traced_unless_asked(tmp_path):
  run(tmp_path, 3, 0)
  assert not written(tmp_path)
  with (
    pytest.raises(ValueError, match='give 0 or more'),
    tracing.track(tmp_path, 0, -1),
  ):
    pass


@pytest.mark.parametrize('steps', [5, 3])
def test_some_steps_are_traced_even_if_the_run_ends_first(tmp_path, steps):
  run(tmp_path, steps, 2)
  (path,) = written(tmp_path)
  assert tracing.FOLDER in path.parts
  text = path.read_bytes()
  assert b'step' in text and path.stat().st_size > 1000


def test_an_error_ends_the_trace(tmp_path):
  with pytest.raises(KeyError), tracing.track(tmp_path, 4, 9) as trace:
    trace(4)
    trace(5)
    raise KeyError
  assert len(written(tmp_path)) == 1
  run(tmp_path / 'again', 4, 1)  # and another can begin
  assert len(written(tmp_path / 'again')) == 1
