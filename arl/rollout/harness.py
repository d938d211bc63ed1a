"""A strategy whose agent is a program of its own, which knows nothing of arl.

The program speaks to an OpenAI server, as it does in production. Here that
server is the proxy in front of the engine, on a free port of this machine.
"""

import concurrent.futures
import contextlib
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from arl import episode
from arl.envs import base
from arl.rollout import (
  batching,
  loopback,
  proxy,
  record,
  rows,
  strategies,
  templates,
)
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout.proxy import sampling as proxy_sampling

_TAIL = 2000  # characters of its errors that are kept


def rollouts(
  engine: engine_lib.Engine,
  env: base.Env,
  chat: chat_lib.Chat,
  tasks: Sequence[episode.Task],
  plan: strategies.Plan,
) -> list[episode.Episode]:
  """Episodes of the agent that the environment names (`Env.harness`).

  The agent is told, on its standard input, a line for each of its episodes:
  {"key": .., "task": {..}}. OPENAI_BASE_URL is set, and where it has a single
  episode OPENAI_API_KEY to its key; with several it takes each key itself.

  A reward that the agent posted counts; else the harness grades what the agent
  was told last. `limits.max_turns` is of the calls of an episode. What a limit
  refused is answered 400, and the episode has that limit's status; one whose
  program fails, or is killed at its time limit, is an environment_error with
  the end of what it wrote to stderr.

  Arguments as of `strategies.multi_turn`, but each request's path ends in the
  number of a call.

  Returns:
    The rows of all rollouts, those of one after the other.

  Raises:
    ValueError: the environment names no agent, or the tokenizer's template
      cannot be used.
  """
  if env.harness is None:
    raise ValueError(
      'harness.rollouts: the environment names no agent (Env.harness); use'
      " config.env.name = 'outside.make'."
    )
  harness = env.harness
  records = [
    record.Rollout(
      secrets.token_hex(8), task, sample, (*plan.path, place, sample)
    )
    for place, task in enumerate(tasks, plan.first)
    for sample in range(plan.samples)
  ]
  settings = proxy_sampling.Settings(
    templates.of(chat.tokenizer), harness.syntax, plan.sampling, plan.limits
  )
  n = harness.episodes
  parts = [records[i : i + n] for i in range(0, len(records), n)]
  with contextlib.ExitStack() as stack:
    asked = stack.enter_context(batching.coroutines(engine))
    made = proxy.Proxy(asked, settings, {r.key: r for r in records})
    url = stack.enter_context(loopback.served(made.app))
    pool = stack.enter_context(
      concurrent.futures.ThreadPoolExecutor(harness.processes)
    )
    failed = pool.map(lambda part: _run(harness, part, url), parts)
    for part, failure in zip(parts, failed):
      for one in part:
        _grade(harness, one, failure)
        record.close(one, failure)
  return [row for one in records for row in rows.of(one)]


rollouts.asks = frozenset({'harness'})  # type: ignore[attr-defined]
rollouts.lacks = frozenset(  # type: ignore[attr-defined]
  {'process_rewards', 'kind', 'state'}
)


def _run(harness: base.Harness, part, url: str) -> str:
  """Runs the agent on some rollouts; gives what went wrong, or ''."""
  lines = [{'key': one.key, 'task': one.task._asdict()} for one in part]
  text = ''.join(f'{json.dumps(line)}\n' for line in lines)
  environment = {
    **os.environ,
    'OPENAI_BASE_URL': f'{url}/v1',
    'OPENAI_API_KEY': part[0].key if len(part) == 1 else 'one-for-each-episode',
    'NO_PROXY': '127.0.0.1',
  }
  with tempfile.TemporaryFile() as errors:
    try:
      process = subprocess.Popen(
        _command(harness, part),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=environment,
        start_new_session=True,  # a group, to be killed as one
      )
    except OSError as error:
      return f'the agent could not be started: {error}'
    timed_out = False
    try:
      process.communicate(text.encode(), harness.seconds)
    except subprocess.TimeoutExpired:
      timed_out = True
    finally:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
      process.wait()
    if timed_out:
      return f'the agent ran longer than {harness.seconds} s' + _tail(errors)
    if process.returncode:
      return f'the agent ended with {process.returncode}' + _tail(errors)
  return ''


def _command(harness: base.Harness, part) -> list[str]:
  """The words of the command; `python` is the interpreter that runs this."""
  words = shlex.split(harness.command)
  if words[0] == 'python':
    words[0] = sys.executable
  if len(part) > 1:
    return words
  task = part[0].task
  put = {'{prompt}': task.prompt, '{task}': json.dumps(task._asdict())}
  for mark, text in put.items():
    words = [word.replace(mark, text) for word in words]
  return words


def _tail(errors) -> str:
  size = errors.seek(0, os.SEEK_END)
  errors.seek(max(0, size - _TAIL))
  text = errors.read().decode(errors='replace').strip()
  return f':\n{text}' if text else ', and wrote no error'


def _grade(harness: base.Harness, one: record.Rollout, failed: str) -> None:
  """Grades the last answer, where nobody told a reward."""
  told = one.reward is not None or one.rewards
  broken = failed and not one.limit  # at a limit, many an agent gives up
  if told or broken or harness.grade is None or not one.calls:
    return
  message = one.calls[-1].message or {}
  try:
    one.grade(harness.grade(one.task, message.get('content') or ''))
  except Exception as error:
    one.finish(episode.REWARD_ERROR, f'{type(error).__name__}: {error}')
