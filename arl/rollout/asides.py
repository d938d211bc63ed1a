"""What a policy says when it is asked about its own finished episodes."""

from collections.abc import Sequence
from typing import NamedTuple

from arl import episode
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies


class Said(NamedTuple):
  """An answer.

  Attributes:
    text: of it.
    error: why there is none, '' if there is.
    prompt: the ids that asked for it.
    sample: what the engine gave; None where nothing was asked.
  """

  text: str
  error: str = ''
  prompt: Sequence[int] = ()
  sample: engine_lib.Sample | None = None

  @property
  def tokens(self) -> int:
    """How many were sampled."""
    return len(self.sample.tokens) if self.sample else 0


def ask(
  engine: engine_lib.Engine,
  chat: chat_lib.Chat,
  plan: strategies.Plan,
  asked: Sequence[episode.Task | None],
  times: int = 1,
) -> list[list[Said]]:
  """The answers to prompts, each sampled as an action is.

  They have as many tokens as an action at most, what is cut is no answer, and
  the randomness of none is that of a turn.

  Args:
    engine: what made the episodes, with the weights that did.
    chat: how text becomes ids.
    plan: of the episodes.
    asked: what to ask about each of them, in their order; None for nothing.
    times: answers to each prompt.

  Returns:
    The answers about each episode: `times`; one that says why the prompt cannot
    be asked; or none where nothing is.
  """
  prompts = [_prompt(task, chat, plan.limits) for task in asked]
  requests = [
    _request(ids, plan, place, i)
    for place, ids in enumerate(prompts)
    if isinstance(ids, list)
    for i in range(times)
  ]
  sampling = plan.sampling._replace(
    stop=chat.stop, stop_text=(), entropy=False, experts=False
  )
  samples = iter(resume.generate(engine.generate, requests, sampling))
  made: list[list[Said]] = []
  for ids in prompts:
    if isinstance(ids, list):
      made.append([_said(ids, next(samples), chat) for _ in range(times)])
    else:
      made.append([ids] if ids else [])
  return made


def _prompt(task, chat, limits) -> list[int] | Said | None:
  """The ids of a prompt, or why there are none."""
  if task is None:
    return None
  try:
    ids = chat.opening(task)
  except chat_lib.UnfitText as error:
    return Said('', f'it cannot be shown: {error}')
  if len(ids) >= limits.context:
    return Said(
      '',
      f'to be asked it takes {len(ids)} tokens, which leaves no room in a'
      f' context of {limits.context}; raise rollout.context',
    )
  return ids


def _request(ids, plan, place, index) -> engine_lib.Request:
  task, sample = divmod(place, plan.samples)
  limits = plan.limits
  return engine_lib.Request(
    tokens=tuple(ids),
    max_tokens=min(limits.turn_tokens, limits.context - len(ids)),
    path=(*plan.path, plan.first + task, sample, limits.max_turns + index),
  )


def _said(ids, sample: engine_lib.Sample, chat) -> Said:
  if sample.finish == engine_lib.LENGTH:
    return Said('', 'the answer came to no end', ids, sample)
  text = chat.decode([int(i) for i in sample.tokens])
  return Said(text, '', ids, sample)
