"""Parameters and moments that lie on a mesh from the beginning."""

import tracemalloc

import jax
import numpy as np
import optax
import pytest
import tiny

from arl.models import hf, hf_files, sizes, transformer
from arl.train import loading, partition, sharding

AXES = {'fsdp': 2, 'expert': 2, 'tensor': 2}
MIXTURE = sizes.Mixture(experts=4, chosen=2, width=256)
SIZE = sizes.tiny_moe(512)._replace(width=256, layers=6, mixture=MIXTURE)


def place():
  return sharding.place_of(sharding.make_mesh(**AXES))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tiny.write_model(tmp_path_factory.mktemp('m') / 'model', 0, SIZE)


def check_split(params, plain):
  """As the rules say, and of the same bits."""
  tiny.same(params, plain)
  whole, held = 0, 0
  for path, x in jax.tree_util.tree_leaves_with_path(params):
    spec = partition.spec(path, x.shape, x.sharding.mesh.shape)
    assert x.sharding.spec == spec
    whole += x.nbytes
    held += x.addressable_shards[0].data.nbytes
  assert held < 0.2 * whole  # of 8 devices, norms and routers aside


def test_a_folder_is_read_to_its_shards(folder, monkeypatch):
  plain = hf.load(folder, cast='float32').params
  read, get = [], hf_files.Stored.__getitem__

  def spying(self, index):
    made = get(self, index)
    read.append((self, made.size / np.prod(self.shape)))
    return made

  monkeypatch.setattr(hf_files.Stored, '__getitem__', spying)
  params = hf.load(folder, cast='float32', place=place()).params
  check_split(params, plain)
  assert max(share for x, share in read if len(x.shape) > 1) <= 0.5
  # Each part once, though several devices hold some.
  read_of = {id(x): 0.0 for x, _ in read}
  for x, share in read:
    read_of[id(x)] += share
  assert set(read_of.values()) == {1.0}


@pytest.mark.parametrize('where', [None, place], ids=['one', 'mesh'])
def test_the_host_holds_no_more_than_a_parameter(folder, where):
  tracemalloc.start()
  params = hf.load(folder, cast='float32', place=where and where()).params
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 0.3 * sum(x.nbytes for x in jax.tree.leaves(params))


def test_a_fresh_model_is_drawn_where_it_lies(tmp_path):
  block = tiny.config(tmp_path, model={'path': '', 'size': 'tiny_moe'}).model
  plain, _ = loading.load_model(block, 3)
  found, _ = loading.load_model(block, 3, place())
  tiny.same(found.params, plain.params)
  for path, x in jax.tree_util.tree_leaves_with_path(found.params):
    spec = partition.spec(path, x.shape, x.sharding.mesh.shape)
    assert x.sharding.spec == spec


def test_moments_are_born_beside_their_parameters(monkeypatch):
  tx = optax.adam(1e-2)
  params = sharding.born(transformer.make(SIZE).init, place())(
    jax.random.key(0)
  )
  asked = []
  jit = jax.jit
  monkeypatch.setattr(
    jax, 'jit', lambda f, **kept: asked.append(kept) or jit(f, **kept)
  )
  made = sharding.born(tx.init, place())(params)
  assert len(jax.tree.leaves(asked[0]['out_shardings'])) == len(
    jax.tree.leaves(made)
  )
  check_split(made[0].mu, jax.tree.map(np.zeros_like, params))
