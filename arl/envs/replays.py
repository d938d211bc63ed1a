"""Games that change as they are played, behind states that do not.

A state is a task and the actions taken so far. The live game that stands there
is kept for the next action; where it is not there, because it was played on,
left out to save memory or never made in this process, the actions are played
again from the start. So the game must be deterministic: nothing but the task
and the actions may decide what it does.
"""

import collections
import threading
from collections.abc import Callable
from typing import Any

from arl import episode

LIVE = 128  # games kept at once


def stepper(
  start: Callable[[episode.Task], Any],
  act: Callable[[Any, str], Any],
  close: Callable[[Any], None] = lambda game: None,
  live: int = LIVE,
) -> Callable[[episode.Task, tuple[str, ...], str], Any]:
  """A pure function (task, actions so far, action) -> what the action gave.

  It may be called from several threads: a game is in the hands of one call at a
  time. A game that raises is dropped.

  Args:
    start: the game of a task, before the first action.
    act: plays an action; what it returns must not change afterwards.
    close: frees a game that is dropped to make room.
    live: how many games are kept, the latest used.
  """
  lock = threading.Lock()
  games: collections.OrderedDict[Any, Any] = collections.OrderedDict()

  def step(task: episode.Task, actions: tuple[str, ...], action: str) -> Any:
    with lock:
      game = games.pop((task.id, actions), None)
    if game is None:
      game = start(task)
      for earlier in actions:
        act(game, earlier)
    given, after = act(game, action), (task.id, (*actions, action))
    with lock:
      dropped = [games.pop(after)] if after in games else []
      games[after] = game
      while len(games) > live:
        dropped.append(games.popitem(last=False)[1])
    for old in dropped:
      close(old)
    return given

  return step
