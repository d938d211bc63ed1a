"""Worked examples of the optimizer and of what goes with it."""

import jax
import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl.train import optimizers, qk_clip
from launch import layer_contribution

GRADIENT = [[3.0, 1.0], [0.5, 2.0]]


def _muon():
  """The first update of a matrix at learning rate 1: -0.2 sqrt(2) X."""
  tx = optimizers.muon(
    lr=1.0, warmup=0, decay=0, momentum=0.95, b1=0.0, b2=0.0,
    weight_decay=0.0, max_norm=1e9,
  )  # fmt: skip
  gradient = {'layers': {'0': {'kernel': jnp.asarray(GRADIENT)}}}
  with jax.numpy_dtype_promotion('standard'):  # optax counts in whole numbers
    updates, _ = tx.update(gradient, tx.init(gradient), gradient)
  return updates['layers']['0']['kernel']


def _gamma():
  """What the logits of a head with a largest one of 250 are scaled by."""
  query, key = qk_clip.scales(jnp.asarray([250.0]), 1, 100.0)
  return query[0] * key[0]


def _root():
  return qk_clip.scales(jnp.asarray([250.0]), 1, 100.0)[0][0]


TABLE: w.Table = {
  'muon.ns5': w.of(lambda update: -update / (0.2 * np.sqrt(2)), _muon),
  # By the first entry of X, which the key above has.
  'muon.scale_k2': w.of(lambda update: -update[0, 0] / 0.778801, _muon),
  'qk.gamma': _gamma,
  'qk.sqrt_gamma': _root,
  'layer.contrib': lambda: np.float64(
    layer_contribution.contribution(0.5, 0.7, 0.68)
  ),
}
