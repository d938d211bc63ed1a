"""Runs that are killed again and again, and go on, until they are over.

A torn run is started, killed at a moment that a seed draws, and started again
by the same command. What each resumed process plays is compared with the same
steps of the run that nothing happened to, and what the last one leaves with
what that run left.
"""

import json
import pathlib
import random
import re
import signal
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.studies import chaos_plan, chaos_runs

ANY = 'any moment'  # of its whole time, the start of the process included
START = 'start-up'
# Where kills are aimed at -> the most seconds from there to the kill.
AIMS = {
  chaos_plan.ROLLOUT: 0.15,
  chaos_plan.SCORING: 0.02,
  chaos_plan.UPDATE: 0.03,
  chaos_plan.SAVE: 0.25,
  chaos_plan.SYNC: 0.0,  # in the process itself it takes microseconds
  ANY: 12.0,
}
_SERVED_SYNC = 0.3  # seconds that a sync takes by way of a server
AHEAD = 'ahead'  # the way that cannot be repeated bit by bit: see `unaccounted`


class Try(NamedTuple):
  """One process of a torn run.

  Attributes:
    round_: which torn run, from 0: one that is over is followed by another.
    aim: where it was to be killed; '' for nowhere.
    code: how it ended.
    phases: what was under way then.
    saving: whether a checkpoint was being written.
    resumed: the step that it went on from.
    played: the steps that it gathered for, in order.
    trained: the groups of each of these that were trained on.
    differs: in what it was not the run that nothing happened to.
  """

  round_: int
  aim: str
  code: int
  phases: list[str]
  saving: bool
  resumed: int
  played: list[int]
  trained: list[list[str]]
  differs: list[str]

  @property
  def killed(self) -> bool:
    """Whether the kill came before the end."""
    return self.code == -signal.SIGKILL

  @property
  def where(self) -> str:
    """The phase that the kill hit."""
    told = [phase for phase in AIMS if phase in self.phases]
    return (told + self.phases + [START])[0]


def tries(case: chaos_runs.Case, kills: int) -> list[Try]:
  """Kills runs of a case so often, until the last is over; goes on from before.

  Raises:
    RuntimeError: one ended otherwise than by its kill, or as it should.
  """
  chaos_runs.whole(case)
  kept = case.home / 'tries.jsonl'
  lines = kept.read_text('utf-8').splitlines() if kept.exists() else []
  made = [Try(**json.loads(line)) for line in lines]
  while not made or made[-1].killed or _left(made, kills):
    made.append(_try(case, made, bool(_left(made, kills))))
    with kept.open('a', encoding='utf-8') as file:
      file.write(json.dumps(made[-1]._asdict()) + '\n')
  return made


def _left(made: Sequence[Try], kills: int) -> int:
  return kills - sum(one.killed for one in made)


def _try(case: chaos_runs.Case, made: Sequence[Try], killing: bool) -> Try:
  round_ = sum(not one.killed for one in made)
  folder, number = case.home / f'torn_{round_}', len(made)
  before = _in_the_making(folder)
  aim, delay, after = _drawn(case.way, number) if killing else ('', 0.0, 1)
  planned: dict[str, Any] = {}
  if aim and aim != ANY:
    planned = {'phase': aim, 'delay': delay, 'after': after}
  run = chaos_runs.start(case, folder, f'{number:03}', **planned)
  if aim == ANY:
    try:
      run.process.wait(delay)
    except subprocess.TimeoutExpired:
      run.process.kill()
  ended = run.end()
  if ended.code not in (0, -signal.SIGKILL):
    raise RuntimeError(f'a run ended with {ended.code}; see {run.log}')
  found = re.search(r'^resumed .* after step (\d+)$', ended.said, re.MULTILINE)
  steps = chaos_runs.played(run.plan)
  one = Try(
    round_, aim, ended.code,
    chaos_plan.under_way(run.plan.page) if ended.code else [],
    bool(_in_the_making(folder) - before),
    int(found[1]) if found else 0,
    [told['step'] for told in steps],
    [told['trained'] for told in steps],
    [],
  )  # fmt: skip
  return one._replace(differs=_judge(case, folder, [*made, one], steps))


def _drawn(way: str, number: int) -> tuple[str, float, int]:
  """Where the next kill is aimed at, how late it comes, after which steps."""
  rng, aims = random.Random(f'{way} {number}'), list(AIMS)
  aim = aims[(number + len(way)) % len(aims)]
  longest = AIMS[aim]
  if aim == chaos_plan.SYNC and way == 'served':
    longest = _SERVED_SYNC
  if aim == ANY:
    return aim, rng.uniform(0.1, longest), 1
  return aim, max(rng.uniform(-0.3, 1.0), 0.0) * longest, rng.randint(3, 6)


def _in_the_making(folder: pathlib.Path) -> set[tuple[str, int]]:
  """Checkpoints that are not whole: the name and the inode of each."""
  found = (folder / 'checkpoints').glob('*tmp*')
  return {(path.name, path.stat().st_ino) for path in found}


# --- What is compared ---------------------------------------------------------


def _judge(
  case: chaos_runs.Case,
  folder: pathlib.Path,
  made: Sequence[Try],
  steps: Sequence[dict[str, Any]],
) -> list[str]:
  """In what the last try, and a run that is over, is not the whole run."""
  over = not made[-1].killed
  if case.way == AHEAD:
    mine = [one for one in made if one.round_ == made[-1].round_]
    return unaccounted(mine, folder) if over else []
  first = folder.with_name('whole.run.played')
  plan = chaos_plan.Plan('', str(first))
  whole = {told['step']: told for told in chaos_runs.played(plan)}
  names = ['tasks', 'trained', 'tokens']
  if case.way != 'served':  # see `chaos_runs`
    names.append('logp')
  differs = []
  if any(whole[x['step']][name] != x[name] for x in steps for name in names):
    differs.append('what was played')
  rows = chaos_runs.rows(folder)
  if rows != chaos_runs.rows(case.whole)[: len(rows)]:
    differs.append('metrics on the way')
  if over:
    differs += chaos_runs.differences(case.whole, folder)
  return differs


def unaccounted(made: Sequence[Try], folder: pathlib.Path) -> list[str]:
  """What a run ahead of its learner lost or used twice; nothing as a rule.

  Every group that was chosen has to be trained on once, given up and counted,
  or on its way in the last checkpoint.

  Args:
    made: the tries of the run, in order.
    folder: of the run, which is over.
  """
  last: dict[int, list[str]] = {}
  for one in made:
    last |= dict(zip(one.played, one.trained))
  trained = [id for step in sorted(last) for id in last[step]]
  queue = chaos_runs.facts(folder)['gathered']['ahead']
  coming = {item['task']['id'] for item in queue['items']}
  given_up = sum(
    json.loads(row)['ahead/given_up'] for row in chaos_runs.rows(folder)
  )
  wrong = []
  if len(set(trained)) < len(trained) or coming & set(trained):
    wrong.append('a group was trained on twice')
  if queue['chosen'] != len(trained) + given_up + len(coming):
    wrong.append('a group was lost')
  if sorted(last) != list(range(len(chaos_runs.rows(folder)))):
    wrong.append('a step was lost')
  return wrong
