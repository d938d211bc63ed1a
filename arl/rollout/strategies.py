"""How episodes are rolled out: a strategy turns tasks into episodes."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import alike, resume
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib

# (engine, env, chat, tasks, plan) -> episodes, as `multi_turn`; some take knobs
# of the run by keyword, see `arl.train.turning`. What it adds to episodes, and
# cannot have in them, are its attributes `gives` and `lacks`; what it has to
# say of a batch, `tells`; `together`, that a task's episodes depend on others.
Strategy = Callable[..., list[episode.Episode]]


class Limits(NamedTuple):
  """Budgets of an episode.

  Attributes:
    max_turns: actions an episode may take.
    turn_tokens: tokens an action may have; a longer one is cut and ends the
      episode.
    context: tokens of the whole row: prompt, samples and observations.
    response_tokens: tokens that the policy may sample in all of its turns.
    seconds: after which no further turn begins. No run with such a limit can be
      repeated exactly.
  """

  max_turns: int
  turn_tokens: int
  context: int
  response_tokens: int
  seconds: float = math.inf


class Plan(NamedTuple):
  """How tasks are rolled out, whatever the strategy.

  Attributes:
    samples: episodes a task.
    sampling: how to choose tokens; its stop ids are the chat's.
    limits: budgets of an episode.
    path: leading numbers of each request's randomness; the task's place, the
      sample and the turn follow.
    first: the place of the first task; more than 0 where others roll out those
      before it.
  """

  samples: int
  sampling: engine_lib.Sampling
  limits: Limits
  path: tuple[int, ...]
  first: int = 0


class Live:
  """An episode in progress: an append-only row of ids and its columns."""

  def __init__(self, task, sample, path):
    self.task, self.sample, self.path = task, sample, path
    self.state: Any = None
    self.began = time.monotonic()
    self.status, self.error = '', ''
    self.exchanges: list[episode.Exchange] = []
    self.tokens: list[int] = []
    self.mask: list[bool] = []
    self.logp: list[float] = []
    self.rewards: list[float] = []
    self.turn: list[int] = []
    self.entropy: list[float] = []
    self.process: list[float] = []
    self.versions: list[int] = []
    self.experts: list[np.ndarray] = []
    self.ends: list[int] = []

  def copy(self, path):
    """The same row, to go on by itself and by another randomness."""
    made = Live(self.task, self.sample, path)
    kept = {
      n: x[:] if isinstance(x, list) else x for n, x in vars(self).items()
    }
    vars(made).update({**kept, 'path': path, 'began': made.began})
    return made

  def observe(self, ids):
    """Appends what the policy did not choose."""
    n, at = len(ids), max(len(self.exchanges) - 1, 0)
    self._append(ids, False, [0.0] * n, at)
    self.versions += [-1] * n
    self.entropy += [math.nan] * n

  def take(self, sampled: engine_lib.Sample):
    """Appends what an engine sampled."""
    n = len(sampled.tokens)
    self._append(sampled.tokens, True, sampled.logp, len(self.exchanges))
    self.versions += [int(i) for i in sampled.versions]
    told = [math.nan] * n if sampled.entropy is None else sampled.entropy
    self.entropy += [float(x) for x in told]
    if sampled.experts is not None:
      self.experts.append(sampled.experts)

  def write(self, ids):
    """Appends an action that no engine sampled: its log-probs are nan."""
    n = len(ids)
    self._append(ids, True, [math.nan] * n, len(self.exchanges))
    self.versions += [-1] * n
    self.entropy += [math.nan] * n

  def _append(self, ids, sampled, logp, turn):
    n = len(ids)
    self.tokens += [int(i) for i in ids]
    self.mask += [sampled] * n
    self.logp += [float(x) for x in logp]
    self.rewards += [0.0] * n
    self.process += [math.nan] * n
    self.turn += [turn] * n

  def end(self, status, error=''):
    self.status, self.error = status, error

  def episode(self) -> episode.Episode:
    return episode.Episode(
      task=self.task,
      sample=self.sample,
      tokens=np.array(self.tokens, np.int32),
      mask=np.array(self.mask, bool),
      logp=np.array(self.logp, np.float32),
      rewards=np.array(self.rewards, np.float32),
      turn=np.array(self.turn, np.int32),
      status=self.status,
      exchanges=tuple(self.exchanges),
      error=self.error,
      extras=self._extras(),
    )

  def _extras(self):
    """The columns that the engine or the environment gave all of."""
    given = {'rollout_entropy': self.entropy, 'process_rewards': self.process}
    made = {name: np.array(x, np.float32) for name, x in given.items()}
    made['rollout_entropy'][~np.array(self.mask, bool)] = 0
    made['process_rewards'][~self._ends()] = 0
    made = {name: x for name, x in made.items() if np.all(np.isfinite(x))}
    made['rollout_version'] = np.array(self.versions, np.int32)
    if self.experts:
      made['routed_experts'] = routed(self.experts, len(self.tokens))
    return made

  def _ends(self):
    """True on the last token of each action that was answered."""
    ends = np.zeros(len(self.tokens), bool)
    ends[self.ends] = True
    return ends


def routed(parts: Sequence[np.ndarray], n: int) -> np.ndarray:
  """The column `routed_experts` [n, L, K] of samples of one row; -1 unknown."""
  told = engine_lib.first_told(parts).astype(np.int32)
  wide = ((0, n - len(told)), (0, 0), (0, 0))
  return np.pad(told, wide, constant_values=-1)


def check_room(task: episode.Task, n: int, limits: Limits) -> None:
  """Refuses a prompt of n tokens that leaves no room to answer."""
  if n >= limits.context:
    raise ValueError(
      f'task {task.id!r}: its prompt has {n} tokens, which leaves no room to'
      f' answer in a context of {limits.context}; raise rollout.context or'
      ' shorten the prompt.'
    )


def multi_turn(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: Plan,
) -> list[episode.Episode]:
  """Independent multi-turn episodes, all advancing one turn at a time.

  Args:
    engine: the sampler.
    env: what answers the actions.
    chat: how text becomes ids.
    tasks: the problems.
    plan: how many episodes, of what length, by which randomness.

  Returns:
    The episodes, those of one task together, in the order of the tasks. An
    environment or a reward that fails ends its episode with that status.

  Raises:
    ValueError: a prompt that leaves no room to answer or that the tokenizer
      cannot spell, before anything is sampled; or an engine whose answers
      disagree with the requests.
  """
  live = [
    start(env, chat, task, plan.limits, sample, (*plan.path, place))
    for place, task in enumerate(tasks, plan.first)
    for sample in range(plan.samples)
  ]
  while going := [row for row in live if not row.status]:
    take_turn(going, engine, env, chat, plan)
  made = [row.episode() for row in live]
  alike.warn(made, plan.sampling.temperature)
  return made


def take_turn(rows: Sequence[Live], engine, env, chat, plan: Plan) -> None:
  """Lets rows that have not ended take a turn, whichever each is in."""
  requests = [request(row, plan.limits, len(row.exchanges)) for row in rows]
  sampling = plan.sampling._replace(stop=chat.stop)
  answers = resume.generate(engine.generate, requests, sampling)
  for row, answer in zip(rows, answers):
    row.take(answer)
    advance(row, answer.tokens, answer.finish, env, chat, plan.limits)


def start(env, chat, task, limits, sample, path) -> Live:
  """An episode that has been told its task; ended, where the reset failed.

  Raises:
    ValueError: a prompt that leaves no room to answer or that the tokenizer
      cannot spell, or a limit below 1.
  """
  if min(limits) < 1:
    raise ValueError(f'{limits}: set each of these limits to 1 or more.')
  row = Live(task, sample, path)
  row.observe(chat.opening(task))
  check_room(task, len(row.tokens), limits)
  try:
    row.state = base.checked_reset(env, task)
  except base.FAILURES as error:
    row.end(error.status, str(error))
  return row


def request(row: Live, limits: Limits, turn: int) -> engine_lib.Request:
  """What a row asks for in a turn, within what is left of its budgets."""
  room = limits.context - len(row.tokens)
  left = limits.response_tokens - sum(row.mask)
  return engine_lib.Request(
    tokens=tuple(row.tokens),
    max_tokens=min(limits.turn_tokens, room, left),
    path=(*row.path, row.sample, turn),
    session=(*row.path, row.sample),
  )


def advance(row, ids, finish, env, chat, limits) -> None:
  """Takes the action that a row ends with; shows what the environment answers.

  Args:
    row: a Live episode; it may end.
    ids: of the action, appended already.
    finish: STOP or LENGTH, as in a Sample.
    env: answers the action.
    chat: how ids become text, and text ids.
    limits: budgets of an episode.
  """
  action = chat.decode([int(i) for i in ids])
  anchor = env.anchor(row.state) if env.anchor else None
  if finish == engine_lib.LENGTH:
    row.exchanges.append(episode.Exchange(action, episode.Turn(''), anchor))
    row.end(episode.MAX_TOKENS)
    return
  try:
    row.state, turn = base.checked_step(env, row.state, action)
  except base.FAILURES as error:
    row.end(error.status, str(error))
    return
  row.exchanges.append(episode.Exchange(action, turn, anchor))
  row.rewards[-1] = float(turn.reward)
  if turn.process is not None:
    row.process[-1] = float(turn.process)
  row.ends.append(len(row.tokens) - 1)
  if turn.done:
    row.end(episode.FINISHED)
  elif len(row.exchanges) == limits.max_turns:
    row.end(episode.MAX_TURNS)
  elif sum(row.mask) >= limits.response_tokens:
    row.end(episode.MAX_TOKENS)
  elif time.monotonic() - row.began > limits.seconds:
    row.end(episode.MAX_SECONDS)
  else:
    _observe(row, turn.text, chat, limits)


def _observe(row, text, chat, limits) -> None:
  """Appends an observation, or ends the episode where there is no room."""
  try:
    observed = chat.reply(text)
  except chat_lib.UnfitText as error:
    row.end(episode.ENVIRONMENT_ERROR, str(error))
    return
  if row.tokens[-1] not in chat.stop:  # a text ended the action
    observed = [*chat.stop[:1], *observed]
  if len(row.tokens) + len(observed) >= limits.context:
    row.end(episode.MAX_TOKENS)
    return
  row.observe(observed)
