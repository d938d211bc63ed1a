"""What attempts aim at, and whether it is as it was afterwards."""

import contextlib
import dataclasses
import os
import pathlib
import random
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from arl.sandbox import base as sandbox
from arl.sandbox import calls, isolation, launch, programs, runs
from experiments.studies.attempts import base

_SLACK = 2.0  # seconds that a run may take beyond its limit
_MARK = 'ARL_ESCAPE_MARK'


@dataclasses.dataclass
class World:
  """Things of the host that no attempt may reach.

  Attributes:
    folder: holds a secret and a base layer.
    secret: what must not get out.
    mark: is in the environment of every program of this world.
    victim: a process.
    sockets: what must not be reached.
    unix: the path of one of them.
    files: path -> content, as made.
  """

  folder: pathlib.Path
  secret: str
  mark: str
  victim: subprocess.Popen
  sockets: list[socket.socket]
  unix: str
  files: dict[str, bytes]


def _listen(family: int, kind: int, address: str | tuple) -> socket.socket:
  made = socket.socket(family, kind)
  made.bind(address)
  if kind == socket.SOCK_STREAM:
    made.listen()
  made.setblocking(False)
  return made


def _contents(folder: pathlib.Path) -> dict[str, bytes]:
  return {
    str(path): path.read_bytes() if path.is_file() else b''
    for path in folder.rglob('*')
  }


@contextlib.contextmanager
def make() -> Iterator[World]:
  """A world, for as long as it is needed."""
  inet, stream = socket.AF_INET, socket.SOCK_STREAM
  with contextlib.ExitStack() as stack:
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    folder.chmod(0o755)
    secret, mark = secrets.token_hex(16), secrets.token_hex(8)
    (folder / 'secret').write_text(secret)
    (folder / 'base').mkdir()
    (folder / 'base' / 'data').write_text('layer')
    (folder / 'base' / 'data').chmod(0o666)
    (folder / 'base').chmod(0o777)
    tcp = _listen(inet, stream, ('0.0.0.0', 0))
    sockets = [
      tcp,
      _listen(inet, socket.SOCK_DGRAM, ('0.0.0.0', tcp.getsockname()[1])),
      _listen(socket.AF_UNIX, stream, str(folder / 'unix')),
      _listen(socket.AF_UNIX, stream, f'\0{mark}'),
    ]
    for each in sockets:
      stack.callback(each.close)
    environment = {**os.environ, 'SECRET': secret}
    victim = subprocess.Popen(['sleep', '3600'], env=environment)
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    stack.enter_context(_secret(secret))
    unix, found = str(folder / 'unix'), _contents(folder)
    yield World(folder, secret, mark, victim, sockets, unix, found)


@contextlib.contextmanager
def _secret(value: str) -> Iterator[None]:
  """A secret in the environment of the harness."""
  before = os.environ.get('ARL_ESCAPE_SECRET')
  os.environ['ARL_ESCAPE_SECRET'] = value
  yield
  if before is None:
    del os.environ['ARL_ESCAPE_SECRET']
  else:
    os.environ['ARL_ESCAPE_SECRET'] = before


def program(attempt: base.Attempt, world: World) -> sandbox.Program:
  """An attempt at a world."""
  made = programs.python(
    base.PRELUDE + attempt.source,
    attempt.stdin,
    mounts={'/base': str(world.folder / 'base')},
  )
  return made._replace(
    wanted=attempt.wanted,
    env={
      _MARK: world.mark,
      'VICTIM': str(world.victim.pid),
      'PORT': str(world.sockets[0].getsockname()[1]),
      'ADDRESS': _address(),
      'SECRET_FILE': str(world.folder / 'secret'),
      'UNIX': world.unix,
      'ABSTRACT': world.mark,
    },
  )


def _address() -> str:
  """An address of this machine that is not the loopback's, if it has one."""
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    try:
      probe.connect(('192.0.2.1', 9))  # sends nothing
    except OSError:
      return '127.0.0.1'
    return probe.getsockname()[0]


def left(world: World) -> list[str]:
  """Processes of attempts that are still there, zombies of ours, cgroups."""
  found = []
  for name in filter(str.isdigit, os.listdir('/proc')):
    try:
      status = pathlib.Path('/proc', name, 'status').read_text()
      fields = dict(
        line.split(':\t', 1) for line in status.splitlines() if ':\t' in line
      )
      environment = pathlib.Path('/proc', name, 'environ').read_bytes()
    except (OSError, ValueError):
      continue
    if int(fields['Uid'].split()[0]) in launch.users():
      found.append(f'process {name} of a program')
    if f'{_MARK}={world.mark}'.encode() in environment:
      found.append(f'process {name} with the mark')
    if fields['State'].startswith('Z') and int(fields['PPid']) == os.getpid():
      found.append(f'zombie {name}')
  home = isolation.find().home
  for folder in home.folders if home else ():
    found += [str(path) for path in folder.glob(f'arl-{os.getpid()}-*')]
  return found


def touched(world: World) -> list[str]:
  """What an attempt did to a world."""
  found = []
  if world.victim.poll() is not None:
    found.append('the victim was killed')
  if _contents(world.folder) != world.files:
    found.append('files were changed')
  for each in world.sockets:
    with contextlib.suppress(BlockingIOError):
      if each.type == socket.SOCK_STREAM:
        each.accept()
      else:
        each.recv(1)
      found.append('a socket was reached')
  return found


def _faults(
  attempt: base.Attempt, outcome: sandbox.Outcome, world: World
) -> list[str]:
  """What an attempt got, by what is seen from outside and by what it says."""
  found = []
  text = outcome.stdout + outcome.stderr + b''.join(outcome.files.values())
  for each in outcome.stdout.splitlines():
    if b'ESCAPED' in each:
      found.append(each.decode(errors='replace'))
  if world.secret.encode() in text:
    found.append('the secret is out')
  end = outcome.limit or str(outcome.code)
  if attempt.ends and end not in attempt.ends:
    found.append(f'ended by {end}: {outcome.stderr[-200:]!r}')
  if b'Error' in outcome.stderr and attempt.ends == ('0',):
    found.append(outcome.stderr.decode(errors='replace')[-200:])
  found += [
    f'{name!r} was handed out'
    for name in outcome.files
    if name not in attempt.given
  ]
  if outcome.seconds > attempt.limits.seconds + _SLACK:
    found.append(f'took {outcome.seconds:.1f} s')
  if max(len(outcome.stdout), len(outcome.stderr)) > attempt.limits.output:
    found.append('printed too much')
  return found


def attempt(
  each: base.Attempt, world: World
) -> tuple[list[str], sandbox.Outcome]:
  """Runs an attempt; gives what it got, nothing at best, and how it ended."""
  found: list[str] = []
  start = time.monotonic()
  for _ in range(each.times):
    outcome = runs.run(program(each, world), each.limits)
    found += _faults(each, outcome, world) + touched(world)
  if time.monotonic() - start > each.times * (each.limits.seconds + _SLACK):
    found.append('was not back in time')
  return found, outcome


def forge(
  each: base.Forgery, start: runs.Start, seed: int
) -> tuple[list[str], calls.Answer]:
  """Calls a forgery; whether its answer passes, which is never inside."""
  rng = random.Random(seed)
  numbers = [rng.randrange(10**6) for _ in range(5)]
  answer = calls.call(start, each.source, 'f', [numbers])
  passed = not answer.error and calls.same(answer.value, sum(numbers))
  return ['its answer passed'] if passed else [], answer
