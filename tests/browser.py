"""A page in headless Chromium, by its own protocol over two pipes.

Chromium reads JSON, ended by a zero byte, from descriptor 3 and writes it to 4.
"""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')
FLAGS = (
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
  '--disable-dev-shm-usage',
  '--no-first-run', '--disable-background-networking', '--hide-scrollbars',
  '--disable-component-update', '--disable-sync', '--disable-extensions',
  '--remote-debugging-pipe',
)  # fmt: skip
_LOADED = 'Page.loadEventFired'
# What tells of an error of a page.
_ERRORS = ('Runtime.exceptionThrown', 'Log.entryAdded', 'Network.loadingFailed')


class Page(NamedTuple):
  """A page that is open.

  Attributes:
    values: what the expressions gave, by name.
    errors: events that tell of one.
    picture: a PNG of the whole page.
  """

  values: dict[str, Any]
  errors: list[dict[str, Any]]
  picture: bytes


def find() -> str | None:
  """The program, or None."""
  return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
  """One that runs, and its one tab."""

  def __init__(self, write: int, read: int):
    self._write, self._read = write, os.fdopen(read, 'rb')
    self._count, self._session, self._waiting = 0, None, []
    target = self.call('Target.createTarget', url='about:blank')['targetId']
    attached = self.call('Target.attachToTarget', targetId=target, flatten=True)
    self._session = attached['sessionId']
    for domain in ('Page', 'Runtime', 'Log', 'Network'):
      self.call(f'{domain}.enable')

  def _next(self) -> dict[str, Any]:
    data = b''
    while (byte := self._read.read(1)) != b'\0':
      if not byte:
        raise EOFError('the browser ended')
      data += byte
    return json.loads(data)

  def call(self, method: str, **params: Any) -> dict[str, Any]:
    """The result of a call; events meanwhile are kept."""
    self._count += 1
    said = {'id': self._count, 'method': method, 'params': params}
    if self._session:
      said['sessionId'] = self._session
    data = json.dumps(said).encode() + b'\0'
    while data:
      data = data[os.write(self._write, data) :]
    while (heard := self._next()).get('id') != self._count:
      self._waiting.append(heard)
    if 'error' in heard:
      raise ValueError(f'{method}: {heard["error"]}')
    return heard['result']

  def events(self, until: str) -> list[dict[str, Any]]:
    """Events up to one of a name."""
    seen, self._waiting = self._waiting, []
    while not any(one.get('method') == until for one in seen):
      seen.append(self._next())
    return seen

  def look(
    self,
    url: str,
    asked: Mapping[str, str],
    *,
    width: int,
    height: int,
    dark: bool = False,
  ) -> Page:
    """Opens a page in a window of that size, and asks it expressions."""
    self._waiting = []
    self.call(
      'Emulation.setDeviceMetricsOverride', width=width, height=height,
      deviceScaleFactor=1, mobile=width < 600,
    )  # fmt: skip
    scheme = {'name': 'prefers-color-scheme', 'value': 'dark' if dark else ''}
    self.call('Emulation.setEmulatedMedia', features=[scheme])
    self.call('Page.navigate', url=url)
    seen = self.events(_LOADED)
    values = {name: self._value(text) for name, text in asked.items()}
    shot = self.call('Page.captureScreenshot', captureBeyondViewport=True)
    errors = [e for e in (*seen, *self._waiting) if e.get('method') in _ERRORS]
    return Page(values, errors, base64.b64decode(shot['data']))

  def _value(self, expression: str) -> Any:
    made = self.call(
      'Runtime.evaluate', expression=expression, returnByValue=True,
      awaitPromise=True,
    )  # fmt: skip
    if 'exceptionDetails' in made:
      raise ValueError(f'{expression}: {made["exceptionDetails"]}')
    return made['result']['value']


@contextlib.contextmanager
def running(program: str, folder: pathlib.Path) -> Iterator[Browser]:
  """A browser with an empty profile in a folder."""
  theirs, write = os.pipe()
  read, other = os.pipe()
  assert min(theirs, other) > 4
  command = ' '.join(['exec "$0" "$@"', f'3<&{theirs}', f'4>&{other}'])
  process = subprocess.Popen(
    ['bash', '-c', command, program, *FLAGS, f'--user-data-dir={folder}'],
    pass_fds=(theirs, other),
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
  )
  os.close(theirs)
  os.close(other)
  try:
    yield Browser(write, read)
  finally:
    os.close(write)
    process.terminate()
    process.wait(timeout=30)
