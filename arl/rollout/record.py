"""What an outside agent asked of the policy: its calls, and their rows.

A rollout is the sequence of calls that share a key. Each call sampled a
continuation of its prompt. A call whose prompt begins with all ids of a row
extends that row, the longest one; any other opens a row, in which its prompt is
only read. So retried prompts, parallel branches, sub-agents and rewritten
contexts each have rows of their own, and every sampled token is trained on in
exactly one.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.rollout import engine as engine_lib
from arl.rollout import messages as messages_lib
from arl.rollout import templates


class Call(NamedTuple):
  """One sampled continuation.

  Attributes:
    number: among the calls of its rollout, in the order in which they ended.
    parent: number of the latest call whose answer is in its prompt; None where
      there is none.
    row: the row that it extended or opened.
    start: where its tokens begin in that row.
    prompt: ids that the engine was given.
    sample: what the engine gave; its tokens may have been cut at a stop string.
    text: of the tokens, without what ended them.
    message: the answer as the agent was shown it; None for a bare completion.
    said: stands for the message, or ''.
    context: stands for the messages before it.
    limited: whether a limit of the rollout cut it.
  """

  number: int
  parent: int | None
  row: int
  start: int
  prompt: tuple[int, ...]
  sample: engine_lib.Sample
  text: str
  message: messages_lib.Message | None
  said: str
  context: str
  limited: bool


class Rollout:
  """The record of one rollout. Its methods may be called from any thread.

  Attributes:
    key: by which the agent is known.
    task: the problem; sample: which rollout of it this is.
    path: leading numbers of the randomness of its calls.
    calls: those that ended, in order.
    rows: the ids of each row.
    running: how many calls are under way.
    promised: how many tokens those may sample.
    reward: of the whole rollout; None where nobody told.
    rewards: of single calls, by number.
    status: one of episode.STATUSES, or '' while it goes on.
    error: what went wrong.
    limit: the status of the limit that refused a call, or ''.
    closed: whether it was decided how it ended.
  """

  def __init__(
    self,
    key: str,
    task: episode.Task,
    sample: int = 0,
    path: tuple[int, ...] = (),
  ):
    self.key, self.task, self.sample, self.path = key, task, sample, path
    self.calls: list[Call] = []
    self.rows: list[list[int]] = []
    self.running, self.promised = 0, 0
    self.reward: float | None = None
    self.rewards: dict[int, float] = {}
    self.status, self.error, self.limit = '', '', ''
    self.closed = False
    self._begun = 0
    self._lock = threading.Lock()

  def begin(self, count: int, tokens: int) -> range:
    """Begins calls of so many tokens each at most.

    Returns:
      Numbers for their randomness; no two calls ever share one.
    """
    with self._lock:
      self.running += count
      self.promised += count * tokens
      self._begun += count
      return range(self._begun - count, self._begun)

  def end(self, count: int, tokens: int) -> None:
    """Ends what `begin` began, whether or not it was recorded."""
    with self._lock:
      self.running -= count
      self.promised -= count * tokens

  def add(
    self,
    prompt: Sequence[int],
    sample: engine_lib.Sample,
    text: str,
    *,
    message: messages_lib.Message | None = None,
    context: str = '',
    parent: int | None = None,
    limited: bool = False,
  ) -> Call:
    """Records a call that ended; see Call for what it is told."""
    ids = [int(i) for i in prompt]
    said = messages_lib.identity(message) if message else ''
    with self._lock:
      fits = [
        i for i, row in enumerate(self.rows) if row == ids[: len(row)]
      ]  # fmt: skip
      if fits:
        row = max(fits, key=lambda i: len(self.rows[i]))
      else:
        row = len(self.rows)
        self.rows.append([])
      self.rows[row] = [*ids, *(int(i) for i in sample.tokens)]
      call = Call(
        len(self.calls), parent, row, len(ids), tuple(ids), sample, text,
        message, said, context, limited,
      )  # fmt: skip
      self.calls.append(call)
      return call

  def sampled(self) -> int:
    """How many tokens were sampled so far."""
    return sum(len(call.sample.tokens) for call in self.calls)

  def find(self, message: messages_lib.Message, context: str) -> Call | None:
    """The call whose answer a message is; None for one that none gave.

    Of several that said the same, the one that was told the same; then the
    latest.
    """
    wanted = messages_lib.identity(message)
    alike = [call for call in self.calls if call.said == wanted]
    return max(
      alike,
      key=lambda call: (call.context == context, call.number),
      default=None,
    )

  def grade(self, reward: float, call: int | None = None) -> None:
    """Takes the reward of the rollout, or of one of its calls.

    Raises:
      Refused: it is no finite number, there is no such call, or another reward
        was given before. The same one once more is no mistake: requests are
        repeated.
    """
    if isinstance(reward, bool) or not isinstance(reward, int | float):
      raise messages_lib.Refused('reward: give a number.')
    if not np.isfinite(reward):
      raise messages_lib.Refused(f'reward: {reward} is not finite.')
    with self._lock:
      if call is None:
        before, self.reward = self.reward, float(reward)
      elif type(call) is int and 0 <= call < len(self.calls):
        before = self.rewards.setdefault(call, float(reward))
      else:
        raise messages_lib.Refused(
          f'call: this rollout has calls 0 to {len(self.calls) - 1}, not'
          f' {call!r}.'
        )
      if before is not None and before != reward:
        if call is None:
          self.reward = before
        raise messages_lib.Refused(
          f'reward: it was {before} before; a reward is given once.'
        )

  def finish(self, status: str, error: str = '') -> None:
    """Ends the rollout; what ended stays as it ended.

    Raises:
      Refused: an unknown status.
    """
    if status not in episode.STATUSES:
      raise messages_lib.Refused(
        f'status: {status!r} is none of {sorted(episode.STATUSES)}.'
      )
    if not self.status:
      self.status, self.error = status, error


def sampled(call: Call, stop: Sequence[int]) -> templates.Sampled:
  """What a call sampled, for a prompt that it is part of."""
  ids = [int(i) for i in call.sample.tokens]
  return templates.Sampled(ids, call.text, ids[-1] in stop)


def close(rollout: Rollout, failed: str = '') -> None:
  """Decides how a rollout ended, once its agent is gone.

  Args:
    rollout: the record.
    failed: what broke around the agent; '' for nothing.
  """
  rollout.closed = True
  last = rollout.calls[-1] if rollout.calls else None
  ungraded = rollout.reward is None and not rollout.rewards
  if rollout.limit:
    rollout.finish(rollout.limit)
  elif failed and ungraded:
    rollout.finish(episode.ENVIRONMENT_ERROR, failed)
  elif last is None:
    rollout.finish(episode.ENVIRONMENT_ERROR, 'the agent made no call')
  rollout.finish(
    episode.MAX_TOKENS if last and last.limited else episode.FINISHED
  )
  if rollout.status in episode.GRADED and ungraded:
    rollout.status = episode.REWARD_ERROR
    rollout.error = rollout.error or 'nobody told the reward of this rollout'


def lines(rollout: Rollout) -> Iterator[str]:
  """The record as JSON, a line for the rollout and one for each call."""
  yield json.dumps(
    {
      'key': rollout.key,
      'task': rollout.task.id,
      'sample': rollout.sample,
      'status': rollout.status,
      'error': rollout.error,
      'reward': rollout.reward,
      'calls': len(rollout.calls),
      'rows': len(rollout.rows),
    }
  )
  for call in rollout.calls:
    yield json.dumps(_line(rollout, call))


def _line(rollout: Rollout, call: Call) -> dict[str, Any]:
  sample = call.sample
  return {
    'number': call.number,
    'parent': call.parent,
    'row': call.row,
    'start': call.start,
    'context': call.context,
    'prompt': list(call.prompt),
    'tokens': sample.tokens.tolist(),
    'logp': [float(x) for x in sample.logp],
    'versions': sample.versions.tolist(),
    'finish': sample.finish,
    'text': call.text,
    'message': call.message,
    'reward': rollout.rewards.get(call.number),
  }
