"""One program in one sandbox, from nothing."""

from collections.abc import Callable

from arl.sandbox import base, box, files, isolation

# Gives the sandbox for a program: `start` a new one, a pool's one that waits.
Start = Callable[[base.Program], box.Box]


def start(
  program: base.Program,
  limits: base.Limits = base.DEFAULT,
  unsafe_without_isolation: bool = False,
) -> box.Box:
  """A new sandbox for a program; to be given to `finish`, or closed.

  Args:
    program: what to run.
    limits: what it may use.
    unsafe_without_isolation: run it even if nothing can isolate it.

  Raises:
    base.Refused: nothing can isolate it.
    base.SandboxFailure: the sandbox broke.
    ValueError: the program cannot be asked for.
  """
  return box.Box(program, limits, isolation.find(unsafe_without_isolation))


def finish(made: box.Box, program: base.Program) -> base.Outcome:
  """Runs a program in a started sandbox, and leaves nothing of it.

  Raises:
    base.SandboxFailure: the sandbox broke.
    ValueError: its files cannot be asked for.
  """
  try:
    made.put(program.files)
    outcome = made.run(program.stdin)
    found, refused = {}, {}
    for name in program.wanted:
      try:
        most = made.limits.output
        found[name] = files.read(made.roots[base.WORK], name, most)
      except (OSError, ValueError) as error:
        refused[name] = getattr(error, 'strerror', None) or str(error)
    return outcome._replace(files=found, refused=refused)
  finally:
    made.close()


def run(
  program: base.Program,
  limits: base.Limits = base.DEFAULT,
  unsafe_without_isolation: bool = False,
) -> base.Outcome:
  """Runs an untrusted program: `start` and `finish`."""
  return finish(start(program, limits, unsafe_without_isolation), program)
