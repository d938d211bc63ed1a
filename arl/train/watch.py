"""What a run keeps for its doctor: samples, and warnings while it trains.

A run's folder holds config.json, samples.jsonl, a few of the episodes of the
first step and of each that is evaluated, and warnings.jsonl, each sign of the
doctor's when it begins and when it is over. A resumed run goes on with them.
"""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from arl import episode
from arl.evaluate import doctor, findings
from arl.rollout import chat as chat_lib
from arl.train import batch, metrics, processes, settings

CONFIG, SAMPLES, WARNINGS = 'config.json', 'samples.jsonl', 'warnings.jsonl'
_KEPT = 8  # episodes of a step
_LONGEST = 2048  # tokens of one, the first


class Watch(NamedTuple):
  """A doctor at a run's side.

  Attributes:
    keep: (step, the episodes of each update, what was made of them or None)
      -> None. Writes some of them down where the step is one to be sampled.
    look: (step, metrics, note) -> None. Notes what has begun to go wrong, and
      what has not been wrong any more for some steps.
  """

  keep: Callable[
    [int, Sequence[Sequence[episode.Episode]], batch.Data | None], None
  ]
  look: Callable[[int, Mapping[str, float], Callable[[str], None]], None]


def make(
  config: ml_collections.ConfigDict,
  folder: pathlib.Path,
  start: int,
  chat: chat_lib.Chat,
) -> Watch:
  """Begins to watch a run, new or resumed, whose metrics end with `start`."""
  (folder / CONFIG).write_text(settings.to_json(config), encoding='utf-8')
  for name in (SAMPLES, WARNINGS):
    _truncate(folder / name, start)
  past = (folder / metrics.FILE).exists()
  rows = metrics.read(folder) if past else []
  known = findings.Run(rows, config.to_dict(), latest(folder))
  noted = doctor.still([found for _, found in _told(folder)])

  def keep(step, parts, data):
    nonlocal known
    if step == 1 or step == config.steps or step % config.eval.every == 0:
      kept = _samples(step, parts, data, chat.pieces)
      _append(folder / SAMPLES, kept)
      known = known._replace(samples=kept)

  def look(step, row, note):
    nonlocal noted
    rows.append({'step': step, **row})
    for each in doctor.changed(noted, known):
      note(f'step {step}: {doctor.sentence(each)}')
      _append(folder / WARNINGS, [{'step': step, **each._asdict()}])
      noted = noted ^ {each.name}

  return Watch(keep, look)


def read(folder: pathlib.Path, name: str) -> list[dict[str, Any]]:
  """The lines of SAMPLES or WARNINGS; none where there is no such file."""
  path = folder / name
  if not path.exists():
    return []
  *lines, _ = path.read_text(encoding='utf-8').split('\n')
  return [json.loads(line) for line in lines]


def latest(folder: pathlib.Path) -> list[dict[str, Any]]:
  """The samples of the last step that has some."""
  kept = read(folder, SAMPLES)
  return [one for one in kept if one['step'] == kept[-1]['step']]


def warnings(folder: pathlib.Path) -> list[str]:
  """What was noted while a run trained, in order."""
  return [
    f'step {step}: {doctor.sentence(found)}' for step, found in _told(folder)
  ]


def _told(folder: pathlib.Path) -> list[tuple[int, findings.Finding]]:
  """(step, finding) of each warning."""
  lines = read(folder, WARNINGS)
  return [(x.pop('step'), findings.Finding(**x)) for x in lines]


def _truncate(path: pathlib.Path, step: int) -> None:
  """Drops lines after a step, and a half-written last one."""
  if path.exists():
    kept = [x for x in read(path.parent, path.name) if x['step'] <= step]
    draft = path.with_suffix('.partial')
    draft.write_text(''.join(map(_line, kept)), encoding='utf-8')
    os.replace(draft, path)


def _append(path: pathlib.Path, made: Sequence[Mapping[str, Any]]) -> None:
  with path.open('a', encoding='utf-8') as file:
    file.write(''.join(map(_line, made)))


def _line(made: Mapping[str, Any]) -> str:
  return json.dumps(made, allow_nan=False) + '\n'


def _samples(
  step: int,
  parts: Sequence[Sequence[episode.Episode]],
  data: batch.Data | None,
  pieces: Callable[[Sequence[int]], list[str]],
) -> list[dict[str, Any]]:
  """Some of the episodes, evenly from the worst to the best paid."""
  placed = [
    (one, update, index)
    for update, part in enumerate(parts)
    for index, one in enumerate(episode.whole(part))
    if episode.graded(one)
  ]
  placed.sort(key=lambda x: episode.total_reward(x[0]))
  if not placed:
    return []
  chosen = np.linspace(0, len(placed) - 1, min(_KEPT, len(placed)))
  told = {} if data is None else _logp(data, len(parts))
  return [
    _sample(step, one, told.get((update, index)), pieces)
    for one, update, index in (placed[round(i)] for i in chosen)
  ]


def _logp(data: batch.Data, updates: int) -> Mapping[tuple[int, int], Any]:
  """The trainer's log-probs of each episode, by update and place."""
  if 'old_logp' not in data.columns:
    return {}
  seq = data.columns['seq']
  ids, segments, logp = (
    np.asarray(processes.here(x)).ravel()
    for x in (seq.ids, data.columns['segments'], data.columns['old_logp'])
  )
  ids, logp = ids[segments > 0], logp[segments > 0]
  each = seq.num // updates
  return {divmod(int(i), each): logp[ids == i] for i in np.unique(ids)}


def _sample(step, one, old_logp, pieces) -> dict[str, Any]:
  n = min(len(one.tokens), _LONGEST)
  made = {
    'step': step,
    'task': one.task.id,
    'prompt': one.task.prompt,
    'status': one.status,
    'reward': episode.total_reward(one),
    'exchanges': [
      {
        'action': x.action,
        'answer': x.turn.text,
        'reward': float(x.turn.reward),
        'valid': x.turn.valid,
      }
      for x in one.exchanges
    ],
    'cut': n < len(one.tokens),
    'pieces': pieces([int(i) for i in one.tokens[:n]]),
    'mask': one.mask[:n].astype(int).tolist(),
    'turn': one.turn[:n].tolist(),
    'logp': _rounded(one.logp[:n]),
  }
  if old_logp is not None and len(old_logp) == len(one.tokens):
    made['old_logp'] = _rounded(old_logp[:n])
  return made


def _rounded(values: np.ndarray) -> list[float | None]:
  """None for what is not finite, such as what no sampler reported."""
  return [round(float(x), 6) if np.isfinite(x) else None for x in values]
