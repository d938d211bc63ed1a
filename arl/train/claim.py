"""One run at a time in a folder.

The kernel keeps the claim for a process and drops it however that ends, so
nothing has to be cleaned up after a kill.
"""

import contextlib
import fcntl
import os
import pathlib
import socket
from collections.abc import Iterator

FILE = '.claim'


@contextlib.contextmanager
def held(folder: pathlib.Path) -> Iterator[None]:
  """Keeps other runs out of a folder, which is made where there is none.

  Raises:
    ValueError: another run writes there, or this one cannot.
  """
  try:
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / FILE).open('a+', encoding='utf-8')
  except OSError as error:
    raise ValueError(
      f'{folder} cannot be written: {error.strerror}; make it writable, or'
      ' choose another workdir.'
    ) from error
  with file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      file.seek(0)
      raise ValueError(
        f'{folder}: another run is writing there, {file.read()}; wait until it'
        ' ends, or choose another workdir.'
      ) from error
    except OSError as error:
      print(
        f'{folder} is on a disk that knows no locks ({error.strerror}): see to'
        ' it that no other run writes there.'
      )
    file.truncate(0)
    file.write(f'process {os.getpid()} on {socket.gethostname()}')
    file.flush()
    yield
