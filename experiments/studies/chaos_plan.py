"""What is in store for a run: between chaos_child and who starts it."""

import mmap
import pathlib
from typing import NamedTuple

ROLLOUT, SCORING, UPDATE = 'rollout', 'scoring', 'update'
SAVE, SYNC, EVALUATION = 'save', 'weight sync', 'evaluation'
BETWEEN = 'between'  # nothing of these
ROOM = 128  # bytes of a page


class Plan(NamedTuple):
  """What is in store for a run.

  Attributes:
    page: a file that tells what is under way, and still does after a kill.
    played: a file to which each step adds what it gathered, as a line.
    phase: in which it is killed; '' for none.
    after: steps that have to begin before.
    delay: seconds from the beginning of the phase to the kill.
    clock: the seed of a clock that jumps; 0 for the true one.
    patience: seconds that a lost server is waited for; 0 for the usual.
  """

  page: str
  played: str
  phase: str = ''
  after: int = 1
  delay: float = 0.0
  clock: int = 0
  patience: float = 0.0


def open_page(path: str) -> mmap.mmap:
  """A page that whoever opens the file sees, whatever becomes of the writer."""
  pathlib.Path(path).write_bytes(bytes(ROOM))
  with open(path, 'r+b') as file:
    return mmap.mmap(file.fileno(), ROOM)


def under_way(path: str) -> list[str]:
  """What a page tells; nothing before a run has begun to write there."""
  page = pathlib.Path(path)
  if not page.exists():
    return []
  told = page.read_bytes().rstrip(b'\0').decode()
  return told.split(',') if told else []
