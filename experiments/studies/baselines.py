"""The runs of the published baselines, and what they solve by kind of task.

`python -m experiments.results` trains and compares them.
"""

import importlib
import json
import pathlib
import types
from collections.abc import Mapping, Sequence

from arl import episode
from arl.evaluate import over_runs
from arl.train import build, evaluation, loading, settings
from experiments import quickstart as task
from experiments.studies import quickstart, runs

FAMILIES: dict[str, tuple[str, ...]] = {
  'Groups': ('grpo', 'dapo', 'dr_grpo', 'cispo', 'liteppo'),
  'REINFORCE': ('rloo', 'remax', 'opo', 'reinforce_pp'),
  'Critics': ('ppo', 'vc_ppo', 'vapo', 'turn_ppo', 'vineppo'),
  'Sequences and soft clips': ('gspo', 'gmpo', 'sapo', 'topr', 'dppo'),
  'Stale rollouts': ('tis', 'icepop', 'decoupled_ppo', 'estr'),
  'Credit within an episode': ('gigpo', 'step_grpo', 'trca', 'steppo'),
  'Branches and resets': ('tree_grpo', 'arpo_hard', 'grpo_ma', 'rrpo'),
  'Exploration': ('ucpo', 'eapo', 'signbalance'),
  'Regression and preferences': ('kimi_omd', 'lpo', 'dpo', 'simpo', 'orpo'),
  'Distillation': ('opd', 'gkd'),
}
NAMES = tuple(name for names in FAMILIES.values() for name in names)
REFERENCE, TEACHER = 'grpo', 'dapo'
TAUGHT = FAMILIES['Distillation']
QUICK = ('grpo', 'dapo', 'rloo')
# Sums, and look-ups by how many pointers they are behind.
KINDS = ('sum', 'look-up', 'one pointer', 'two pointers')
FIRST, OF_A_KIND = 5000, 64  # the first held-out task; how many of each kind


def module(name: str) -> types.ModuleType:
  """The file of a baseline."""
  return importlib.import_module(f'experiments.baselines.{name}')


def family(name: str) -> str:
  """The title of the family that a baseline is in."""
  return next(title for title, names in FAMILIES.items() if name in names)


def _argument(models: Mapping[str, object], quick: bool) -> str:
  given = ','.join(f'{key}={value}' for key, value in models.items())
  return given + ',quick' * quick


def trained(root: pathlib.Path, name: str, seed: int, quick: bool) -> runs.Run:
  """The run of a baseline from the warm start of a seed, which is finished.

  Its folder is named after a hash of its config, in which the models that it
  starts from stand for the configs that made them: so one that changed is
  another run, and the same elsewhere is the same.
  """
  start = quickstart.warm_start(root, seed, quick)
  folders = {'model': start.workdir / 'final'}
  made_by = {'model': runs.result(start)['config_hash']}
  if name in TAUGHT:
    teacher = trained(root, TEACHER, seed, quick).workdir
    folders['teacher'] = teacher / 'final'
    made_by['teacher'] = teacher.name
  config = module(name).get_config(_argument(made_by, quick))
  config.seed = seed
  return runs.Run(
    'launch.train',
    f'experiments/baselines/{name}.py:{_argument(folders, quick)}',
    root / 'baselines' / f'{name}_seed{seed}_{settings.digest(config)}',
    (f'--config.seed={seed}',),
  )


def make(
  root: pathlib.Path, names: Sequence[str], seeds: Sequence[int], quick: bool
) -> dict[str, list[runs.Run]]:
  """Trains what is missing; name -> its runs, of those that have all."""
  starts = [quickstart.warm_start(root, seed, quick) for seed in seeds]
  runs.make(starts)
  if not all(map(runs.finished, starts)):
    return {}
  table = {
    name: [trained(root, name, seed, quick) for seed in seeds] for name in names
  }
  if set(names) & set(TAUGHT):
    runs.make([trained(root, TEACHER, seed, quick) for seed in seeds])
  runs.make([run for row in table.values() for run in row])
  return {k: row for k, row in table.items() if all(map(runs.finished, row))}


def kind(one: episode.Task) -> str:
  """Which of KINDS a task of the quickstart is."""
  pointers = len(one.data['plan']) - 1
  return KINDS[1 + pointers] if one.data['records'] else KINDS[0]


def tasks_by_kind(world: build.World, count: int) -> list[episode.Task]:
  """The first `count` held-out tasks of each kind, from FIRST on."""
  found: dict[str, list[episode.Task]] = {name: [] for name in KINDS}
  index = FIRST
  while any(len(tasks) < count for tasks in found.values()):
    (one,) = evaluation.held_out(world, index, 1)
    found[kind(one)].append(one)
    index += 1
  return [one for tasks in found.values() for one in tasks[:count]]


def evaluate(made: Sequence[runs.Run], quick: bool) -> None:
  """Writes beside each run what it solves of each kind, where it is missing.

  The policies are sampled by one engine, so that it is compiled once.
  """
  waiting = [run for run in made if not _by_kind(run).exists()]
  if not waiting:
    return
  config = task.get_config(f'model={waiting[0].workdir}/final')
  world = build.world(config)
  tasks = tasks_by_kind(world, 4 if quick else OF_A_KIND)
  sampling = evaluation.variants(1.0)['sampled']
  for version, run in enumerate(waiting):
    config.model.path = f'{run.workdir}/final'
    loaded, _ = loading.load_model(config.model, seed=0)
    world.engine.set_params(loaded.params, version)
    episodes = evaluation.run(world, tasks, sampling, (evaluation.FINAL,))
    _by_kind(run).write_text(json.dumps(count(episodes)))


def count(episodes: Sequence[episode.Episode]) -> dict[str, list[int]]:
  """(graded, solved) of each kind."""
  found = {name: [0, 0] for name in KINDS}
  for one in filter(episode.graded, episodes):
    graded, solved = found[kind(one.task)]
    right = episode.total_reward(one) >= episode.SOLVED
    found[kind(one.task)] = [graded + 1, solved + int(right)]
  return found


def outcomes(row: Sequence[runs.Run]) -> over_runs.Outcomes:
  """What the runs of a baseline solve, after `evaluate`."""
  told = [json.loads(_by_kind(run).read_text()) for run in row]
  graded, solved = (
    [[one[name][i] for name in KINDS] for one in told] for i in (0, 1)
  )
  return over_runs.outcomes(graded, solved)


def _by_kind(run: runs.Run) -> pathlib.Path:
  return run.workdir / 'by_kind.json'
