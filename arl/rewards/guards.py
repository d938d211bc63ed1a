"""Commands that a policy must not run to look up or change what grades it."""

import re
import shlex
from collections.abc import Collection, Iterator
from typing import NamedTuple

_NETWORK = frozenset({
  'curl', 'wget', 'nc', 'ncat', 'netcat', 'telnet', 'ssh', 'scp', 'sftp', 'ftp',
  'rsync', 'aria2c', 'socat', 'gh',
})  # fmt: skip
# What reaches the network or the history only with one of these words.
_WORDS = {
  'git': frozenset({
    'remote', 'clone', 'fetch', 'pull', 'push', 'ls-remote', 'submodule', 'log',
    'reflog', 'show', 'blame', 'bundle', 'archive', 'fsck', 'cat-file',
    'rev-list', 'whatchanged', 'cherry-pick',
  }),
  'pip': frozenset({'install', 'download', 'index'}),
  'uv': frozenset({'pip', 'add', 'sync', 'tool'}),
  'conda': frozenset({'install', 'create', 'update'}),
  'npm': frozenset({'install', 'i', 'ci', 'view'}),
  'apt': frozenset({'install', 'update', 'download'}),
  'apt-get': frozenset({'install', 'update', 'download'}),
  'docker': frozenset({'pull', 'run', 'login'}),
}  # fmt: skip
_BEFORE = frozenset({
  'sudo', 'env', 'nohup', 'time', 'timeout', 'nice', 'command', 'exec', 'xargs',
  'then', 'do', 'else', 'if', 'while', 'until', '!', 'stdbuf', 'busybox',
})  # fmt: skip
_SHELLS = frozenset({'sh', 'bash', 'dash', 'zsh', 'ksh', 'eval'})
_ASSIGNMENT = re.compile(r'[A-Za-z_]\w*=.*', re.DOTALL)
_OPERATOR = re.compile(r'[();<>|&\n]+')
_VERSION = re.compile(r'[\d.]+$')
_INNER = re.compile(r'\$\(([^()]*)\)|`([^`]*)`')
_DEEPEST = 5
REFUSAL = 'error: this command is not allowed here: {}'


class Violation(NamedTuple):
  """A command that is refused: what it runs, and why."""

  command: str
  why: str


def violations(script: str) -> list[Violation]:
  """The commands of a shell script that reach the network, or git's history.

  Words count where a shell runs them: `echo curl` is none, and nor is a file
  named wget; `bash -c 'curl x'` and `$(curl x)` are. A guard against what
  policies learn to do, and no wall: the sandbox has no network. The rule of
  Qwen3-Coder-Next (arXiv:2603.00729), known from digests; the list is ours.

  Args:
    script: as the policy wrote it.

  Returns:
    One a command, in order. Answer with `REFUSAL`, and log each.
  """
  return list(_violations(script, 0))


def _violations(script: str, depth: int) -> Iterator[Violation]:
  if depth > _DEEPEST:
    return
  for command in _commands(script):
    name, words = _bare(command)
    if name in _NETWORK:
      yield Violation(' '.join(command), f'{name} reaches the network')
    elif found := _forbidden(name, words):
      yield Violation(' '.join(command), f'{name} {found} is not allowed')
    elif name in _SHELLS:
      for word in words:
        yield from _violations(word, depth + 1)
  for inner in _INNER.finditer(script):
    yield from _violations(inner[1] or inner[2] or '', depth + 1)


def _commands(script: str) -> Iterator[list[str]]:
  """The words of each command; of a script that no shell reads, by space."""
  script = _INNER.sub(' ', script.replace('\\\n', '').replace('\r', '\n'))
  reader = shlex.shlex(script, posix=True, punctuation_chars='();<>|&\n')
  reader.whitespace, reader.commenters = ' \t', ''
  reader.whitespace_split = True
  try:
    words = list(reader)
  except ValueError:
    words = script.split()
  command: list[str] = []
  for word in words:
    if not _OPERATOR.fullmatch(word):
      command.append(word)
    elif command:
      yield command
      command = []
  if command:
    yield command


def _bare(command: list[str]) -> tuple[str, list[str]]:
  """What a command runs, and its words, past what only wraps it."""
  words = list(command)
  while words:
    name = words[0].rpartition('/')[2]
    wraps = name in _BEFORE or _ASSIGNMENT.fullmatch(words[0])
    if not wraps:
      break
    words.pop(0)
    while words and (words[0].startswith('-') or words[0].isdigit()):
      words.pop(0)
  if not words:
    return '', []
  name = _VERSION.sub('', words[0].rpartition('/')[2])
  if name == 'python' and words[1:2] == ['-m'] and len(words) > 2:
    return _VERSION.sub('', words[2]), words[3:]
  return name, words[1:]


def _forbidden(name: str, words: list[str]) -> str:
  """The first word that is not an option, if it is one that is refused."""
  if name not in _WORDS:
    return ''
  skip = False
  for word in words:
    if skip:
      skip = False
    elif word in ('-C', '-c', '--git-dir', '--work-tree'):
      skip = True
    elif not word.startswith('-'):
      return word if word in _WORDS[name] else ''
  return ''


def after_tampering(
  outcome: float,
  changed: Collection[str],
  guarded: Collection[str],
  *,
  penalty: float = 0.5,
) -> float:
  """The outcome, or -penalty if a file of the tests or grader was changed.

  The rule is ours.

  Args:
    outcome: of the grader.
    changed: paths that the episode changed, as the harness saw it.
    guarded: paths that it may not change.
    penalty: once, however many.
  """
  return -penalty if set(changed) & set(guarded) else outcome
