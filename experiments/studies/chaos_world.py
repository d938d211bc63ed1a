"""A world of letters and a policy that spells little: runs of seconds.

Two turns, each of which earns a half if an 'a' was said. Rewards vary under a
fresh policy, so that every update moves it.
"""

import functools
import pathlib
import shlex
from collections.abc import Callable
from typing import Any

import jax
import tokenizers as tokenizers_lib

from arl import episode
from arl.envs import base, boxes
from arl.models import hf, sizes, tokenizers, transformer
from arl.sandbox import session

_SPELLED = ('_', '!', *'abcd?.')  # padding, the end of a turn, and letters
_TEMPLATE = (
  '{% for message in messages %}{{ message.content }}'
  "{% if message.role == 'assistant' %}{{ '!' }}{% endif %}{% endfor %}"
)
_PATIENCE = 30.0  # seconds that a program may run


def write_model(folder: pathlib.Path) -> pathlib.Path:
  """A fresh policy and its tokenizer as a model folder, once."""
  if not folder.exists():
    draft = folder.with_suffix('.draft')
    # Narrower states are rounded by who else is in a batch, see BUILD.md.
    shape = sizes.quick(len(_SPELLED))
    params = transformer.make(shape).init(jax.random.key(0))
    hf.save(draft, jax.device_get(params), shape)
    tokenizers.save(_tokenizer(), draft)
    draft.rename(folder)
  return folder


def _tokenizer() -> Any:
  """A token a character."""
  ids = {token: i for i, token in enumerate(_SPELLED)}
  core = tokenizers_lib.Tokenizer(tokenizers_lib.models.WordLevel(ids))
  core.pre_tokenizer = tokenizers_lib.pre_tokenizers.Split(
    tokenizers_lib.Regex(r'[\s\S]'), 'isolated'
  )
  core.decoder = tokenizers_lib.decoders.Fuse()
  return tokenizers.wrap(core, _TEMPLATE, *_SPELLED[:2])


def make(*, seconds: float = 0.0) -> base.Env:
  """The world.

  Args:
    seconds: that a program in a sandbox takes to judge a turn; 0 for none, the
      turn is judged here.

  Raises:
    arl.sandbox.base.Refused: nothing isolates programs on this machine.
  """
  judge: Callable[[str], bool] = lambda text: 'a' in text
  if seconds:
    boxes.check(False)
    judge = functools.partial(_by_program, seconds)
  return base.Env(
    task=_task,
    reset=lambda task: (task.id, 0),
    step=functools.partial(_step, judge),
    oracle=lambda state: 'a',
    noisy=lambda state, rng: 'a' * int(rng.integers(1, 4)),
  )


def _task(split: str, index: int) -> episode.Task:
  id = base.task_id('letters', split, index)
  return episode.Task(id, 'abcd'[index % 4] + '?', {})


def _by_program(seconds: float, text: str) -> bool:
  command = f'sleep {seconds}; printf %s {shlex.quote(text)} | grep -c a'
  _, outcome = boxes.run(session.begin({}), command, _PATIENCE, False)
  return bool(int(outcome.stdout))


def _step(judge: Callable[[str], bool], state, text: str):
  id, turns = state
  return (id, turns + 1), episode.Turn('d', 0.5 * judge(text), turns == 1)
