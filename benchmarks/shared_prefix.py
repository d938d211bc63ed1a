"""What it saves to compute shared beginnings once, in an update.

  python -m benchmarks.shared_prefix [--quick]

Branches of one history of ten turns, of which an update of DAPO trains every
action: the step that launch.train makes, on the same episodes with
config.updates.prefixes 'own' and 'shared'. What both give is compared first;
then they run in turn. Prints a JSON object a line, with the interval of the
median over rounds, and rewrites benchmarks/results/shared_prefix.md.
"""

import json
import os
import pathlib
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app

from arl import episode, types
from arl.methods import compose, grpo
from arl.models import sizes, transformer
from arl.rollout import pack
from arl.train import forward, optimizers, prefixes, sharding, state, step
from benchmarks import compiled, machine, options, rounds
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'shared_prefix.md'
TURNS, TURN, ROUNDS = 10, 48, 7  # a turn: half observed, half sampled
SIZES = {
  'tiny': sizes.tiny(512),
  'small': sizes.tiny(2048)._replace(
    width=128, layers=4, heads=4, kv_heads=2, head_dim=32, mlp_width=384
  ),
}
CLOCKS = {'time': time.perf_counter, 'processor': time.process_time}
SIDES = prefixes.OWN, prefixes.SHARED
AIM = '<= 1.2'
_AGREES = 1e-3  # of a gradient's norm, in float32


class Side(NamedTuple):
  """A compiled step and what it is given.

  Attributes:
    step: compiled.
    columns: of the batch.
    credits: of the same.
    megabytes: of temporaries that it needs at once.
    share: tokens that the model computes, padding included, of all that the
      rows have.
  """

  step: Any
  columns: dict[str, Any]
  credits: dict[str, Any]
  megabytes: float
  share: float


def branches(count: int, vocab: int) -> list[episode.Episode]:
  """Episodes that share all but their last turn, of 24 to 72 tokens."""
  rng = np.random.default_rng(count)
  history = rng.integers(0, vocab, TURNS * TURN)
  made = []
  for sample in range(count):
    own = int(rng.integers(TURN // 2, 3 * TURN // 2))
    tokens = np.concatenate([history, rng.integers(0, vocab, own)])
    at = np.arange(len(tokens))
    mask = at % TURN >= TURN // 2
    mask[TURNS * TURN :] = True
    made.append(
      episode.Episode(
        task=episode.Task('task', '', {}),
        sample=sample,
        tokens=tokens.astype(np.int32),
        mask=mask,
        logp=np.where(mask, -5, 0).astype(np.float32),
        rewards=((at == at[-1]) * rng.random()).astype(np.float32),
        turn=np.minimum(at // TURN, TURNS).astype(np.int32),
        status=episode.FINISHED,
      )
    )
  return made


def side(kind: str, size: sizes.Sizes, count: int) -> tuple[Side, Any]:
  """The step of a kind, compiled, and the state that it starts from."""
  episodes = branches(count, size.vocab)
  width = (TURNS + 2) * TURN
  batch = pack.pack_whole(
    [episodes], rows=count, width=width, max_turns=TURNS + 1, block=count
  )
  columns = types.columns(batch)
  columns['old_logp'] = columns['rollout_logp']
  share = 1.0
  if kind == prefixes.SHARED:
    columns |= prefixes.place(columns, count)
    share = columns[prefixes.PLACES].size / columns['tokens'].size
  model, method = transformer.make(size), compose.method(grpo.dapo())
  mesh = sharding.make_mesh(data=1, fsdp=1)
  columns = sharding.shard_rows(columns, mesh)
  tx = optimizers.adamw(
    lr=1e-4, warmup=1, decay=0, b1=0.9, b2=0.99, weight_decay=0.0, max_norm=1.0
  )
  update = step.make_train_step(
    forward.make(model, temperature=1.0, chunk=512),
    method, tx, microbatch=count, mesh=mesh,
  )  # fmt: skip
  start = sharding.shard_params(
    state.create(model.init(jax.random.key(0)), tx), mesh
  )
  credits = method.credit(prefixes.of_rows(columns))
  run, used = compiled.step(update, start, columns, credits)
  return Side(run, columns, credits, used / 2**20, share), start


def timed(one: Side, now: Any) -> tuple[dict[str, float], Any, dict]:
  """Seconds of a step, the state after it and its metrics.

  Those of the clock, and those of all threads on processors, which count the
  same on a machine that has other work.
  """
  before = {name: clock() for name, clock in CLOCKS.items()}
  now, metrics = one.step(now, one.columns, one.credits)
  jax.block_until_ready((now, metrics))
  took = {name: clock() - before[name] for name, clock in CLOCKS.items()}
  return took, now, metrics


def measure(size: sizes.Sizes, count: int, repeats: int) -> dict[str, Any]:
  """Both sides: their seconds by round, megabytes, and shares of tokens."""
  made = {kind: side(kind, size, count) for kind in SIDES}
  sides = {kind: one for kind, (one, _) in made.items()}
  now = {kind: start for kind, (_, start) in made.items()}
  norms = {}
  for kind in SIDES:
    _, now[kind], metrics = timed(sides[kind], now[kind])
    norms[kind] = float(metrics['train/grad_norm'])
  seconds: dict[str, list[dict]] = {kind: [] for kind in SIDES}
  for _ in range(repeats):
    for kind in SIDES:
      took, now[kind], _ = timed(sides[kind], now[kind])
      seconds[kind].append(took)
  shared = sides[prefixes.SHARED].columns
  return {
    'seconds': seconds,
    'megabytes': {kind: one.megabytes for kind, one in sides.items()},
    'unique': prefixes.share(shared, shared),
    'computed': sides[prefixes.SHARED].share,
    'difference': abs(norms[prefixes.SHARED] / norms[prefixes.OWN] - 1),
  }


def tell(name: str, seen: dict[str, Any]) -> list[str]:
  """Prints the lines of a model and a branching; its row of the table."""
  unique, computed = seen['unique'], seen['computed']
  _line(f'{name}/unique', [unique], 'of tokens')
  _line(f'{name}/computed', [computed], 'of tokens')
  cells = [f'{unique:.3f}', f'{computed:.3f}']
  for kind in SIDES:
    wall = [1e3 * took['time'] for took in seen['seconds'][kind]]
    cells.append(f'{_line(f"{name}/{kind}", wall, "ms")[0]:.0f}')
  for clock in CLOCKS:
    own, shared = ([took[clock] for took in seen['seconds'][k]] for k in SIDES)
    over = [y / x / unique for x, y in zip(own, shared)]
    value, low, high = _line(f'{name}/{clock}', over, 'x', AIM)
    met = 'met' if machine.meets(value, AIM) else 'missed'
    cells.append(f'{value:.2f} ({low:.2f} to {high:.2f}), {met}')
  for kind in SIDES:
    memory = seen['megabytes'][kind]
    _line(f'{name}/{kind}/memory', [memory], 'MiB')
    cells.append(f'{memory:.0f}')
  return cells


def _line(name, values, unit, aim='') -> tuple[float, float, float]:
  """Prints the median of the rounds; gives it and the ends of its interval."""
  value, interval = rounds.median(values)
  ends = [round(end, 4) for end in interval] if len(values) > 1 else None
  runs.line(name, value, unit, aim, (0,), ends)
  return value, *interval


def write(body: list[list[str]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = (
    'model', 'branches', 'unique', 'computed', 'own, ms', 'shared, ms',
    'time by unique', 'processor by unique', 'own, MiB', 'shared, MiB',
  )  # fmt: skip
  about = (
    'Written by `python -m benchmarks.shared_prefix`. One update of DAPO on'
    ' branches of a\nhistory of ten turns, whose tokens are computed once a'
    ' branch (own) or once (shared).\n`unique` is the share of tokens that are'
    ' left, `computed` that with the padding of\nblocks and lengths. The time'
    ' of shared by that of own, divided by the share of unique\ntokens, aims at'
    ' 1.2 or less: by the clock, and by seconds of all threads on\nprocessors,'
    ' which other work on the machine changes less. Medians over rounds, with'
    ' 95 %\nintervals; MiB are of temporaries, as XLA counts them.'
  )
  facts = [f'jax {jax.__version__}, numpy {np.__version__}']
  machine.write(TABLE, about, runs.markdown(header, body), load, facts)


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load, body, failed = os.getloadavg()[0], [], []
  for model, size in SIZES.items():
    for count in (4, 16):
      name = f'shared_prefix/{model}/{count}'
      seen = measure(size, count, 3 if options.quick() else ROUNDS)
      runs.line(
        f'{name}/difference', seen['difference'], 'x', f'<= {_AGREES}', (0,),
        None,
      )  # fmt: skip
      if seen['difference'] > _AGREES:
        failed.append(name)
        continue
      body.append([model, str(count), *tell(name, seen)])
  if not options.quick():
    write(body, load)
  if failed:
    sys.exit(f'gradients differ: {json.dumps(failed)}')


if __name__ == '__main__':
  options.start(main)
