"""Environments whose agent is a program of its own, and plays by itself."""

from typing import Any

from arl import names
from arl.envs import base


def make(
  *,
  of: dict[str, Any],
  command: str,
  syntax: str = 'hermes',
  seconds: float = 600.0,
  episodes: int = 1,
  processes: int = 2,
) -> base.Env:
  """An environment with an agent, for `harness.rollouts`.

  The agent owns its copy of the environment: it is given the tasks of this one.
  Where this one knows the answers, an agent that posts no reward earns 1 for
  saying it last and 0 otherwise. By itself, as in evaluation, the environment
  plays as it does without an agent.

  Args:
    of: the block of the environment: its name, and its keywords.
    command: what starts the agent; `python` is this interpreter. With one
      episode a process, {prompt} and {task} stand for the task's prompt and for
      all of it as JSON.
    syntax: how the model spells calls, a name of `call_syntax.SYNTAXES`.
    seconds: a process may run.
    episodes: of one process, at most.
    processes: at once, at most.
  """
  if not command.strip():
    raise ValueError(
      'outside: the command is empty; say what starts the agent.'
    )
  for name, value in (
    ('seconds', seconds), ('episodes', episodes), ('processes', processes),
  ):  # fmt: skip
    if value <= 0:
      raise ValueError(f'outside: {name} is {value}; give more than 0.')
  keywords = {**of}
  inner = names.resolve(keywords.pop('name'), 'arl.envs')(**keywords)
  answer, grade = inner.answer, None
  if answer is not None:
    grade = lambda task, said: float(said.strip() == answer(task))
  harness = base.Harness(command, syntax, seconds, episodes, processes, grade)
  return inner._replace(harness=harness)
