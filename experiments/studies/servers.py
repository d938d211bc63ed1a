"""Servers of a study, on loopback: started, waited for, and stopped."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import httpx

_ROOT = pathlib.Path(__file__).parents[2]


def free_port() -> int:
  """A port that nothing listens on now."""
  with socket.socket() as taken:
    taken.bind(('127.0.0.1', 0))
    return taken.getsockname()[1]


def url(port: int) -> str:
  """The address of a server at a port of this machine."""
  return f'http://127.0.0.1:{port}'


@contextlib.contextmanager
def embedded(
  model: pathlib.Path, folder: pathlib.Path, *flags: str
) -> Iterator[str]:
  """The embedded server of a model folder; its url.

  Args:
    model: what to serve.
    folder: where its log is kept.
    *flags: further ones of launch/serve.py.
  """
  port = free_port()
  with at(port, model, folder, *flags):
    yield url(port)


@contextlib.contextmanager
def at(
  port: int, model: pathlib.Path, folder: pathlib.Path, *flags: str
) -> Iterator[subprocess.Popen]:
  """As `embedded`, at a port of one's choice; its process."""
  command = [
    sys.executable, '-m', 'launch.serve', f'--model={model}', f'--port={port}',
    *flags,
  ]  # fmt: skip
  with _running(command, port, folder / f'serve-{port}.log') as process:
    yield process


def has_sglang() -> bool:
  """Whether there is an environment with SGLang for CPUs to use."""
  venv = os.environ.get('ARL_SGLANG_VENV', '')
  return (pathlib.Path(venv) / 'bin' / 'python').exists() if venv else False


@contextlib.contextmanager
def sglang(
  model: pathlib.Path, folder: pathlib.Path, *flags: str
) -> Iterator[str]:
  """As `embedded`, SGLang's own server from the environment ARL_SGLANG_VENV."""
  port = free_port()
  command = [
    str(_ROOT / 'launch' / 'sglang.sh'), str(model), '--port', str(port),
    '--cpu', *flags,
  ]  # fmt: skip
  with _running(command, port, folder / f'sglang-{port}.log'):
    yield url(port)


@contextlib.contextmanager
def _running(
  command: Sequence[str], port: int, log: pathlib.Path
) -> Iterator[subprocess.Popen]:
  """A server in a process group of its own, until it has to end."""
  log.parent.mkdir(parents=True, exist_ok=True)
  with log.open('w') as out:
    process = subprocess.Popen(
      command,
      stdout=out,
      stderr=subprocess.STDOUT,
      start_new_session=True,
      cwd=_ROOT,
    )
    try:
      _wait(process, url(port), log)
      yield process
    finally:
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
      try:
        process.wait(20)
      except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process, where, log, seconds: float = 600) -> None:
  """Until it can sample: /model_info answers before that at SGLang."""
  end = time.monotonic() + seconds
  while time.monotonic() < end:
    if process.poll() is not None:
      raise RuntimeError(f'a server ended with {process.returncode}; see {log}')
    with contextlib.suppress(httpx.TransportError):
      if httpx.get(f'{where}/health', timeout=30).status_code == 200:
        return
    time.sleep(1)
  raise RuntimeError(f'{where} was not ready after {seconds:.0f} s; see {log}')
