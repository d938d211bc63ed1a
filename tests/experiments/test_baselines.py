"""Each file of experiments/baselines: its config, its claim and its runs."""

import collections
import inspect
import json
import pathlib

import pytest

from arl import names as names_lib
from arl.train import build, export, loading
from experiments import critics, distill, preferences, quickstart, recipes
from experiments.baselines import budget
from experiments.studies import baselines, claims, methods, runs

ROOT = pathlib.Path(budget.__file__).parent
RESULTS = ROOT.parent / 'results'


def of_recipe(name):
  """The config of the recipe that a baseline is."""
  for module, known in (
    (quickstart, recipes.METHODS),
    (preferences, preferences.PREFERRED),
    (distill, distill.DISTILLED),
    (critics, critics.METHODS),
  ):
    if name in known:
      taught = ',teacher=t' * (module is distill)
      config = module.get_config(f'model=m,method={name}{taught}')
      config.update_from_flattened_dict(budget.SETTINGS)
      return config
  raise AssertionError(f'{name} is no recipe')


def made(name, quick=''):
  teacher = ',teacher=t' * (name in baselines.TAUGHT)
  return baselines.module(name).get_config(f'model=m{teacher}{quick}')


def test_every_file_is_in_a_family():
  files = {path.stem for path in ROOT.glob('*.py')} - {'__init__', 'budget'}
  assert files == set(baselines.NAMES)
  assert len(baselines.NAMES) == len(files) >= 25
  assert {baselines.REFERENCE, baselines.TEACHER, *baselines.QUICK} <= files
  assert baselines.family('gspo') == 'Sequences and soft clips'


@pytest.mark.parametrize('name', baselines.NAMES)
def test_it_is_the_recipe_that_it_claims(name):
  want, stale = of_recipe(name), name in baselines.FAMILIES['Stale rollouts']
  want.rollout.lag = 2 * stale
  assert made(name).to_dict() == want.to_dict()


@pytest.mark.parametrize('quick', ['', ',quick'])
@pytest.mark.parametrize('name', baselines.NAMES)
def test_its_settings_hold(name, quick):
  build.check(made(name, quick))


@pytest.mark.parametrize('name', baselines.NAMES)
def test_quick_starts_from_nothing(name):
  config = baselines.module(name).get_config('quick')
  build.check(config)
  assert not config.model.path and config.model.size == 'quick'
  assert config.model.teacher == 'start' * (name in baselines.TAUGHT)


@pytest.mark.parametrize('name', baselines.NAMES)
def test_quick_is_smaller(name):
  whole, quick = made(name), made(name, ',quick')
  assert quick.steps < whole.steps == 20
  assert quick.engine.slots < whole.engine.slots
  assert quick.eval.final_tasks < whole.eval.final_tasks
  assert quick.method == whole.method and quick.env == whole.env
  whole_batch = whole.prompts.batch * whole.prompts.samples
  assert quick.prompts.batch * quick.prompts.samples < whole_batch
  assert whole_batch == budget.EPISODES


@pytest.mark.parametrize('name', baselines.NAMES)
def test_where_its_numbers_are_not_the_published_ones_it_says_so(name):
  """The defaults of a method are those of its publication."""
  module = baselines.module(name)
  numbers = dict(module.METHOD)
  function = names_lib.resolve(numbers.pop('name'), 'arl.methods')
  known = inspect.signature(function).parameters
  if 'base' in numbers:
    assert numbers.pop('base')['name'] == known['base'].default
  default = {key: known[key].default for key in numbers}
  differ = {k: default[k] for k, x in numbers.items() if x != default[k]}
  assert differ == module.PUBLISHED


@pytest.mark.parametrize('name', baselines.NAMES)
def test_its_docstring_is_its_claim(name):
  module, claim = baselines.module(name), claims.read(claims.FILE).get(name)
  title, empty, *_ = module.__doc__.splitlines()
  assert len(title) > 20 and not empty
  command = f'  python -m experiments.results --baselines={name}'
  assert command in module.__doc__.splitlines()
  assert module.PAPER.split(' ')[0] in module.__doc__
  assert claims.told(claim) in module.__doc__.splitlines()


def test_every_baseline_has_a_claim_of_what_its_file_says_or_is_named():
  """A change of a method or of the budget asks for a new run."""
  known = claims.read(claims.FILE)
  table = (RESULTS / 'baselines.md').read_text('utf-8')
  for name in baselines.NAMES:
    if name not in known:
      assert name in table.partition('Not run yet: ')[2].partition('.')[0]
      continue
    claim = known[name]
    assert claim.of == claims.digest(name), f'run {name} again'
    assert 0 <= claim.interval[0] <= claim.success <= claim.interval[1] <= 1
    assert len(claim.seeds) >= 3 and claim.seconds > 0 and claim.on
    assert f'| {name} |' in table
  assert known.keys() <= set(baselines.NAMES)


def test_the_budget_is_that_of_the_study_of_methods():
  flags = methods.small('dapo', quick=False)
  want = {f'--config.{key}={value}' for key, value in budget.SETTINGS.items()}
  assert set(flags) == want


# Where runs are.


@pytest.fixture
def started(tmp_path):
  """A folder with finished warm starts of two seeds."""
  for seed in (0, 1):
    folder = tmp_path / f'sft_seed{seed}'
    folder.mkdir()
    text = json.dumps({'config_hash': f'start{seed}'})
    (folder / 'results.json').write_text(text)
  return tmp_path


def folder(root, name, seed=0, quick=False):
  return baselines.trained(root, name, seed, quick).workdir.name


def test_a_run_is_that_of_its_config(started, monkeypatch):
  first = baselines.trained(started, 'dapo', 0, False)
  assert first == baselines.trained(started, 'dapo', 0, False)
  start = started / 'sft_seed0/final'
  assert first.config == f'experiments/baselines/dapo.py:model={start}'
  assert first.overrides == ('--config.seed=0',)
  others = [
    folder(started, 'dapo', seed=1),
    folder(started, 'dapo', quick=True),
    folder(started, 'liteppo'),
  ]
  student = folder(started, 'opd')
  monkeypatch.setitem(baselines.module('dapo').METHOD, 'high', 0.3)
  others.append(folder(started, 'dapo'))
  assert len({first.workdir.name, *others}) == 5
  assert folder(started, 'opd') != student  # its teacher is another


def test_a_run_is_the_same_elsewhere_but_not_from_another_start(
  started, tmp_path_factory
):
  elsewhere = tmp_path_factory.mktemp('elsewhere')
  (elsewhere / 'sft_seed0').mkdir()
  told = elsewhere / 'sft_seed0/results.json'
  names = []
  for hash in ('start0', 'start1'):
    told.write_text(json.dumps({'config_hash': hash}))
    names.append([folder(elsewhere, name) for name in ('gspo', 'gkd')])
  here = [folder(started, name) for name in ('gspo', 'gkd')]
  assert here == names[0] and not set(here) & set(names[1])


def test_what_is_finished_is_given(started, monkeypatch):
  asked = []
  monkeypatch.setattr(runs, 'make', lambda made: asked.append(list(made)))
  row = [baselines.trained(started, 'gkd', seed, False) for seed in (0, 1)]
  for run in row:
    run.workdir.mkdir(parents=True)
    (run.workdir / 'results.json').write_text('{}')
  table = baselines.make(started, ('gspo', 'gkd'), (0, 1), False)
  assert table == {'gkd': row}
  starts, teachers, rest = asked  # in this order
  assert [run.entry for run in starts] == ['launch.sft'] * 2
  assert [run.workdir.name[:4] for run in teachers] == ['dapo'] * 2
  assert rest[2:] == row and len(rest) == 4


def test_without_warm_starts_there_is_nothing(tmp_path, monkeypatch):
  monkeypatch.setattr(runs, 'make', lambda made: None)
  assert baselines.make(tmp_path, ('gspo',), (0,), False) == {}


def test_kinds_of_tasks():
  env = build.named(made('grpo').env, 'arl.envs')
  tasks = [env.task('held_out', index) for index in range(300)]
  met = collections.Counter(map(baselines.kind, tasks))
  assert set(met) == set(baselines.KINDS)
  for name, share in zip(baselines.KINDS, (1 / 3, 2 / 9, 2 / 9, 2 / 9)):
    assert met[name] / 300 == pytest.approx(share, abs=0.09)
  asked = {baselines.kind(task): task.prompt for task in tasks}
  assert asked['sum'].startswith('what is') and ' of ' in asked['look-up']


def test_policies_are_asked_every_kind(tmp_path):
  """Fresh ones, which know nothing; who was asked is not asked again."""
  config = quickstart.get_config('model=fresh')
  made = []
  for seed in (0, 1):
    loaded, tokenizer = loading.load_model(config.model, seed)
    made.append(runs.Run('', '', tmp_path / str(seed)))
    made[-1].workdir.mkdir()
    export.save(
      made[-1].workdir / 'final', loaded.params, loaded.sizes, tokenizer
    )
  told = {name: [4, 4] for name in baselines.KINDS}
  (made[0].workdir / 'by_kind.json').write_text(json.dumps(told))
  baselines.evaluate(made, quick=True)
  found = baselines.outcomes(made)
  assert found.graded.tolist() == [[4] * 4] * 2
  assert found.solved.tolist() == [[4] * 4, [0] * 4]
