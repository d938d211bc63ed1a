"""From the record of an outside agent to the rows that are trained on."""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.rollout import record, strategies


def of(rollout: record.Rollout) -> list[episode.Episode]:
  """The rows of a rollout, that with its last call at the end.

  The reward of a call is on its last token, that of the rollout on the last of
  all. Turns are numbered over the whole rollout: a call is a turn, and what it
  reads for the first time belongs to the turn before, in a row's opening to its
  own.

  Returns:
    Episodes that differ in their `row`; one without tokens for a rollout that
    made no call.

  Raises:
    ValueError: it is not closed, so nothing says how it ended.
  """
  if not rollout.closed:
    raise ValueError(
      f'the rollout {rollout.key!r} is not closed; call record.close once its'
      ' agent is gone.'
    )
  by_row: list[list[record.Call]] = [[] for _ in rollout.rows]
  for call in rollout.calls:
    by_row[call.row].append(call)
  by_row.sort(key=lambda calls: calls[-1].number)
  made = [
    _row(rollout, calls, number) for number, calls in enumerate(by_row or [[]])
  ]
  if rollout.calls and rollout.reward is not None:
    made[-1].rewards[-1] += rollout.reward
  return made


def _row(rollout, calls: Sequence[record.Call], number: int) -> episode.Episode:
  ids = np.array(rollout.rows[calls[0].row] if calls else [], np.int32)
  n = len(ids)
  mask = np.zeros(n, bool)
  logp, rewards, entropy = (np.zeros(n, np.float32) for _ in range(3))
  versions, turn = np.full(n, -1, np.int32), np.zeros(n, np.int32)
  exchanges: list[episode.Exchange] = []
  experts: list[np.ndarray] = []
  for call in calls:
    sample = call.sample
    here = slice(call.start, call.start + len(sample.tokens))
    mask[here], logp[here], versions[here] = True, sample.logp, sample.versions
    told = sample.entropy
    entropy[here] = np.nan if told is None else told
    turn[call.start :] = call.number
    earned = rollout.rewards.get(call.number, 0.0)
    if len(sample.tokens):
      rewards[here.stop - 1] = earned
    if sample.experts is not None:
      experts.append(sample.experts)
    exchanges.append(
      episode.Exchange(call.text, episode.Turn('', reward=earned))
    )
  if calls:
    turn[: calls[0].start] = calls[0].number
  extras: dict[str, np.ndarray] = {'rollout_version': versions}
  if np.all(np.isfinite(entropy)):
    extras['rollout_entropy'] = entropy
  if experts:
    extras['routed_experts'] = strategies.routed(experts, n)
  return episode.Episode(
    rollout.task, rollout.sample, ids, mask, logp, rewards, turn,
    rollout.status, tuple(exchanges), rollout.error, extras, number,
  )  # fmt: skip
