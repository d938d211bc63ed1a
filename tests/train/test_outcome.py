import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.methods import grpo
from arl.rollout import chat as chat_lib
from arl.rollout import scripted, strategies
from arl.train import build, evaluation, outcome, state

SUCCESS = {'success': 0.5, 'tokens': 7.5, 'graded': 16, 'failed': 0}


def test_the_speed_counts_the_tokens_of_all_episodes():
  row = outcome.training_metrics(
    SUCCESS, groups_used=0.75, rollout=2.0, update=1.0, updates=6
  )
  assert row == {
    'train/success': 0.5,
    'train/tokens': 7.5,
    'train/graded': 16,
    'train/failed': 0,
    'train/groups_used': 0.75,
    'train/updates': 6,
    'time/rollout': 2.0,
    'time/update': 1.0,
    'speed/tokens_per_second': 40.0,
  }


def test_a_headline_shows_what_there_is():
  row = {'train/success': 0.5, 'policy/kl': 0.1, 'train/graded': 16}
  assert outcome.headline(row) == {'success': 0.5, 'kl': 0.1}


def test_the_best_is_the_first_of_the_highest():
  meta = {'best': {'step': 0, 'success': -1.0}}
  successes = {2: 0.0, 4: math.nan, 6: 0.5, 8: 0.5}
  seen = [
    outcome.improves(meta, {'sampled': {'success': success}}, step)
    for step, success in successes.items()
  ]
  assert seen == [True, False, True, False]
  assert meta['best'] == {'step': 6, 'success': 0.5}


def test_a_run_ends_after_too_many_non_finite_updates():
  now = state.TrainState({}, (), jnp.int32(4), jnp.int32(2))
  row = {'loss/total': math.nan, 'train/grad_norm': math.inf}
  outcome.check_finite(now, row, 7, most=3)
  with pytest.raises(FloatingPointError) as error:
    outcome.check_finite(now._replace(skipped=jnp.int32(3)), row, 7, most=3)
  assert str(error.value) == (
    'step 7: the last 3 updates had a non-finite loss, gradient or change of'
    ' the parameters and were skipped (loss nan, gradient norm inf); parameters'
    ' are as before them. Look at metrics.jsonl; lower the learning rate or the'
    ' clip bounds.'
  )


def world(script, broken='.'):
  """A world in which the engine says what a script tells it to."""
  chat = chat_lib.chat(tiny.tokenizer(), observation_role='user')
  return build.World(
    tokenizer=tiny.tokenizer(),
    chat=chat,
    loaded=None,
    env=tiny.letters(broken=broken),
    engine=scripted.ScriptedEngine(script, vocab=8),
    limits=strategies.Limits(2, 6, 24, 24),
    stop_text=(),
    strategy=strategies.multi_turn,
  )


def says(text):
  return tiny.tokenizer().encode(text)


def transcripts(script, rows, samples=4, block=0):
  config = tiny.config('x', prompts={'samples': samples})
  learner = tiny.learner(grpo.dr_grpo(), rows=rows)._replace(block=block)
  return outcome.show(
    world(script), learner, list, None, config, {}, strategies.multi_turn
  )


def script(request):
  """Sample 1 of each task is good; task 0 fails in sample 0, task 2 always."""
  *_, place, sample, _ = request.path
  if place == 2 or (place, sample) == (0, 0):
    return says('.')
  return says('a' if sample == 1 else 'b')


def test_a_task_is_shown_by_its_first_graded_episode():
  shown = transcripts(script, rows=16)
  assert [each.reward for each in shown] == [1, 0, 0]
  titles = [tiny.letters().task('held_out', i).prompt for i in (0, 1, 3)]
  assert [each.title for each in shown] == titles
  for each, advantage in zip(shown, (1 - 1 / 3, -0.25, -0.25)):
    sampled = [piece for piece in each.pieces if piece.sampled]
    assert [piece.text for piece in sampled][1] == '!'
    found = [piece.advantage for piece in sampled]
    np.testing.assert_allclose(found, [advantage] * 4, rtol=1e-6)


@pytest.mark.parametrize('rows, tasks', [(4, 1), (8, 2), (19, 4), (36, 4)])
def test_few_rows_show_few_tasks(rows, tasks):
  shown = transcripts(lambda request: says('a'), rows=rows)
  assert len(shown) == tasks


def test_blocks_show_as_many_groups_as_they_hold():
  say = lambda request: says('a' * 6)  # a row each
  for rows, block, tasks in ((12, 6, 2), (6, 6, 1), (16, 8, 4)):
    assert len(transcripts(say, rows, samples=4, block=block)) == tasks


def test_an_evaluation_without_a_grade_is_an_error():
  nothing = world(lambda request: says('.'))
  tasks = evaluation.held_out(nothing, 3, 2)
  with pytest.raises(RuntimeError) as error:
    evaluation.evaluate(nothing, tasks, 1.0, (evaluation.FINAL,))
  assert str(error.value) == (
    'evaluation: none of the 2 episodes has a grade; the first, of task'
    " 'letters/held_out/3': environment_error: env.step raised OSError on the"
    " action '.': the letters are lost."
  )


def test_an_evaluation_asks_for_the_same_randomness_again():
  some = world(lambda request: says('a'))
  tasks = evaluation.held_out(some, 0, 2)
  for _ in range(2):
    results = evaluation.evaluate(some, tasks, 0.7, (evaluation.FINAL,))
    assert results['sampled']['success'] == results['greedy']['success'] == 1
  paths = [call.path for call in some.engine.calls]
  assert paths[: len(paths) // 2] == paths[len(paths) // 2 :]
  in_training = (evaluation.TRAINING, 0, 0, 0, 0)
  assert {len(path) for path in paths} == {len(in_training)}
  assert in_training not in paths


def test_the_results_are_written(tmp_path):
  config = tiny.config('x')
  (tmp_path / 'metrics.jsonl').write_text(
    '{"step": 1, "wall": 0.5, "train/success": 0.25}\n'
  )
  rate = {'success_low': 0.1, 'success_high': 0.9, 'graded': 8, 'failed': 1}
  before, after = ({'sampled': {'success': s, **rate}} for s in (0.25, 0.75))
  shown = transcripts(script, rows=16)
  meta = {
    **json.loads(json.dumps({**outcome.begin(config, 'abc'), 'shown': shown})),
    'before': before,
    'wall': 12.34,
    'best': {'step': 2, 'success': 0.5},
  }
  # Of three shown before, two are shown again.
  outcome.write(tmp_path, config, meta, after, shown[1:], {'step': 1})
  results = json.loads((tmp_path / 'results.json').read_text())
  assert results['before'] == before and results['after'] == after
  assert results['wall_seconds'] == 12.3 and results['compiles'] == {'step': 1}
  assert results['best'] == {'step': 2, 'success': 0.5}
  assert results['versions'].keys() >= {'python', 'jax', 'arl'}
  assert (tmp_path / 'curves.png').read_bytes()[:4] == b'\x89PNG'
  report = (tmp_path / 'report.html').read_text()
  assert shown[0].title not in report and shown[1].title in report
  assert results['config_hash'] in report


def test_results_are_there_once_all_else_is(tmp_path, monkeypatch):
  def broken(*args):
    raise OSError('the disk is full')

  monkeypatch.setattr(outcome.curves, 'curves', broken)
  (tmp_path / 'metrics.jsonl').write_text('')
  rate = {'success': 0.5, 'success_low': 0.1, 'success_high': 0.9}
  rates = {'sampled': {**rate, 'graded': 8, 'failed': 0}}
  config = tiny.config('model')
  meta = {**outcome.begin(config, 'abc'), 'before': rates, 'shown': []}
  with pytest.raises(OSError, match='full'):
    outcome.write(tmp_path, config, meta, rates, [], {})
  assert not (tmp_path / 'results.json').exists()


def test_pairs_are_of_one_task():
  a, b, c = (
    outcome.page.Transcript(title, [], 0.0, 'finished') for title in 'abc'
  )
  later = [each._replace(reward=1.0) for each in (c, a)]
  assert outcome._pairs([a, b, c], later) == [(a, later[1]), (c, later[0])]
