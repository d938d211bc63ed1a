"""Episodes that stop at a budget of tokens and go on with later weights.

Kimi k1.5 (arXiv:2501.12599) and APRIL (arXiv:2509.18521): long episodes do not
hold a step up. What is unfinished waits, token-exact, and the weights of a
later step go on from it, over a prefix that is computed anew; every token keeps
the version and the log-prob that it was sampled with. A group is finished once
all of its episodes are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import engine as engine_lib
from arl.rollout import resume, stored, strategies

_LISTS = (
  'tokens', 'mask', 'logp', 'rewards', 'turn', 'entropy', 'process', 'versions',
  'ends',
)  # fmt: skip


class Part(NamedTuple):
  """An episode in progress, or one that waits for the others of its group.

  Attributes:
    live: the row; it changes as it goes on.
    issue: which group it is of, in the order in which they were begun.
    begins: where the action begins that is being sampled; -1 between actions.
  """

  live: strategies.Live
  issue: int
  begins: int = -1


def begin(
  env: base.Env,
  chat: Any,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
  first: int,
) -> list[Part]:
  """Groups that have been told their tasks; issues count on from `first`."""
  return [
    Part(strategies.start(env, chat, task, plan.limits, sample, ()), issue)
    for issue, task in enumerate(tasks, first)
    for sample in range(plan.samples)
  ]


def finished(parts: Sequence[Part]) -> list[list[Part]]:
  """The groups of which nothing goes on, the first begun first."""
  groups: dict[int, list[Part]] = {}
  for part in sorted(parts, key=lambda part: part.issue):
    groups.setdefault(part.issue, []).append(part)
  return [
    group
    for group in groups.values()
    if all(part.live.status for part in group)
  ]


def advance(
  parts: Sequence[Part],
  engine: engine_lib.Engine,
  env: base.Env,
  chat: Any,
  plan: strategies.Plan,
  *,
  budget: int,
  enough: int,
) -> list[Part]:
  """Lets all parts go on, a request each at a time.

  Until so many groups are finished, or every part has ended or sampled its
  budget. While none is finished they get another budget.

  Args:
    parts: in progress; they are not changed.
    engine: the sampler.
    env: what answers actions.
    chat: how text becomes ids.
    plan: of this step; its path tells it from all others.
    budget: tokens a part may sample.
    enough: groups after which nothing more is asked for.
  """
  issues = sorted({part.issue for part in parts})
  places = {issue: place for place, issue in enumerate(issues)}
  made = [
    part._replace(live=part.live.copy((*plan.path, places[part.issue])))
    for part in parts
  ]
  spent = [0] * len(made)
  while len(finished(made)) < enough:
    alive = [i for i, part in enumerate(made) if not part.live.status]
    going = [i for i in alive if spent[i] < budget]
    if not going and (not alive or finished(made)):
      break
    if not going:
      spent = [0] * len(made)
      continue
    rooms = [budget - spent[i] for i in going]
    asked = [made[i] for i in going]
    for i, part in zip(going, _take(asked, rooms, engine, env, chat, plan)):
      spent[i] += sum(part.live.mask) - sum(made[i].live.mask)
      made[i] = part
  return made


def _take(parts, rooms, engine, env, chat, plan) -> list[Part]:
  """The parts after a request each, of at most so many tokens."""
  parts = [part._replace(live=part.live.copy(part.live.path)) for part in parts]
  full = [_full(part, plan.limits) for part in parts]
  requests = [
    strategies.request(
      part.live, plan.limits, len(part.live.exchanges)
    )._replace(max_tokens=min(most, room))
    for part, most, room in zip(parts, full, rooms)
  ]
  sampling = plan.sampling._replace(stop=chat.stop)
  answers = resume.generate(engine.generate, requests, sampling)
  return [
    _taken(part, answer, most, env, chat, plan.limits)
    for part, answer, most in zip(parts, answers, full)
  ]


def _full(part: Part, limits: strategies.Limits) -> int:
  """How many tokens the action in progress may still have."""
  whole = strategies.request(part.live, limits, 0).max_tokens
  sampled = len(part.live.tokens) - part.begins if part.begins >= 0 else 0
  return min(whole, limits.turn_tokens - sampled)


def _taken(part, answer, most: int, env, chat, limits) -> Part:
  live = part.live
  begins = part.begins if part.begins >= 0 else len(live.tokens)
  live.take(answer)
  if answer.finish == engine_lib.LENGTH and len(answer.tokens) < most:
    return part._replace(begins=begins)  # the budget ended it, no limit
  ids = live.tokens[begins:]
  strategies.advance(live, ids, answer.finish, env, chat, limits)
  return part._replace(begins=-1)


def oldest(part: Part) -> int | None:
  """The version of the oldest token; None before the first."""
  known = [version for version in part.live.versions if version >= 0]
  return min(known, default=None)


def to_json(part: Part) -> dict[str, Any]:
  """A part as JSON; where its environment stands is not told."""
  live = part.live
  exchanges = [
    [each.action, list(each.turn), each.anchor] for each in live.exchanges
  ]
  return {
    'task': episode.task_to_json(live.task),
    'sample': live.sample,
    'status': live.status,
    'error': live.error,
    'exchanges': exchanges,
    'issue': part.issue,
    'begins': part.begins,
    **{name: stored.packed(getattr(live, name)) for name in _LISTS},
  }


def from_json(made: Mapping[str, Any], env: base.Env) -> Part:
  """The part that `to_json` wrote; the environment plays its actions again.

  One that answers otherwise than it did, or fails, ends the episode, which has
  no grade then. The seconds of an episode begin anew.
  """
  task = episode.task_from_json(made['task'])
  live = strategies.Live(task, made['sample'], ())
  live.status, live.error = made['status'], made['error']
  live.exchanges = [
    episode.Exchange(action, episode.Turn(*turn), anchor)
    for action, turn, anchor in made['exchanges']
  ]
  for name in _LISTS:
    setattr(live, name, stored.unpacked(made[name]).tolist())
  if not live.status:
    _play_again(live, env)
  return Part(live, made['issue'], made['begins'])


def _play_again(live: strategies.Live, env: base.Env) -> None:
  try:
    live.state = base.checked_reset(env, live.task)
    for each in live.exchanges:
      live.state, turn = base.checked_step(env, live.state, each.action)
      if not _same(turn, each.turn):
        live.end(
          episode.ENVIRONMENT_ERROR,
          f'played again, the environment answered {each.action[:80]!r} with'
          f' {turn.text[:80]!r} and not {each.turn.text[:80]!r}',
        )
        return
  except base.FAILURES as error:
    live.end(error.status, str(error))


def _same(left: episode.Turn, right: episode.Turn) -> bool:
  same = np.array_equal(left[1:3], right[1:3]) and left.text == right.text
  return same and left.process == right.process
