r"""Public task sets, learnt end to end by a pretrained model on a CPU.

  python -m experiments.studies.evidence --smollm2=DIR [--quick] \
    [--workdir=DIR] [--seeds=N] [--finished]

Of each set of experiments/public_tasks.py three policies answer the same
held-out problems: the model as it is, after some imitation, and after RL from
there. Prints a JSON object a line; rewrites experiments/results/evidence.json,
docs/evidence.md and its figures. Goes on where it was stopped; with --finished
it computes nothing and tells what is there. A smoke run without --smollm2 is of
a fresh tiny model. --seeds counts runs of RL; there is one of imitation.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags

from arl import episode
from arl.evaluate import intervals
from arl.models import sizes, tokenizers, transformer
from arl.train import export
from experiments import public_tasks
from experiments.studies import evidence_page, runs

HOW = {'sampled': (1.0, 2), 'greedy': (0.0, 1)}  # temperature, samples a task
BASE, IMITATED = 'base', 'sft'
_QUICK_TASKS = 2
_CONTEXT = 2048  # of the model that stands in, which reads characters


class Place(NamedTuple):
  """A task set, and where its runs are.

  Attributes:
    name: of the set.
    root: the folder of all runs.
    model: the folder of the pretrained model.
    quick: whether these are smoke runs.
    more: further flags of every command.
  """

  name: str
  root: pathlib.Path
  model: pathlib.Path
  quick: bool
  more: tuple[str, ...] = ()


def imitation(place: Place) -> runs.Run:
  """The run of the first stage."""
  config = _config(place, 'sft', place.model)
  workdir = place.root / f'{place.name}_{IMITATED}'
  return runs.Run('launch.sft', config, workdir, place.more)


def learning(place: Place, seed: int) -> runs.Run:
  """The run of the second stage of a seed."""
  config = _config(place, 'rl', imitation(place).workdir / 'final')
  workdir = place.root / f'{place.name}_rl_seed{seed}'
  more = (f'--config.seed={seed}', *place.more)
  return runs.Run('launch.train', config, workdir, more)


def policies(place: Place, seeds: Sequence[int]) -> dict[str, pathlib.Path]:
  """The folder of each policy, in the order in which they come about."""
  return {
    BASE: place.model,
    IMITATED: imitation(place).workdir / 'final',
    **{f'rl_seed{s}': learning(place, s).workdir / 'final' for s in seeds},
  }


def _config(place: Place, stage: str, model: pathlib.Path) -> str:
  chosen = f'stage={stage},on={place.name},model={model}'
  return f'experiments/public_tasks.py:{chosen}' + ',quick' * place.quick


def evaluation(place: Place, policy: str, how: str) -> pathlib.Path:
  """The file of what a policy earns, which may not be there yet."""
  return place.root / f'{place.name}_{policy}_{how}.json'


def evaluate(place: Place, policy: str, model: pathlib.Path) -> None:
  """Lets a policy answer the held-out problems, in each way once."""
  held_out = public_tasks.SETS[place.name]['held_out']
  tasks = _QUICK_TASKS if place.quick else held_out
  cache = {'JAX_COMPILATION_CACHE_DIR': str(place.root / '.compiled')}
  for how, (temperature, samples) in HOW.items():
    output = evaluation(place, policy, how)
    if output.exists():
      continue
    command = [
      sys.executable, '-m', 'launch.evaluate',
      f'--config={_config(place, "rl", model)}', '--first=0',
      f'--tasks={tasks}', f'--samples={samples}',
      f'--temperature={temperature}', f'--shown={tasks * samples}',
      f'--output={output}', *place.more,
    ]  # fmt: skip
    env = {**cache, **os.environ}
    subprocess.run(command, check=True, stdout=sys.stderr, env=env)


def make(place: Place, seeds: Sequence[int]) -> None:
  """Trains and evaluates what is missing of a set, one after the other."""
  folders = policies(place, seeds)
  runs.make([imitation(place)], at_once=1)
  evaluate(place, IMITATED, folders[IMITATED])
  evaluate(place, BASE, folders[BASE])
  for seed in seeds:
    runs.make([learning(place, seed)], at_once=1)
    evaluate(place, f'rl_seed{seed}', folders[f'rl_seed{seed}'])


def solved(found: Mapping[str, Any]) -> dict[str, float]:
  """Of each task of an evaluation the share of its graded samples that did."""
  by_task = collections.defaultdict(list)
  for one in found['transcripts']:
    if one['status'] in episode.GRADED:
      by_task[one['task']].append(one['reward'] >= episode.SOLVED)
  return {task: float(np.mean(each)) for task, each in by_task.items()}


def gain(
  before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[float, list[float] | None]:
  """The mean difference of two evaluations, task by task.

  Returns:
    The mean over tasks that both have graded, and its 95 % bootstrap interval;
    None where the difference is the same for all of them.

  Raises:
    ValueError: they have no task in common.
  """
  old, new = solved(before), solved(after)
  change = [new[task] - old[task] for task in old if task in new]
  if not change:
    raise ValueError(
      'evidence: two evaluations without a common task; evaluate both policies'
      ' on the same held-out tasks.'
    )
  mean = float(np.mean(change))
  if np.ptp(change) == 0:
    return mean, None
  low, high = intervals.bootstrap_mean(change, seed=0)
  return mean, [round(low, 4), round(high, 4)]


def tell(place: Place, seeds: Sequence[int]) -> dict[str, Any]:
  """Prints the numbers of a set; all that the page says of it.

  Returns:
    `policies`, `gains` and `stages` by name; those not there yet are left out.
  """
  found = {
    policy: {how: _read(place, policy, how) for how in HOW}
    for policy in policies(place, seeds)
    if all(evaluation(place, policy, how).exists() for how in HOW)
  }
  made = {
    policy: {how: _rate(place, policy, how, one) for how, one in each.items()}
    for policy, each in found.items()
  }
  gains = {
    f'{after} - {before}': {
      how: _gain(place, before, after, how, found) for how in HOW
    }
    for after in found
    if (before := BASE if after == IMITATED else IMITATED) in found
    and after != BASE
  }
  stages = {
    run.workdir.name.removeprefix(f'{place.name}_'): _stage(run)
    for run in (imitation(place), *(learning(place, s) for s in seeds))
    if runs.finished(run)
  }
  return {'policies': made, 'gains': gains, 'stages': stages}


def _read(place: Place, policy: str, how: str) -> dict[str, Any]:
  return json.loads(evaluation(place, policy, how).read_text('utf-8'))


def _rate(place, policy, how, found) -> dict[str, Any]:
  """A success rate with its interval, and the first answer as it was given."""
  interval = [round(found[f'success_{end}'], 4) for end in ('low', 'high')]
  name = f'evidence/{place.name}/{policy}/{how}'
  runs.line(name, found['success'], 'success rate', '', (0,), interval)
  first = found['transcripts'][0]
  return {
    'success': round(found['success'], 4),
    'interval': interval,
    'tasks': found['tasks'],
    'samples': found['samples'],
    'graded': found['graded'],
    'tokens': round(found['tokens'], 1),
    'cut': found[episode.MAX_TOKENS],
    'prompt': first['prompt'],
    'said': '\n'.join(turn['action'] for turn in first['turns']),
    'reward': first['reward'],
  }


def _gain(place, before, after, how, found) -> dict[str, Any]:
  mean, interval = gain(found[before][how], found[after][how])
  name = f'evidence/{place.name}/{after} - {before}/{how}'
  runs.line(name, mean, 'success rate', '> 0', (0,), interval)
  return {'gain': round(mean, 4), 'interval': interval}


def _stage(run: runs.Run) -> dict[str, Any]:
  result, rows = runs.result(run), runs.rows(run)
  return {
    'steps': result['steps'],
    'seconds': result['wall_seconds'],
    'device': result['device'],
    'jax': result['versions']['jax'],
    'success': [round(row['train/success'], 4) for row in rows],
  }


def stand_in(folder: pathlib.Path) -> pathlib.Path:
  """A fresh tiny model over characters as a folder, made where missing."""
  if not folder.exists():
    tokenizer = tokenizers.characters()
    size = sizes.tiny(len(tokenizer))._replace(context=_CONTEXT)
    params = transformer.make(size).init(jax.random.key(0))
    folder.parent.mkdir(parents=True, exist_ok=True)
    export.save(folder, params, size, tokenizer)
  return folder


def places() -> list[Place]:
  """The sets as the flags say."""
  root, quick = runs.root() / 'evidence', runs.quick()
  model, more = pathlib.Path(flags.FLAGS.smollm2), ()
  if not flags.FLAGS.smollm2 and quick:
    model = stand_in(root / 'model')
    more = (f'--config.rollout.context={_CONTEXT}',)
  elif not flags.FLAGS.smollm2 and not flags.FLAGS.finished:
    raise app.UsageError(
      '--smollm2 is missing: the folder that arl.models.convert wrote, see'
      ' BUILD.md; a smoke run (--quick) does without.'
    )
  root.mkdir(parents=True, exist_ok=True)
  return [Place(name, root, model, quick, more) for name in public_tasks.SETS]


def main(argv: list[str]) -> None:
  del argv
  seeds, sets = runs.seeds(), places()
  if not flags.FLAGS.finished:
    for place in sets:
      make(place, seeds)
  made = {
    'seeds': list(seeds),
    'sets': {place.name: tell(place, seeds) for place in sets},
  }
  if runs.quick():
    return
  runs.RESULTS.mkdir(parents=True, exist_ok=True)
  text = json.dumps(made, indent=2) + '\n'
  (runs.RESULTS / 'evidence.json').write_text(text, encoding='utf-8')
  evidence_page.write(made)


def define() -> None:
  """Defines the flag of this study's own."""
  flags.DEFINE_string(
    'smollm2', '', 'The folder that arl.models.convert wrote.'
  )


if __name__ == '__main__':
  runs.start(main, seeds=1, define=define)
