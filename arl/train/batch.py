"""From episodes to columns with scores and credit: one rollout batch."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import columns as columns_lib
from arl import episode, types
from arl.evaluate import behavior
from arl.rollout import pack
from arl.train import (
  build,
  prefixes,
  processes,
  routing,
  score,
  sharding,
  taught,
  turning,
)

_SCORED = columns_lib.filled_by(columns_lib.SCORE)
_EXTRA = columns_lib.filled_by(columns_lib.EXTRA)
# Credit that is as true of episodes which another has written.
_PREFERENCES = frozenset({'preferred', 'kept', 'reference'})


class Data(NamedTuple):
  """A rollout batch on the devices.

  Attributes:
    columns: [U * R, T].
    credits: [U * R, T], by term and name.
    metrics: what the columns show.
    sampled: whether a policy sampled the episodes, or a demonstrator wrote
      them.
  """

  columns: dict[str, Any]
  credits: dict[str, Any]
  metrics: dict[str, Any]
  sampled: bool


def check_failed(episodes: Sequence[episode.Episode], most: float) -> None:
  """Stops a run in which the environment, not the policy, fails.

  Raises:
    RuntimeError: more than the share `most` of the episodes failed.
  """
  episodes = episode.whole(episodes)
  failed = [e for e in episodes if e.status in episode.FAILED]
  if len(failed) > most * len(episodes):
    raise RuntimeError(
      f'{len(failed)} of {len(episodes)} episodes failed, more than'
      f' rollout.max_failed = {most}; mend the environment, or raise that. The'
      f' first, of task {failed[0].task.id!r}: {failed[0].status}:'
      f' {failed[0].error}'
    )


def check_versions(
  episodes: Sequence[episode.Episode], wanted: int, max_age: int = 0
) -> None:
  """Stops a run whose sampler has other weights than it was given.

  Tokens that no sampler chose have no version and are passed over.

  Args:
    episodes: to look at.
    wanted: the version of the sampler now.
    max_age: by how many versions a token may be older.

  Raises:
    RuntimeError: a token was sampled from weights of another version.
  """
  for one in episodes:
    version = one.extras.get('rollout_version', np.full(1, -1))
    told = set(version[version >= 0].tolist())
    others = {v for v in told if not wanted - max_age <= v <= wanted}
    if others:
      raise RuntimeError(
        f'an episode of task {one.task.id!r} was sampled with weights of'
        f' version {sorted(others)}, but the sampler was given version'
        f' {wanted}; see that nothing else updates it, and that it did not'
        ' restart.'
      )


def updates(
  groups: Sequence[episode.Group],
  per_batch: int,
  tell: Callable[[list[episode.Episode]], list[episode.Episode]] = list,
) -> list[list[episode.Episode]]:
  """Whole groups dealt out to the updates of a batch, to the emptiest first.

  Args:
    groups: of the batch.
    per_batch: how many updates it makes.
    tell: adds columns to episodes, see `telling`.
  """
  parts: list[list[episode.Episode]] = [[] for _ in range(per_batch)]
  for group in groups:
    min(parts, key=_count).extend(group.episodes)
  told = iter(tell([e for part in parts for e in part]))
  return [list(itertools.islice(told, len(part))) for part in parts]


def _count(part: Sequence[episode.Episode]) -> int:
  return sum(not one.row for one in part)


def make(
  learner: build.Learner,
  params: Any,
  parts: Sequence[Sequence[episode.Episode]],
  *,
  width: int,
  max_turns: int,
  from_loop: Callable[[frozenset[str], tuple[int, int]], dict[str, Any]],
) -> Data:
  """Packs, scores and credits the episodes of each update.

  Args:
    learner: the devices' side of the run.
    params: of the policy now.
    parts: the episodes of each update.
    width: tokens of a row.
    max_turns: turns of an episode at most.
    from_loop: (needs, shape) -> the columns that the loop itself gives.

  Raises:
    ValueError: episodes that cannot be packed, or whose experts the policy does
      not have.
  """
  needs = learner.method.needs
  extras, replay = needs & _EXTRA, learner.replay
  wide: dict[str, tuple[int, ...]] = {}
  if replay:
    for part in parts:
      routing.check(part, replay)
    extras |= {routing.COLUMN}
    wide[routing.COLUMN] = (replay.layers, replay.chosen)
  read = columns_lib.with_ids(needs | {taught.COLUMN, turning.COLUMN})
  held = _brought(parts, read & (_SCORED | _EXTRA))
  extras, wide = extras | held.keys(), {**wide, **held}
  place = pack.pack
  if learner.block:
    place = functools.partial(_place_whole, learner.block)
  batches = [
    place(
      part,
      rows=learner.rows,
      width=width,
      max_turns=max_turns,
      extras=sorted(extras),
      wide=wide,
    )
    for part in parts
  ]
  columns = types.columns(pack.concatenate(batches))
  if learner.prefixes == prefixes.SHARED:
    columns |= prefixes.place(columns, learner.block)
  columns |= from_loop(needs, columns['mask'].shape)
  columns = sharding.shard_rows(columns, learner.mesh)
  sampled = all(np.all(np.isfinite(e.logp)) for part in parts for e in part)
  if sampled or needs & _SCORED:
    columns.update(learner.score(params, learner.others, columns))
  metrics = score.agreement(columns) if sampled else {}
  metrics |= behavior.unsampled([e for part in parts for e in part])
  credits = learner.credit(prefixes.of_rows(columns))
  return Data(columns, credits, metrics, sampled)


def _brought(
  parts: Sequence[Sequence[episode.Episode]], wanted: frozenset[str]
) -> dict[str, tuple[int, ...]]:
  """Columns that all episodes bring: what follows [B, T] in each."""
  every = [one.extras for part in parts for one in part]
  return {
    name: np.shape(every[0][name])[1:]
    for name in sorted(wanted)
    if every and all(name in extras for extras in every)
  }


def _place_whole(block, part, **arguments):
  """Packs the episodes of an update so that no group lies in two blocks."""
  groups = [group.episodes for group in episode.groups(part)]
  return pack.pack_whole(groups, block=block, **arguments)


def check_origin(
  method: str, data: Data, needs: frozenset[str] = frozenset()
) -> None:
  """Refuses a method that cannot learn from episodes of this origin.

  A method without credit imitates what it is given, whatever its reward, unless
  it reads what a teacher says of it; one with credit takes its episodes for the
  policy's own, unless the credit says no more than which of them are preferred.

  Raises:
    ValueError: the one was given samples, or the other demonstrations.
  """
  credited = {name for made in data.credits.values() for name in made}
  told = needs & score.TAUGHT
  if credited - _PREFERENCES and not data.sampled:
    raise ValueError(
      f'{method} estimates a policy gradient, but its episodes were not sampled'
      ' by the policy: their log-probs are nan; choose a rollout.strategy that'
      ' samples, or method.name = terms.imitation.'
    )
  if data.sampled and not credited and not told:
    raise ValueError(
      f'{method} imitates its episodes whatever they earned, but the policy'
      ' sampled them itself, which teaches it nothing; choose a'
      ' rollout.strategy of demonstrations, or a method with an advantage.'
    )


@functools.partial(jax.jit, static_argnums=2)
def _rows(tree, start, size):
  def cut(x):
    return jax.lax.dynamic_slice_in_dim(x, start, size) if x.ndim else x

  return jax.tree.map(cut, tree)


def update(data: Data, index: int, rows: int) -> tuple[dict, dict]:
  """The columns and credits of one update."""
  trees = (data.columns, data.credits)
  return _rows(trees, jnp.int32(index * rows), rows)


def advantage_of(data: Data, index: int, size: int) -> np.ndarray:
  """The advantage of each token of one episode, [n]; 0 where there is none.

  Args:
    data: of one update.
    index: the episode's place in it.
    size: its number of tokens.
  """
  mine = (data.columns['seq'].ids == index) & (data.columns['segments'] > 0)
  rows, places = np.nonzero(np.asarray(processes.here(mine)))
  made = data.credits.get('policy', {})
  if 'advantage' not in made:
    return np.zeros(size, np.float32)
  return np.asarray(processes.here(made['advantage']))[rows, places]


def moved(learner: build.Learner, params: Any, data: Data) -> float:
  """How far updates moved the policy: mean |change of log-prob| of a token.

  Costs another scoring pass over the batch.
  """
  after = learner.score(params, learner.others, data.columns)['old_logp']
  before = data.columns['old_logp']
  return float(score.moved(before, after, data.columns['mask']))
