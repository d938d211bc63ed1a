"""How far a run is: a live bar on a terminal, a line a step elsewhere."""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import rich.console
import rich.live
import rich.progress
import rich.text

_WINDOW = 20  # steps that the estimate of the time left looks back on


class Report(NamedTuple):
  """What a loop tells its reader.

  Call it with (step, values) once a step is done; values are shown under their
  names, in order.

  Attributes:
    step: the same as the call.
    note: (text) -> None. One message: a warning, a saved checkpoint.
  """

  step: Callable[[int, Mapping[str, float]], None]
  note: Callable[[str], None]

  def __call__(self, step: int, values: Mapping[str, float]) -> None:
    self.step(step, values)


class _Pace(NamedTuple):
  """How fast it goes, in seconds: of the last step, and for all to come."""

  step: float
  left: float


@contextlib.contextmanager
def track(total: int, title: str, start: int = 0) -> Iterator[Report]:
  """Shows the progress of a loop on the standard output.

  On a terminal a bar is redrawn in place; NO_COLOR is respected. Into a file, a
  pipe or a notebook goes one line a step, without control codes.

  Args:
    total: the step the loop ends with, at least 1.
    title: what the loop does, in a few words.
    start: steps done before, in 0..total.

  Raises:
    ValueError: the range is empty, or a reported step is not after the one
      before it and within the total.
  """
  if not 0 <= start <= total or total < 1:
    raise ValueError(
      f'track: got start={start} and total={total}, expected 0 <= start <= '
      'total and total >= 1; give the steps of the whole run.'
    )
  console = rich.console.Console(highlight=False)
  redraws = console.is_terminal and not console.is_dumb_terminal
  shown = (
    _live(console, total, title, start)
    if redraws
    else _plain(total, title, start)
  )
  with shown as report:
    yield report


@contextlib.contextmanager
def _plain(total: int, title: str, start: int) -> Iterator[Report]:
  # print, because a console would wrap lines to a width that a file lacks.
  pace = _pacer(total, start)
  print(f'{title}: step {start} of {total}', flush=True)

  def step(number: int, values: Mapping[str, float]) -> None:
    took, left = pace(number)
    facts = ' '.join([_values(values), f'{took:.1f} s left {_clock(left)}'])
    print(f'step {number}/{total} {facts.lstrip()}', flush=True)

  yield Report(step, lambda text: print(text, flush=True))


@contextlib.contextmanager
def _live(
  console: rich.console.Console, total: int, title: str, start: int
) -> Iterator[Report]:
  pace = _pacer(total, start)
  bar = rich.progress.Progress(
    rich.progress.TextColumn('{task.description}', markup=False),
    rich.progress.BarColumn(),
    rich.progress.MofNCompleteColumn(),
    rich.progress.TimeElapsedColumn(),
    rich.progress.TextColumn('{task.fields[left]}', markup=False),
    console=console,
  )
  task = bar.add_task(title, total=total, completed=start, left='')
  facts = rich.text.Text()

  def step(number: int, values: Mapping[str, float]) -> None:
    took, left = pace(number)
    bar.update(task, completed=number, left=f'left {_clock(left)}')
    facts.plain = f'{_values(values)} {took:.1f} s'.lstrip()

  def note(text: str) -> None:
    console.print(text, markup=False)

  group = rich.console.Group(bar, facts)
  with rich.live.Live(group, console=console, refresh_per_second=4):
    yield Report(step, note)


def _pacer(total: int, start: int) -> Callable[[int], _Pace]:
  """A clock: give it each step as it is done.

  The time left goes by the last steps. The first step, which compiles, counts
  only while nothing else is known.
  """
  marks = collections.deque([(start, time.monotonic())], maxlen=_WINDOW)
  reports = 0

  def pace(number: int) -> _Pace:
    nonlocal reports
    before, then = marks[-1]
    if not before < number <= total:
      raise ValueError(
        f'track: got step {number} after step {before} of {total}, expected a '
        'later one within the total; report each step once, in order.'
      )
    now = time.monotonic()
    marks.append((number, now))
    reports += 1
    if reports == 2:
      marks.popleft()
    first, since = marks[0]
    left = (total - number) * (now - since) / (number - first)
    return _Pace((now - then) / (number - before), left)

  return pace


def _values(values: Mapping[str, float]) -> str:
  return ' '.join(f'{name} {_short(x)}' for name, x in values.items())


def _short(value: float) -> str:
  """Three digits, or a whole number where that says more."""
  return f'{value:,.0f}' if abs(value) >= 999.5 else f'{value:.3g}'


def _clock(seconds: float) -> str:
  minutes, second = divmod(round(seconds), 60)
  hours, minute = divmod(minutes, 60)
  return (
    f'{hours}:{minute:02}:{second:02}' if hours else f'{minute:02}:{second:02}'
  )
