"""A strategy whose prompts are rendered anew, as a server will render them.

`strategies.multi_turn` appends to one row of ids, whatever the chat template
would do to earlier turns. Here each prompt is the template's print of the whole
conversation, in which sampled ids stand for themselves. Where the template
keeps its turns the two are the same, token for token; where it rewrites them,
as those do that strip earlier thoughts, another row begins.
"""

import time
from collections.abc import Sequence

from arl import episode
from arl.envs import base, calls
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import record, resume, rows, strategies, templates


class _Live:
  """An episode in progress: its conversation, and the record of its calls."""

  def __init__(self, env, chat, task, sample, path):
    self.rollout = record.Rollout('', task, sample, (*path, sample))
    self.role, self.prompt = chat.role, []
    self.began = time.monotonic()
    self.messages = [
      {'role': role, 'content': text}
      for role, text, _ in chat_lib.introduction(task, chat.role)
    ]
    self.said = [None] * len(self.messages)
    try:
      self.state = base.checked_reset(env, task)
    except base.FAILURES as error:
      self.rollout.finish(error.status, str(error))

  def say(self, message, sampled=None):
    self.messages.append(message)
    self.said.append(sampled)


def multi_turn(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Multi-turn episodes, of as many rows as the chat template makes of them.

  Arguments and errors as of `strategies.multi_turn`.

  Returns:
    The rows of all episodes, those of one after the other.
  """
  template = templates.of(chat.tokenizer)
  sampling, limits = plan.sampling._replace(stop=template.stop), plan.limits
  live = [
    _Live(env, chat, task, sample, (*plan.path, place))
    for place, task in enumerate(tasks, plan.first)
    for sample in range(plan.samples)
  ]
  for one in live:
    _render(one, template)
    strategies.check_room(one.rollout.task, len(one.prompt), limits)
  for turn in range(limits.max_turns):
    going = [one for one in live if not one.rollout.status]
    if not going:
      break
    requests = [_request(one, limits, turn) for one in going]
    answers = resume.generate(engine.generate, requests, sampling)
    for one, answer in zip(going, answers):
      _take(one, answer, env, template, limits)
  return [row for one in live for row in _rows(one)]


multi_turn.lacks = frozenset(  # type: ignore[attr-defined]
  {'process_rewards', 'kind', 'state'}
)


def _rows(one: _Live) -> list[episode.Episode]:
  one.rollout.grade(0.0)  # beside what its actions earned
  record.close(one.rollout)
  return rows.of(one.rollout)


def _render(one: _Live, template: templates.Template) -> None:
  one.prompt = templates.prompt(
    template,
    one.messages,
    one.said,
    tools=None,
    read=lambda text: calls.Reply((), False, text),
    write=lambda made: '',
  )


def _request(one: _Live, limits, turn: int) -> engine_lib.Request:
  room = limits.context - len(one.prompt)
  left = limits.response_tokens - one.rollout.sampled()
  return engine_lib.Request(
    tuple(one.prompt),
    min(limits.turn_tokens, room, left),
    (*one.rollout.path, turn),
    one.rollout.path,
  )


def _take(one: _Live, answer, env, template, limits) -> None:
  """Takes an action; says what the environment answers to it."""
  rollout, ids = one.rollout, [int(i) for i in answer.tokens]
  text = template.decode(ids)
  call = rollout.add(one.prompt, answer, text)
  one.say(
    {'role': 'assistant', 'content': text}, record.sampled(call, template.stop)
  )
  if answer.finish == engine_lib.LENGTH:
    rollout.finish(episode.MAX_TOKENS)
    return
  try:
    one.state, turn = base.checked_step(env, one.state, text)
  except base.FAILURES as error:
    rollout.finish(error.status, str(error))
    return
  rollout.grade(float(turn.reward), call.number)
  if turn.done:
    rollout.finish(episode.FINISHED)
  elif len(rollout.calls) == limits.max_turns:
    rollout.finish(episode.MAX_TURNS)
  elif rollout.sampled() >= limits.response_tokens:
    rollout.finish(episode.MAX_TOKENS)
  elif time.monotonic() - one.began > limits.seconds:
    rollout.finish(episode.MAX_SECONDS)
  else:
    _observe(one, turn.text, template, limits)


def _observe(one: _Live, text: str, template, limits) -> None:
  """Shows an observation, or ends the episode where there is no room."""
  one.say({'role': one.role, 'content': text})
  try:
    _render(one, template)
  except (chat_lib.UnfitText, templates.Unfit) as error:
    one.rollout.finish(episode.ENVIRONMENT_ERROR, str(error))
    return
  if len(one.prompt) >= limits.context:
    one.rollout.finish(episode.MAX_TOKENS)
