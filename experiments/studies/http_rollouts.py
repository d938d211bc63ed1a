"""Rollouts over HTTP are those of the embedded engine, and train as well.

  python -m experiments.studies.http_rollouts [--quick] [--workdir=DIR]

The same 200 multi-turn episodes through the engine in process and through
launch/serve.py; greedy continuations of fresh models of each family through
SGLang, where the environment variable ARL_SGLANG_VENV names an environment of
launch/sglang.sh --cpu; how trainer and engine agree while weights are updated;
and the quickstart's task trained with each. Prints a JSON object a line and
rewrites experiments/results/http_rollouts.md.
"""

import functools
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from arl import episode
from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import engine, local, sglang, strategies
from arl.train import build, evaluation
from experiments import quickstart as config_file
from experiments.studies import methods, quickstart, runs, servers, summary

EPISODES, SEED = 200, 0
FAMILIES = ('llama', 'qwen2', 'qwen3', 'qwen3_moe')
# Engine steps after so many hand-overs of weights that are looked at.
UPDATES = (0, 1, 20)


def _episodes(
  world: build.World, made: engine.Engine, count: int, temperature: float
) -> list[episode.Episode]:
  tasks = evaluation.held_out(world, 0, count)
  sampling = engine.Sampling(temperature=temperature)
  with_it = world._replace(engine=made)
  return evaluation.run(with_it, tasks, sampling, (evaluation.FINAL,))


def compare(
  ours: Sequence[episode.Episode], theirs: Sequence[episode.Episode]
) -> tuple[int, float, int]:
  """Episodes with the same tokens, the largest difference of their log-probs,
  and how many tokens those have that were sampled."""
  same = [
    (a, b)
    for a, b in zip(ours, theirs, strict=True)
    if np.array_equal(a.tokens, b.tokens) and np.array_equal(a.mask, b.mask)
  ]
  gaps = [np.max(np.abs(a.logp - b.logp), initial=0) for a, b in same]
  return len(same), float(max(gaps)), sum(int(a.mask.sum()) for a, _ in same)


def _world(model: pathlib.Path, quick: bool) -> build.World:
  config = config_file.get_config(f'model={model}' + (',quick' * quick))
  return build.world(config)


def embedded(root: pathlib.Path, quick: bool) -> list[list[str]]:
  """The same episodes in process and through the embedded server."""
  model = quickstart.warm_start(root, SEED, quick).workdir / 'final'
  world, count = _world(model, quick), 20 if quick else EPISODES
  flags = (f'--slots={256}', '--context=128', f'--seed={SEED}')
  rows = []
  with servers.embedded(model, root / 'servers', *flags) as url:
    remote = _connect(url, world.loaded, context=128)
    for name, temperature in (('sampled', 1.0), ('greedy', 0.0)):
      ours = _episodes(world, world.engine, count, temperature)
      theirs = _episodes(world, remote, count, temperature)
      rows.append(_say('embedded', name, ours, theirs, aim='0'))
    remote.close()
  return rows


def _say(what, how, ours, theirs, *, aim) -> list[str]:
  same, gap, tokens = compare(ours, theirs)
  count, name = len(ours), f'http_rollouts/{what}/{how}'
  runs.line(f'{name}/same', same, f'of {count}', str(count), (SEED,), None)
  runs.line(f'{name}/largest_gap', gap, 'nats', aim, (SEED,), None)
  return [f'{what}, {how}', f'{same} of {count}', f'{gap:.1e}', str(tokens)]


def _connect(url, loaded: hf.Loaded, context: int) -> sglang.SglangEngine:
  return sglang.connect(
    [url],
    vocab=loaded.model.vocab,
    context=context,
    seed=SEED,
    experts=loaded.model.experts,
    names={'default': 0},
  )


def family(root: pathlib.Path, name: str) -> list[str]:
  """Greedy continuations by SGLang and by the engine in process."""
  folder = root / 'families' / name
  tokenizer = tokenizers.characters()
  shape = _SHAPES[name](len(tokenizer))
  model = transformer.make(shape)
  params = model.init(jax.random.key(SEED))
  if not folder.exists():
    hf.save(folder, jax.device_get(params), shape)
    tokenizers.save(tokenizer, folder)
  loaded = hf.load(folder)
  ours = local.LocalEngine(
    loaded.model, loaded.params, slots=64, context=128, seed=SEED
  )
  rng = np.random.default_rng(SEED)
  requests = [
    engine.Request(
      tuple(rng.integers(3, shape.vocab, 1 + 7 * i % 50).tolist()), 64, (0, i)
    )
    for i in range(64)
  ]
  with servers.sglang(folder, root / 'servers') as url:
    theirs = _connect(url, loaded, context=128)
    greedy = engine.Sampling(temperature=0.0)
    row = _say(
      'SGLang',
      f'{name}, greedy',
      _as_episodes(requests, ours.generate(requests, greedy)),
      _as_episodes(requests, theirs.generate(requests, greedy)),
      aim='<= 1e-5',
    )
    theirs.close()
  return row


_SHAPES = {
  'llama': sizes.quick,
  'qwen2': lambda v: sizes.quick(v)._replace(family='qwen2', qkv_bias=True),
  'qwen3': lambda v: sizes.quick(v)._replace(family='qwen3', qk_norm=True),
  'qwen3_moe': sizes.tiny_moe,
}


def _as_episodes(requests, samples) -> list[episode.Episode]:
  """Samples in the form of episodes, to be compared alike."""
  made = []
  for request, sample in zip(requests, samples):
    row = strategies.Live(episode.Task('', '', {}), 0, ())
    row.observe(request.tokens)
    row.take(sample)
    made.append(row.episode())
  return made


def trained(root: pathlib.Path, name: str, *overrides: str) -> runs.Run:
  """A run of the quickstart's method on whole batches, from the warm start."""
  base = methods.trained(root, 'dapo', SEED, runs.quick(), f'http_{name}')
  if not runs.quick():
    overrides = ('--config.steps=21', '--config.prompts.batch=64', *overrides)
  whole = '--config.prompts.select=select.everything'
  return base._replace(overrides=(*base.overrides, whole, *overrides))


def learn(root: pathlib.Path, quick: bool) -> list[list[str]]:
  """Trains with each engine; how it agrees with the trainer on the way."""
  made = [trained(root, 'float32')]
  made.append(trained(root, 'bf16', '--config.engine.dtype=bfloat16'))
  runs.make(made)
  model = quickstart.warm_start(root, SEED, quick).workdir / 'final'
  starts = {'embedded server': servers.embedded}
  if servers.has_sglang():
    starts['SGLang'] = functools.partial(_roomy, servers.sglang)
  for name, start in starts.items():
    one = trained(root, name.replace(' ', '_'))
    made.append(one)
    if runs.finished(one):
      continue
    with start(model, root / 'servers') as url:
      folder = one.workdir / 'weights'
      served = (
        f'--config.engine.urls={url}', f'--config.engine.folder={folder}',
      )  # fmt: skip
      runs.make([one._replace(overrides=(*one.overrides, *served))])
  names = ('in process, float32', 'in process, bf16', *starts)
  return [_learned(name, run) for name, run in zip(names, made)]


def _roomy(start, model, folder):
  """SGLang with room for a batch, which it does not take by itself on a CPU."""
  return start(
    model, folder, '--max-running-requests', '64', '--max-total-tokens', '32768'
  )


def _learned(name: str, run: runs.Run) -> list[str]:
  after = runs.result(run)['after']['sampled']['success']
  key = f'http_rollouts/train/{name.replace(", ", "_").replace(" ", "_")}'
  runs.line(f'{key}/success', after, 'success rate', '', (SEED,), None)
  cells = [name, f'{after:.3f}']
  rows = runs.rows(run)
  for updates in UPDATES:
    if updates >= len(rows):
      cells.append('')
      continue
    row = rows[updates]
    where = f'{key}/after_{updates}'
    gap, along = row['mismatch/max'], row['mismatch/correlation']
    runs.line(f'{where}/largest_gap', gap, 'nats', '', (SEED,), None)
    runs.line(f'{where}/correlation', along, '', '', (SEED,), None)
    cells.append(f'{gap:.1e}, {along:.7f}')
  return cells


def main(argv: list[str]) -> None:
  del argv
  root, quick = runs.root(), runs.quick()
  runs.make([quickstart.warm_start(root, SEED, quick)])
  same = embedded(root, quick)
  if servers.has_sglang():
    same += [family(root, name) for name in FAMILIES[: 1 if quick else None]]
  curves = learn(root, quick)
  if quick:
    return
  page = runs.RESULTS / 'http_rollouts.md'
  seen = [f'after {n} updates' for n in UPDATES]
  page.write_text(
    runs.markdown(
      ('engine', 'same tokens', 'largest gap, nats', 'tokens'), same
    )
    + '\n'
    + runs.markdown(('trained with', 'success', *seen), curves),
    encoding='utf-8',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
