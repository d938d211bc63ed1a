"""A shell whose state is a value.

Every command runs in a new sandbox, into which the files of /task and /tmp are
put and from which they are taken when all its processes have ended. So a state
can be kept, compared, stored and stepped from again, any number of times.
Background processes do not outlive their command.
"""

from collections.abc import Mapping
from typing import NamedTuple

from arl.sandbox import base, files, programs, runs

_AFTER = '.session'
_TOLD = 1 << 16  # bytes of directory and variables
_SHELL = f"""
IFS= read -r -d '' cwd; IFS= read -r -d '' exports; IFS= read -r -d '' command
exec 2>&1
eval "$exports"
cd -- "$cwd" || cd {base.WORK}
unset cwd exports
trap '{{ printf "%s\\0" "$PWD"; export -p; }} > /dev/shm/{_AFTER}' EXIT
eval "$command"
"""
# What a pool for sessions is made of.
PROGRAM = base.Program(('/bin/bash', '--norc', '--noprofile', '-c', _SHELL))


class State(NamedTuple):
  """A shell between two commands.

  Attributes:
    work: what is in /task.
    tmp: what is in /tmp.
    folder: where it is.
    exports: its exported variables, as bash tells them.
  """

  work: files.Tree = ()
  tmp: files.Tree = ()
  folder: str = base.WORK
  exports: str = ''


def begin(given: Mapping[str, bytes]) -> State:
  """A shell in a work directory with some files.

  Raises:
    ValueError: a name leaves the work directory.
  """
  made: dict[str, files.Entry] = {}
  for name, data in given.items():
    *above, last = files.parts(name)
    for depth in range(1, len(above) + 1):
      path = '/'.join(above[:depth])
      made[path] = files.Entry(path, 0o755, b'', 'folder')
    path = '/'.join((*above, last))
    made[path] = files.Entry(path, 0o644, data, 'file')
  return State(tuple(sorted(made.values())))


def step(
  start: runs.Start,
  state: State,
  command: str,
  program: base.Program = PROGRAM,
) -> tuple[State, base.Outcome]:
  """Runs a command; gives the state after it, and how it went.

  stdout holds what it wrote to either stream. If it left more files than the
  limits allow to keep, or deeper ones, the outcome's limit is `base.DISK` and
  the state is the one before.

  Args:
    start: `runs.start` or a pool's.
    state: where the shell is.
    command: of bash, any number of lines.
    program: PROGRAM, or that with env and mounts.

  Raises:
    base.SandboxFailure: the sandbox broke.
    base.Refused: nothing isolates it; a shell is not run then at all.
  """
  box = start(program)
  try:
    if '/tmp' not in box.roots:
      raise base.Refused('a shell without isolation has no folders of its own')
    box.restore(base.WORK, state.work)
    box.restore('/tmp', state.tmp)
    text = programs.fields(state.folder, state.exports, command)
    outcome = box.run(text)
    most = (box.limits.disk, box.limits.inodes)
    try:
      work = files.take(box.roots[base.WORK], *most)
      tmp = files.take(box.roots['/tmp'], *most)
    except files.TooMuch:
      return state, outcome._replace(code=None, limit=base.DISK)
    after = state._replace(work=work, tmp=tmp)
    return _moved(after, box.roots['/dev/shm']), outcome
  finally:
    box.close()


def _moved(state: State, root: int) -> State:
  """A state with the directory and variables that the shell told, if it did."""
  try:
    told = files.read(root, _AFTER, _TOLD).decode(errors='replace')
  except (OSError, ValueError):  # it was killed, or replaced itself
    return state
  folder, found, exports = told.partition('\0')
  if not found or not folder or '\0' in exports:
    return state
  return state._replace(folder=folder, exports=exports)
