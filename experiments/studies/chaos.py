"""What kills, damage and lost parts cost a run: a clear end, and nothing else.

  python -m experiments.studies.chaos [--quick] [--workdir=DIR]

Real processes of launch.train on small runs, each with other things to remember
(experiments/studies/chaos_config.py), are killed by SIGKILL at moments that a
seed draws, some aimed at a phase and some at any moment, and started again by
the same command until they are over. Every resumed process has to play what a
run plays that nothing happens to, and the end has to be the same bit by bit:
parameters, optimizer, what curricula believe, buffers, knobs, metrics, samples.
Randomness and the order of prompts are folded from the seed and the step, so
what is played shows them. Where rollouts run ahead no run is another; there
every group that was chosen is accounted for.

Then other disasters strike, one a run: damaged checkpoints, a full or read-only
disk, a second run in the same workdir, a clock that jumps, processes of an
environment and a server that vanish. What a run says then is in the table, and
whether the same command goes on to the same end. Last, every file of a
checkpoint is damaged in every way, in process.

Prints a JSON object a line, rewrites experiments/results/chaos.md, and ends
with status 1 if something is not as it should be. Goes on where it was.
"""

import concurrent.futures
import functools
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from experiments.studies import (
  chaos_damage,
  chaos_disasters,
  chaos_kills,
  chaos_runs,
  chaos_world,
  runs,
  servers,
  summary,
)

STEPS, SEED = 12, (0,)
KILLS = {
  'plain': 14,
  'estimated': 7,
  'refilled': 6,
  'replayed': 6,
  'in_parts': 5,
  'ahead': 6,
  'served': 6,
}
REMEMBERED = {
  'plain': 'parameters, optimizer, the order of prompts',
  'estimated': "a Kalman filter's beliefs, spreads of rewards",
  'refilled': "a bandit's beliefs, groups left over",
  'replayed': 'a replay buffer, a knob',
  'in_parts': 'episodes in progress',
  'ahead': 'the queue between samplers and learner',
  'served': "a server's weights",
}
_WIDEST = 320  # characters of a message in the table
_ELSEWHERE = 'elsewhere'
_COLUMNS = (
  *(phase for phase in chaos_kills.AIMS if phase != chaos_kills.ANY),
  _ELSEWHERE,
)


def case(root: pathlib.Path, way: str, steps: int = STEPS) -> chaos_runs.Case:
  """The run of a way."""
  model = chaos_world.write_model(root / 'model')
  return chaos_runs.Case(way, steps, root / way, model)


def served(root: pathlib.Path) -> tuple[chaos_runs.Case, Callable]:
  """The run with a server, and what starts that, always at the same port."""
  made, kept = case(root, 'served'), root / 'port'
  if not kept.exists():
    kept.write_text(str(servers.free_port()))
  port = int(kept.read_text())
  flags = (
    f'--config.engine.urls={servers.url(port)}',
    f'--config.engine.folder={made.home}/weights',
  )
  serve = functools.partial(
    servers.at, port, made.model, root / 'servers', '--slots=16'
  )
  return made._replace(flags=flags), serve


def torn(root: pathlib.Path, way: str, kills: int) -> list[chaos_kills.Try]:
  """The processes of the torn runs of a way."""
  if way != 'served':
    return chaos_kills.tries(case(root, way), kills)
  made, serve = served(root)
  with serve():
    return chaos_kills.tries(made, kills)


def _phase(one: chaos_kills.Try) -> str:
  return one.where if one.where in _COLUMNS else _ELSEWHERE


def told(way: str, tries: Sequence[chaos_kills.Try], kills: int) -> list[str]:
  """Prints how the torn runs of a way went; their row."""
  hits = [one for one in tries if one.killed]
  ends = [one for one in tries if not one.killed]
  resumed = [one for one in tries if one.resumed and one.played]
  same = [one for one in resumed if not one.differs]
  alike = [one for one in ends if not one.differs]
  line = functools.partial(runs.line, seeds=SEED, interval=None)
  name = f'chaos/kills/{way}'
  line(f'{name}/kills', len(hits), 'kills', str(kills))
  line(f'{name}/saving', sum(one.saving for one in hits), 'kills', '')
  for what, some, of in (('resumes', same, resumed), ('ends', alike, ends)):
    line(f'{name}/{what}_identical', len(some), f'of {len(of)}', str(len(of)))
  counts = [sum(_phase(one) == phase for one in hits) for phase in _COLUMNS]
  wrong = sorted({what for one in tries for what in one.differs})
  return [
    way, REMEMBERED[way], *map(str, counts),
    str(sum(one.saving for one in hits)), f'{len(same)} of {len(resumed)}',
    f'{len(alike)} of {len(ends)}' + ''.join(f'; NOT: {w}' for w in wrong),
  ]  # fmt: skip


def disasters(root: pathlib.Path) -> dict[str, Callable]:
  """What strikes, by name."""
  plain, sandboxed = case(root, 'plain'), case(root, 'sandboxed', steps=6)
  made, serve = served(root)
  damage = {
    f'damaged_{part}_{way}': functools.partial(
      chaos_disasters.damaged, plain, part, way
    )
    for part, way in (
      ('state', 'cut'), ('state', 'gone'), ('state', 'flipped'),
      ('meta', 'flipped'),
    )
  }  # fmt: skip
  on_plain = (
    chaos_disasters.full_disk,
    chaos_disasters.read_only,
    chaos_disasters.two_at_once,
    chaos_disasters.clock,
  )
  lost = (chaos_disasters.lost_program, chaos_disasters.lost_programs)
  return {
    **damage,
    **{f.__name__: functools.partial(f, plain) for f in on_plain},
    **{f.__name__: functools.partial(f, sandboxed) for f in lost},
    'lost_server': functools.partial(chaos_disasters.lost_server, made, serve),
  }


_QUICK = ('damaged_state_flipped', 'two_at_once')


def struck(
  root: pathlib.Path, name: str, strike: Callable[[], chaos_disasters.Fate]
) -> chaos_disasters.Fate:
  """Prints what became of a run that something struck, and gives it."""
  fate = chaos_disasters.kept(root / 'fates' / f'{name}.json', strike)
  line = functools.partial(runs.line, seeds=SEED, interval=None)
  line(f'chaos/{name}/ended_well', fate.held, '', '1')
  if fate.differs is not None:
    line(f'chaos/{name}/identical', not fate.differs, '', '1')
  return fate


def _row(root: pathlib.Path, fate: chaos_disasters.Fate) -> list[str]:
  said = re.sub(rf'{re.escape(str(root))}(/\w+){{2,3}}', 'WORKDIR', fate.said)
  said = re.sub(r'process \d+ on \S+', 'process N on HOST', said)
  said = said.replace('|', '\\|')
  if len(said) > _WIDEST:
    said = said[:_WIDEST] + ' ...'
  words = {True: 'yes', False: 'NO', None: '–'}
  same = None if fate.differs is None else not fate.differs
  return [
    fate.struck,
    '–' if fate.code is None else str(fate.code),
    said,
    words[fate.held],
    words[same] + ''.join(f'; NOT: {w}' for w in fate.differs or ()),
  ]


def swept(count: dict[str, int], flips: int) -> str:
  """Prints what came of damage to every file; a sentence of it."""
  for name, aim in (
    ('tried', ''), ('noticed', ''), ('harmless', ''), ('wrong', '0'),
  ):  # fmt: skip
    runs.line(f'chaos/damage/{name}', count[name], 'times', aim, SEED, None)
  return (
    f'Every file of a checkpoint, missing, cut in half, and wrong in {flips}'
    f' bits, one at a time: of {count["tried"]} times {count["noticed"]} were'
    ' noticed, with a message, and the step before was used;'
    f' {count["harmless"]} were in bytes that say nothing of the state; and'
    f' {count["wrong"]} were believed.\n'
  )


def main(argv: list[str]) -> None:
  del argv
  logging.set_verbosity(logging.FATAL)  # damage is what is looked for
  root = (runs.root() / 'chaos').absolute()
  kills = {'plain': 3} if runs.quick() else KILLS
  chaos_world.write_model(root / 'model')
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    waiting = {w: pool.submit(torn, root, w, n) for w, n in kills.items()}
    tries = {way: future.result() for way, future in waiting.items()}
  first = [told(way, made, kills[way]) for way, made in tries.items()]
  hits = [one for made in tries.values() for one in made if one.killed]
  for phase in _COLUMNS:
    count = sum(_phase(one) == phase for one in hits)
    runs.line(f'chaos/during/{phase}', count, 'kills', '', SEED, None)
  fates = {
    name: struck(root, name, strike)
    for name, strike in disasters(root).items()
    if not runs.quick() or name in _QUICK
  }
  flips = 1 if runs.quick() else 4
  count = chaos_damage.sweep(case(root, 'plain'), flips)
  sweep = swept(count, flips)
  second = [_row(root, fate) for fate in fates.values()]
  if not runs.quick():
    write(first, second, sweep)
  _judge(tries, fates, count['wrong'])


def write(first: Any, second: Any, sweep: str) -> None:
  """Writes the tables."""
  kills = runs.markdown(
    (
      'run', 'what it remembers', *_COLUMNS, 'of them while saving',
      'resumes that played on, identical', 'ends, identical',
    ),
    first,
  )  # fmt: skip
  fates = runs.markdown(
    ('what happened', 'status', 'what it said', 'as it should', 'identical'),
    second,
  )
  path = runs.RESULTS / 'chaos.md'
  path.write_text(f'{kills}\n{fates}\n{sweep}', encoding='utf-8')
  summary.write()


def _judge(tries, fates, believed: int) -> None:
  """Ends with status 1 and what is wrong, if something is."""
  wrong = [way for way, made in tries.items() if any(x.differs for x in made)]
  wrong += [name for name, x in fates.items() if x.held is False or x.differs]
  if believed:
    wrong.append('damage')
  if wrong:
    sys.exit(f'not as it should be: {", ".join(wrong)}')


if __name__ == '__main__':
  runs.start(main)
