"""Files of a sandbox, through a descriptor of their folder.

No path is ever followed through a link: every component is opened on its own,
and only regular files are read, none longer than asked for. What is read here
must have no writers left. Names are relative, with '/' between components.
"""

import contextlib
import hashlib
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import NamedTuple

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooMuch(Exception):
  """Files are more than asked for."""


class Entry(NamedTuple):
  """A file, a folder or a link.

  Attributes:
    name: path in its tree.
    mode: permissions.
    data: content of a file, target of a link, b'' for a folder.
    kind: 'file', 'folder' or 'link'.
  """

  name: str
  mode: int
  data: bytes
  kind: str


Tree = tuple[Entry, ...]
_DEEPEST = 64  # folders in each other that are kept


def digest(tree: Tree) -> str:
  """The identity of a tree."""
  made = hashlib.sha256()
  for entry in tree:
    head = f'{entry.kind} {entry.mode:o} {len(entry.data)} {len(entry.name)} '
    made.update(head.encode() + os.fsencode(entry.name) + entry.data)
  return made.hexdigest()


def parts(name: str) -> tuple[str, ...]:
  """The components of a name.

  Raises:
    ValueError: it leaves its folder.
  """
  made = pathlib.PurePosixPath(name)
  bad = made.is_absolute() or not made.parts or '..' in made.parts
  if bad or '\0' in name:
    raise ValueError(f'{name!r} is no path below the work directory')
  return made.parts


@contextlib.contextmanager
def _folder(root: int, names: tuple[str, ...]) -> Iterator[int]:
  """A folder below another one, opened component by component."""
  at = os.dup(root)
  try:
    for name in names:
      deeper = os.open(name, _FOLDER, dir_fd=at)
      os.close(at)
      at = deeper
    yield at
  finally:
    os.close(at)


def write(root: int, name: str, data: bytes, owner: int | None) -> None:
  """Makes a new file and the folders that it needs, of an owner."""
  *above, last = parts(name)
  for depth in range(len(above)):
    folder = Entry(above[depth], 0o755, b'', 'folder')
    exists = contextlib.suppress(FileExistsError)
    with _folder(root, tuple(above[:depth])) as at, exists:
      _put(at, folder, owner)
  with _folder(root, tuple(above)) as at:
    _put(at, Entry(last, 0o644, data, 'file'), owner)


def _put(at: int, entry: Entry, owner: int | None) -> None:
  """Makes an entry whose name is one component; folders stay writable."""
  name = entry.name
  if entry.kind == 'link':
    os.symlink(os.fsdecode(entry.data), name, dir_fd=at)
  elif entry.kind == 'folder':
    os.mkdir(name, 0o700, dir_fd=at)
    os.chmod(name, entry.mode | 0o700, dir_fd=at)
  else:
    made = os.open(name, _WRITE, 0o600, dir_fd=at)
    with open(made, 'wb') as file:
      file.write(entry.data)
    os.chmod(name, entry.mode, dir_fd=at)
  if owner is not None:
    os.chown(name, owner, owner, dir_fd=at, follow_symlinks=False)


def read(root: int, name: str, most: int) -> bytes:
  """The content of a file.

  Raises:
    OSError: there is none, or the way to it is not one of plain folders.
    ValueError: it is no regular file, or longer than `most` bytes.
  """
  *above, last = parts(name)
  with _folder(root, tuple(above)) as at:
    return _content(at, last, most)


def _content(at: int, name: str, most: int) -> bytes:
  status = os.stat(name, dir_fd=at, follow_symlinks=False)
  if not stat.S_ISREG(status.st_mode):
    raise ValueError('no regular file')
  if status.st_size > most:
    raise ValueError(f'{status.st_size} bytes, more than {most}')
  if not status.st_mode & 0o400:
    os.chmod(name, 0o600, dir_fd=at)
  with open(os.open(name, _READ, dir_fd=at), 'rb') as file:
    return file.read(most + 1)[:most]


def take(root: int, most: int, entries: int) -> Tree:
  """All files, folders and links below a folder, in order of their names.

  What is something else, such as a socket, is left out; two names of one file
  become two files; times are not kept.

  Raises:
    TooMuch: more bytes or entries than asked for, or too deep.
  """
  made: list[Entry] = []
  left, waiting = most, ['']
  while waiting:
    above = waiting.pop()
    with _folder(root, parts(above) if above else ()) as at:
      for name in os.listdir(at):
        entry = _entry(at, name, left)
        if entry is None:
          continue
        left -= len(entry.data)
        path = f'{above}/{name}' if above else name
        made.append(entry._replace(name=path))
        if entry.kind == 'folder':
          waiting.append(path)
    if len(made) > entries:
      raise TooMuch(f'more than {entries} files and folders')
    if above.count('/') > _DEEPEST:
      raise TooMuch(f'more than {_DEEPEST} folders in each other')
  return tuple(sorted(made))


def _entry(at: int, name: str, left: int) -> Entry | None:
  status = os.stat(name, dir_fd=at, follow_symlinks=False)
  mode = stat.S_IMODE(status.st_mode) & 0o777
  if stat.S_ISLNK(status.st_mode):
    data = os.fsencode(os.readlink(name, dir_fd=at))
    return Entry(name, 0o777, data, 'link')
  if stat.S_ISDIR(status.st_mode):
    if mode & 0o700 != 0o700:
      os.chmod(name, mode | 0o700, dir_fd=at)
    return Entry(name, mode, b'', 'folder')
  if not stat.S_ISREG(status.st_mode):
    return None
  try:
    return Entry(name, mode, _content(at, name, left), 'file')
  except ValueError as error:
    raise TooMuch(f'{name}: {error}') from error


def put(root: int, tree: Tree, owner: int | None) -> None:
  """Makes what `take` gave, in an empty folder."""
  for entry in tree:
    *above, last = parts(entry.name)
    with _folder(root, tuple(above)) as at:
      _put(at, entry._replace(name=last), owner)
  for entry in reversed(tree):
    if entry.kind == 'folder' and entry.mode & 0o700 != 0o700:
      *above, last = parts(entry.name)
      with _folder(root, tuple(above)) as at:
        os.chmod(last, entry.mode, dir_fd=at)
