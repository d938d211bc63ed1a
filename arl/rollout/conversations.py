"""Strategies that read recorded conversations, for supervised stages.

Tasks are those of the environment `conversations`. The engine is not asked, so
the log-probs of all tokens are nan. Each turn of the assistant is what its chat
template asks for at that place and the turn as it prints it, as a rollout would
have had it: where the template keeps its turns a conversation is one row, where
it rewrites earlier ones, as those do that strip thoughts, another row begins.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import messages, printed, strategies, templates


class _Turn(NamedTuple):
  """A turn of the assistant: what asks for it, its ids, if it is learnt."""

  prompt: list[int]
  ids: list[int]
  text: str
  learnt: bool


def whole(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Each conversation; on the mask are the turns of the assistant.

  All that its record trains, with the id that ends each. The column
  `example_weight` is the weight of the record. What is recorded earns 1. A task
  that is no record, which the environment that judges has, is played.

  Returns:
    The rows of all episodes, those of one after the other.

  Raises:
    ValueError: a record, by its name, that cannot be spelled or is longer than
      the context; and as of `strategies.multi_turn`.
  """
  return _episodes(engine, env, chat, tasks, plan, False)


def with_observations(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """As `whole`, and what the environment says in between is on the mask too.

  The column `observed` is true there: on all between two turns of the
  assistant, what the template puts around it included. The first prompt stays
  off the mask. For `supervised.actobs` alone: no other method tells the two
  apart.
  """
  return _episodes(engine, env, chat, tasks, plan, True)


for _strategy in (whole, with_observations):
  _strategy.lacks = frozenset(  # type: ignore[attr-defined]
    {'rollout_entropy', 'routed_experts', 'kind'}
  )
  _strategy.gives = frozenset({'example_weight'})  # type: ignore[attr-defined]
with_observations.gives |= {'observed'}  # type: ignore[attr-defined]


def _episodes(engine, env, chat, tasks, plan, observations):
  template = templates.of(chat.tokenizer)
  made: list[episode.Episode] = []
  for task in tasks:
    if 'train' not in task.data:
      played = strategies.multi_turn(engine, env, chat, [task], plan)
      made += [_marked(e, [False] * len(e.tokens), 1.0) for e in played]
      continue
    for sample in range(plan.samples):
      made += _rows(template, task, sample, plan.limits, observations)
  return made


def _rows(template, task, sample, limits, observations):
  """The rows of a conversation, as `whole` or `with_observations` has them."""
  made: list[strategies.Live] = []
  observed: list[list[bool]] = []
  for turn in _turns(template, task):
    if not made or made[-1].tokens != turn.prompt[: len(made[-1].tokens)]:
      row = strategies.Live(task, sample, ())
      row.exchanges = [*made[-1].exchanges] if made else []
      row.observe(turn.prompt)
      made.append(row)
      observed.append([False] * len(turn.prompt))
    else:
      between = turn.prompt[len(made[-1].tokens) :]
      (made[-1].write if observations else made[-1].observe)(between)
      observed[-1] += [observations] * len(between)
    row = made[-1]
    (row.write if turn.learnt else row.observe)(turn.ids)
    observed[-1] += [False] * len(turn.ids)
    row.exchanges.append(episode.Exchange(turn.text, episode.Turn('')))
    _check_room(row, limits)
  kept = [(r, o) for r, o in zip(made, observed) if any(r.mask)]
  kept[-1][0].rewards[-1] = 1.0
  return [_episode(r, o, i) for i, (r, o) in enumerate(kept)]


def _turns(template: templates.Template, task: episode.Task) -> list[_Turn]:
  """The turns of the assistant, each after those before it as it said them."""
  data = task.data
  made: list[_Turn] = []
  try:
    said = messages.read(data['messages'])
    spoken: list[templates.Sampled | None] = [None] * len(said)
    for i, message in enumerate(said):
      if message['role'] != 'assistant':
        continue
      asked = printed.prompt(template, said[:i], spoken[:i], data['tools'])
      ids = printed.answer(template, said[: i + 1], data['tools'])
      text = template.decode(ids)
      spoken[i] = templates.Sampled(ids, text, True)
      made.append(_Turn(asked, ids, text, data['train'][i]))
  except printed.FOUND as error:
    raise ValueError(f'{data["name"]}: {error}') from error
  return made


def _check_room(row: strategies.Live, limits: strategies.Limits) -> None:
  if len(row.tokens) > limits.context:
    raise ValueError(
      f'{row.task.data["name"]} has {len(row.tokens)} tokens or more, but the'
      f' context is {limits.context}; raise rollout.context or drop the record.'
    )


def _episode(row, observed: list[bool], number: int) -> episode.Episode:
  row.end(episode.FINISHED)
  made = row.episode()._replace(row=number)
  return _marked(made, observed, row.task.data['weight'])


def _marked(made, observed: list[bool], weight: float) -> episode.Episode:
  """The episode with the columns that these strategies give."""
  marks = {
    'observed': np.array(observed),
    'example_weight': np.full(len(observed), weight, np.float32),
  }
  return made._replace(extras={**made.extras, **marks})
