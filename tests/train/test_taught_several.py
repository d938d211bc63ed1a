"""Several teachers, each for the tasks of its part, in a run and on servers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import episode
from arl.methods import compose, distillation, matching
from arl.models import transformer
from arl.train import build, forward, loop, score, sharding, taught, telling
from tests.rollout import serving

CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


# Their names.


@pytest.mark.parametrize(
  'text, want',
  [
    ('', {}),
    ('some/folder', {'': 'some/folder'}),
    ('runs/lr=0.1/final', {'': 'runs/lr=0.1/final'}),
    ('http://host:1/?a=b', {'': 'http://host:1/?a=b'}),
    ('one=a/b,two=c', {'one': 'a/b', 'two': 'c'}),
    ('one=x/lr=1', {'one': 'x/lr=1'}),
  ],
)
def test_teachers_by_name(text, want):
  assert taught.named(text) == want


@pytest.mark.parametrize(
  'text, words',
  [
    ('one=a,b', "'b' is no NAME=FOLDER or NAME=URL"),
    ('one=a,one=b', "'one=b' is no NAME=FOLDER"),
    ('one=a,two=', "'two=' is no NAME=FOLDER"),
    ('one=a,two=http://x:1', 'give folders only, or URLs of servers only'),
  ],
)
def test_names_that_are_none(text, words):
  with pytest.raises(ValueError, match=words):
    taught.named(text)


def test_servers_have_urls():
  for text in ('http://x:1', 'https://x', 'a=http://x,b=http://y'):
    assert taught.served(text)
  assert not taught.served('http/folder') and not taught.served('a=b,c=d')


# Which of them a task is given to.


def of_part(one, part):
  return one._replace(task=one.task._replace(data={'part': part}))


def test_an_episode_is_told_its_teacher():
  teachers = {'one': 'a', 'two': 'b'}
  for one, index in zip(tiny.episodes(2, 1), (1, 0)):
    part = list(teachers)[index]
    made = taught.indexed(of_part(one, part), teachers)
    column = made.extras['teacher']
    assert column.dtype == np.int32
    np.testing.assert_array_equal(column, [index] * len(one.tokens))


def test_a_task_without_a_teacher():
  (one,) = tiny.episodes(1, 1)
  for other in (one, of_part(one, 'three')):
    with pytest.raises(ValueError, match='names teachers for one, two; name'):
      taught.indexed(other, {'one': 'a', 'two': 'b'})


# What they fill.


@functools.cache
def models():
  """A policy and two teachers, one of them wider, each (model, params)."""
  wide = tiny.size()._replace(layers=2, width=24, heads=3)
  made = []
  for seed, shape in enumerate((tiny.size(), tiny.size(), wide)):
    model = transformer.make(shape)
    params = model.init(jax.random.key(seed))
    made.append((model, jax.tree.map(lambda x: 3 * x, params)))
  return made


def test_each_token_has_what_its_teacher_says():
  (_, _), (one, first), (two, second) = models()
  make = functools.partial(forward.make, temperature=0.7, chunk=0)
  columns = tiny.columns(tiny.episodes(2, 2), rows=4)
  index = np.tile(np.array([[0], [1], [1], [0]], np.int32), (1, 12))
  columns['teacher'] = index
  columns['old_ids'] = np.zeros((4, 12, 2), np.int32)
  want = frozenset({'logp', 'entropy', 'likeliest', 'own_logp'})
  run = taught.routed([make(one), make(two)])
  made = jax.jit(run, static_argnums=2)(
    (first, second), columns, want | {'logps'}
  )
  each = [
    jax.jit(make(m), static_argnums=2)(p, columns, want)
    for m, p in ((one, first), (two, second))
  ]
  for row, i in enumerate(index[:, 0]):
    for name in want:
      CLOSE(made[name][row], each[i][name][row], err_msg=name)
    for i in range(2):
      CLOSE(made['logps'][row, :, i], each[i]['logp'][row])
  assert made['likeliest'].dtype == jnp.int32


def test_one_model_alone_needs_no_column():
  (model, params), *_ = models()
  make = forward.make(model, temperature=1.0, chunk=0)
  columns = tiny.columns(tiny.episodes(2, 2), rows=4)
  want = frozenset({'logp'})
  made = taught.routed([make])((params,), columns, want)
  CLOSE(made['logp'], make(params, columns, want)['logp'])


def test_log_probs_of_all_are_a_score():
  (model, own), (one, first), (two, second) = models()
  make = functools.partial(forward.make, temperature=0.7, chunk=0)
  run = score.make_score(
    make(model),
    frozenset({'teacher_logps', 'teacher'}),
    others={'teacher_logp': taught.routed([make(one), make(two)])},
    microbatch=2,
    mesh=sharding.make_mesh(data=1, fsdp=1),
  )
  columns = tiny.columns(tiny.episodes(2, 2), rows=4)
  columns['teacher'] = np.zeros((4, 12), np.int32)
  made = run(own, {'teacher_logp': (first, second)}, columns)
  assert made.keys() == {'old_logp', 'old_entropy', 'teacher_logps'}
  assert made['teacher_logps'].shape == (4, 12, 2)


# Whole runs.


def config_of(folder, method, teacher, **blocks):
  return tiny.config(
    tiny.write_model(folder / 'policy'),
    steps=2,
    method={'name': method},
    env={
      'name': 'mixture.make',
      'parts': {part: {'name': 'tiny.letters'} for part in ('one', 'two')},
    },
    model={'teacher': teacher},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 9},
    **blocks,
  )


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  made = tmp_path_factory.mktemp('teachers')
  wide = tiny.size()._replace(width=24, heads=3)
  return (
    tiny.write_model(made / 'one', seed=3),
    tiny.write_model(made / 'two', seed=4, shape=wide),
  )


@pytest.mark.parametrize(
  'method', ['distillation.exopd_routed', 'matching.opd_tail']
)
def test_runs_with_two_teachers(tmp_path, folders, method):
  teachers = 'one={},two={}'.format(*folders)
  config = config_of(tmp_path, method, teachers)
  loop.train(config, tmp_path / 'run')
  for row in tiny.rows(tmp_path / 'run'):
    assert np.isfinite(row['loss/total'])


def test_whole_distributions_need_one_teacher(tmp_path, folders):
  teachers = 'one={},two={}'.format(*folders)
  config = config_of(tmp_path, 'matching.opd_full', teachers)
  with pytest.raises(ValueError, match="needs column 'reverse_kl'"):
    build.check(config)


# On servers.


@pytest.fixture(scope='module')
def urls(folders):
  with (
    serving.running(folders[0]) as one,
    serving.running(folders[1]) as two,
  ):
    yield str(one.base_url), str(two.base_url)


def told(config, method, episodes):
  """The episodes as a run would tell them."""
  made = compose.method(method)
  world = build.world(config)
  return telling.make(config, made, world)(episodes)


def by_folder(folder, episodes, names):
  """The same columns, by a teacher in the run."""
  (loaded,) = [build.loading.teacher(tiny.config(folder), str(folder), 8)]
  make = forward.make(loaded.model, temperature=1.0, chunk=0)
  columns = tiny.columns(episodes, rows=len(episodes))
  asked = {score.OF_TEACHER[name]: name for name in names}
  made = make(loaded.params, columns, frozenset(asked))
  return {asked[name]: np.asarray(x) for name, x in made.items()}


def test_a_server_tells_what_the_folder_would(tmp_path, folders, urls):
  config = config_of(tmp_path, 'matching.gkd', urls[0])
  episodes = tiny.episodes(2, 2)
  names = ['teacher_logp', 'teacher_top_logp', 'teacher_entropy']
  want = by_folder(folders[0], episodes, names)
  made = told(config, matching.eopd(k=4), episodes)
  for row, one in enumerate(made):
    n = len(one.tokens)
    assert one.extras.keys() == {*names, 'teacher_ids'}
    for name in names:
      CLOSE(one.extras[name], want[name][row, :n], atol=1e-5, err_msg=name)
  alone = told(config, distillation.opd(), episodes)
  assert alone[0].extras.keys() == {'teacher_logp'}


def test_servers_are_asked_about_their_part(tmp_path, folders, urls):
  teachers = 'one={},two={}'.format(*urls)
  config = config_of(tmp_path, 'distillation.opd', teachers)
  episodes = [
    of_part(one, part)
    for one, part in zip(tiny.episodes(2, 2), ('one', 'two', 'two', 'one'))
  ]
  each = [
    by_folder(folder, episodes, ['teacher_logp'])['teacher_logp']
    for folder in folders
  ]
  one_ = told(config, distillation.opd(), episodes)
  all_ = told(config, distillation.exopd_routed(), episodes)
  for row, (one, both) in enumerate(zip(one_, all_)):
    n, index = len(one.tokens), int(one.extras['teacher'][0])
    assert index == (0, 1, 1, 0)[row]
    CLOSE(one.extras['teacher_logp'], each[index][row, :n], atol=1e-5)
    for i in range(2):
      CLOSE(both.extras['teacher_logps'][:, i], each[i][row, :n], atol=1e-5)


@pytest.mark.parametrize('method', ['matching.eopd'])
def test_runs_with_a_teacher_on_a_server(tmp_path, urls, method):
  config = config_of(tmp_path, method, urls[0])
  loop.train(config, tmp_path / 'run')
  for row in tiny.rows(tmp_path / 'run'):
    assert np.isfinite(row['loss/total'])


@pytest.mark.parametrize(
  'method, column',
  [
    ('matching.opd_full', 'reverse_kl'),
    ('matching.opd_tail', 'teacher_own_logp'),
  ],
)
def test_what_no_server_tells(tmp_path, method, column):
  config = config_of(tmp_path, method, 'http://127.0.0.1:1')
  with pytest.raises(ValueError, match=f'needs column {column!r}'):
    build.check(config)


def test_servers_score_at_temperature_one(tmp_path):
  config = config_of(
    tmp_path,
    'distillation.opd',
    'http://127.0.0.1:1',
    rollout={'temperature': 0.7},
  )
  with pytest.raises(ValueError, match='score at temperature 1 alone'):
    build.check(config)


def test_the_tail_has_the_entropy_of_one_token():
  logs = np.log(np.array([[0.5, 0.25], [0.5, 0.5]]))
  want = [0.5 * np.log(2) + 0.5 * np.log(4), np.log(2)]
  CLOSE(telling.entropy(logs.astype(np.float32)), want)


# Where the policy reconsiders.


def test_runs_that_see_where_the_policy_reconsiders(tmp_path):
  config = tiny.config(
    tiny.write_model(tmp_path / 'policy'),
    steps=1,
    method={'name': 'distillation.guarded', 'base': 'distillation.opd'},
    model={'teacher': str(tiny.write_model(tmp_path / 'teacher', seed=3))},
    rollout={'reconsidering': 'a|b'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
  )
  loop.train(config, tmp_path / 'run')
  (row,) = tiny.rows(tmp_path / 'run')
  assert row['policy/reconsidering'] and row['policy/others']
  both = row['policy/reconsidering'] + row['policy/others']
  CLOSE(both, -row['policy/teacher_gap'], atol=1e-5)


def test_episodes_stay_as_they_are_where_nothing_is_read(model_folder):
  world = build.world(tiny.config(model_folder))
  method = compose.method(matching.opd_full())
  episodes = tiny.episodes(1, 2)
  tell = telling.make(tiny.config(model_folder), method, world)
  assert tell(episodes) == episodes
  assert isinstance(tell(episodes)[0], episode.Episode)
