"""Knobs that rollouts read: temperatures that turn, strategies told more."""

import functools

import jax
import numpy as np
import pytest
import tiny

from arl import episode
from arl.envs import calls
from arl.models import heads, transformer
from arl.rollout import forced_tools
from arl.train import batch, blocks, build, knobs, loop, turning

pytestmark = pytest.mark.usefixtures('compiled_once')

COSINE = {'name': 'knobs.cosine', 'init': 1.2, 'last': 0.7, 'batches': 3}


def run_of(folder, **blocks_):
  least = {
    'steps': 4,
    'eval': {'every': 9, 'tasks': 1, 'final_tasks': 2},
    'checkpoint': {'every': 1, 'keep': 9},
  }
  return tiny.config(folder, **{**least, **blocks_})


# --- Knobs --------------------------------------------------------------------


def turned(knob, shown):
  values = [knob.init]
  for metrics in shown:
    values.append(knob.update(values[-1], metrics, 8))
  return values


@pytest.mark.parametrize('init, last', [(1.2, 0.7), (0.7, 1.2), (1.0, 1.0)])
def test_cosine_by_its_formula(init, last):
  n = 50
  values = turned(knobs.cosine(init=init, last=last, batches=n), [{}] * (n + 5))
  along = np.minimum(np.arange(n + 6) / n, 1)
  want = last + (init - last) * (1 + np.cos(np.pi * along)) / 2
  np.testing.assert_allclose(values, want, atol=1e-8)
  assert values[n] == values[-1] == last


def test_a_temperature_follows_the_entropy_within_bounds():
  knob = knobs.toward_entropy(target=1.0)
  values = turned(knob, [{'train/entropy': np.float32(h)} for h in (0, 1, 2)])
  want = [1, np.exp(0.05), np.exp(0.05), 1]
  np.testing.assert_allclose(values, want, rtol=1e-6)
  assert turned(knob, [{}])[1] == 1.0
  far = turned(knob, [{'train/entropy': -100}, {'train/entropy': 100}])
  assert far == [1.0, 1.2, 0.7]
  with pytest.raises(ValueError, match='swap them'):
    knobs.toward_entropy(target=1.0, low=2.0)


def test_an_average_begins_with_what_is_shown_first():
  knob = knobs.average(metric='x', share=0.25)
  shown = [{}, {'x': 2.0}, {'x': 4.0}, {}]
  assert turned(knob, shown) == [0, 0, 2, 2.5, 2.5]


# --- Temperatures -------------------------------------------------------------


def test_a_temperature_a_token_is_as_several_calls(tiny_model):
  model, params, tokens, hidden = tiny_model
  heat = np.where(np.arange(10) % 2, 0.6, 1.7) * np.ones((4, 1))
  want = ('logp', 'entropy', 'features')
  of = functools.partial(heads.columns, model, params, hidden, tokens, want)
  low, high = (of(temperature=t) for t in (0.6, 1.7))
  for chunk in (None, 7):
    mixed = of(temperature=np.float32(heat), chunk=chunk)
    for name in want:
      odd = np.arange(10) % 2 == 1
      np.testing.assert_allclose(
        mixed[name][:, odd], low[name][:, odd], rtol=1e-5
      )
      np.testing.assert_allclose(
        mixed[name][:, ~odd], high[name][:, ~odd], rtol=1e-5
      )


def test_padding_without_a_temperature_has_no_gradient(tiny_model):
  model, params, tokens, hidden = tiny_model
  heat = np.float32(np.arange(10) < 6) * np.ones((4, 1), np.float32)

  def loss(hidden):
    made = heads.columns(
      model, params, hidden, tokens, ('logp',), temperature=heat,
      chunk=7, where=heat > 0,
    )  # fmt: skip
    return made['logp'].sum()

  grads = jax.grad(loss)(hidden)
  assert np.all(np.isfinite(grads)) and not np.any(grads[:, 6:])


@pytest.fixture(scope='module')
def tiny_model():
  model = transformer.make(tiny.size())
  params = model.init(jax.random.key(0))
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, 8, (4, 10)).astype(np.int32)
  hidden = rng.normal(size=(4, 10, 16)).astype(np.float32)
  return model, params, tokens, hidden


@pytest.fixture
def seen(monkeypatch):
  """The columns of each batch that a run makes."""
  found = []
  make = batch.make

  def watched(*args, **kwargs):
    made = make(*args, **kwargs)
    found.append(jax.device_get(made.columns))
    return made

  monkeypatch.setattr(batch, 'make', watched)
  return found


@pytest.mark.parametrize('lag', [0, 1])
def test_the_trainer_divides_by_what_sampled(model_folder, tmp_path, seen, lag):
  """In the middle of a schedule the ratio to the behavior is 1.

  With a lag it is as well, if the policy stands still.
  """
  config = run_of(
    model_folder,
    knobs={'temperature': COSINE},
    rollout={'lag': lag},
    optimizer={**tiny.config('x').optimizer.to_dict(), 'lr': 1e-12},
  )
  loop.train(config, tmp_path)
  rows = tiny.rows(tmp_path)
  want = [1.2, 1.075, 0.825, 0.7]
  told = [row['knobs/temperature'] for row in rows]
  np.testing.assert_allclose(told, want, rtol=1e-6)
  for row in rows:
    assert row['mismatch/max'] < 1e-4
  heats = [c['rollout_temperature'] for c in seen[1:-1]]
  for step, (heat, columns) in enumerate(zip(heats, seen[1:-1])):
    on = columns['mask']
    np.testing.assert_allclose(heat[on], want[step], rtol=1e-6)
    # The trainer's own log-prob, at the temperature of the token.
    gap = columns['old_logp'] - columns['rollout_logp']
    np.testing.assert_allclose(np.exp(gap[on]), 1, atol=1e-4)


def test_nothing_compiles_twice_and_a_resumed_run_is_the_run(
  model_folder, tmp_path
):
  config = run_of(model_folder, knobs={'temperature': COSINE})
  whole = tmp_path / 'whole'
  loop.train(config, whole)
  text = (whole / 'results.json').read_text()
  for name in ('score', 'step', 'credit'):
    assert f'"{name}": 1' in text
  part = tmp_path / 'part'
  tiny.cut(whole, part, 2)
  loop.train(config, part)
  assert tiny.rows(part) == tiny.rows(whole)


# --- Strategies ---------------------------------------------------------------


def armed():
  """Letters with a tool."""
  tool = calls.Tool('a', '', {'type': 'object', 'properties': {}}, lambda: '')
  return tiny.letters()._replace(tools=(tool,))


LINEAR = {'name': 'knobs.linear', 'init': 0.5, 'last': 0.1, 'batches': 2}
FLOOR = {'name': 'knobs.average', 'metric': 'rollout/entropy_low'}
NAMED = {
  't2po.turns': {},
  'selective.two': {},
  'diverse.plans': {},
  'early_stop.two': {'entropy_floor': FLOOR},
  'test_turning.lettered': {'tool_eps': LINEAR},
}
# The tiny tokenizer has no brackets: a call is the name of the tool.
lettered = None


@pytest.fixture
def spelled(monkeypatch):
  from arl.envs import call_syntax

  write = lambda made: ''.join(c.name + '?' * bool(c.arguments) for c in made)
  syntax = call_syntax.Syntax(lambda text, tools: None, write)
  monkeypatch.setitem(call_syntax.SYNTAXES, 'letters', syntax)
  monkeypatch.setattr('test_turning.lettered', forced_tools.off_mask('letters'))


@pytest.mark.parametrize('name', NAMED)
@pytest.mark.usefixtures('spelled')
def test_a_run_by_each_strategy(model_folder, tmp_path, name):
  config = run_of(
    model_folder,
    steps=3,
    rollout={'strategy': name},
    knobs=NAMED[name],
    env={'name': 'test_turning.armed'},
  )
  loop.train(config, tmp_path)
  rows = tiny.rows(tmp_path)
  assert len(rows) == 3
  for row in rows:
    assert row['rollout/tokens'] > 0
    assert row['mismatch/max'] < 1e-4
  if NAMED[name]:
    (knob,) = NAMED[name]
    told = [row[f'knobs/{knob}'] for row in rows]
    assert told[0] != told[1]


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'rollout': {'strategy': 'beams.four'}}, 'are no samples of the policy'),
    ({'rollout': {'strategy': 'early_stop.two'}}, 'set config.knobs.entropy'),
    ({'knobs': {'tool_eps': LINEAR}}, 'does not read it; leave it out'),
    ({'eval': {'strategy': 'early_stop.two'}}, 'of training; choose another'),
    (
      {'rollout': {'strategy': 'forced_tools.masked'},
       'knobs': {'tool_eps': LINEAR}},
      "asks the environment for 'tools'",
    ),
    (
      {'rollout': {'strategy': 'forced_tools.mixed'},
       'knobs': {'tool_eps': LINEAR},
       'env': {'name': 'tools.make'}},
      'reads no rollout_logp',
    ),
    (
      {'model': {'teacher': 'http://x'}, 'knobs': {'temperature': COSINE}},
      'servers score at temperature 1',
    ),
    (
      {'rollout': {'strategy': 'early_stop.two'},
       'knobs': {'entropy_floor': FLOOR},
       'updates': {'prefixes': 'shared'}},
      'keeps whole groups in a',
    ),
  ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    build.check(tiny.config('some/folder', **changes))


# --- Groups of different sizes ------------------------------------------------


def groups_of(sizes):
  made = []
  for place, size in enumerate(sizes):
    few = tiny.episodes(1, size, seed=place)
    task = few[0].task._replace(id=f'task/{place}')
    few = [one._replace(task=task) for one in few]
    made.append(episode.Group(task, few))
  return made


@pytest.mark.parametrize('per_batch', [1, 2, 3])
def test_updates_have_room_for_groups_of_any_sizes(per_batch):
  rng = np.random.default_rng(0)
  config = tiny.config(
    'some/folder',
    rollout={'strategy': 'early_stop.two'},
    prompts={'batch': 6, 'samples': 4},
    updates={'per_batch': per_batch, 'microbatch': 4},
  )
  rows = blocks.rows(config, build.method(config.method))
  for _ in range(50):
    sizes = []
    while len(sizes) < 6:
      size = int(rng.choice([2, 4, 5, 8]))
      sizes.append(min(size, 24 - sum(sizes) - 2 * (5 - len(sizes))))
    parts = batch.updates(groups_of(sizes), per_batch)
    assert sum(map(len, parts)) == sum(sizes) <= 24
    assert max(map(len, parts)) <= rows


def test_equal_groups_are_dealt_out_in_turn():
  groups = groups_of([3] * 5)
  parts = batch.updates(groups, 2)
  dealt = [[one.task.id for one in part[::3]] for part in parts]
  assert dealt == [['task/0', 'task/2', 'task/4'], ['task/1', 'task/3']]


def test_stamps_are_of_every_token():
  (one,) = tiny.episodes(1, 1)
  made = turning.stamped(one, 0.8)
  np.testing.assert_allclose(made.extras[turning.COLUMN], 0.8)


def test_a_method_that_weighs_may_have_a_mixture():
  base = {'name': 'grpo.dapo'}
  build.check(
    tiny.config(
      'some/folder',
      rollout={'strategy': 'forced_tools.mixed'},
      knobs={'tool_eps': LINEAR},
      env={'name': 'tools.make'},
      method={'name': 'offpolicy.tis', 'base': base, 'low': 0.0, 'high': 2.0},
    )
  )


def test_an_evaluation_may_search(model_folder, tmp_path):
  """Beams have no log-probs, and nothing but evaluation reads them."""
  config = run_of(
    model_folder,
    steps=1,
    rollout={'max_turns': 1, 'turn_tokens': 3},
    eval={'strategy': 'beams.four', 'final_tasks': 1},
  )
  loop.train(config, tmp_path)
  (row,) = tiny.rows(tmp_path)
  assert row['eval/greedy'] >= 0 and row['mismatch/max'] < 1e-4
