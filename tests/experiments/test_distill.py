"""Configs and studies of distillation: what they set, what they count."""

import numpy as np
import pytest
import tiny

from arl import episode, names
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, scripted, strategies
from arl.train import batch, build, choosing, score
from experiments import distill, self_distill, self_distill_sft
from experiments.studies import distillation, imitating, reaching, runs


@pytest.mark.parametrize('method', distill.DISTILLED)
def test_every_form_runs_with_a_teacher(method):
  config = distill.get_config(f'teacher=some/folder,method={method}')
  made = build.check(config)
  assert config.method.to_dict() == distill.DISTILLED[method]
  assert made.needs & score.TAUGHT
  assert config.model.teacher == 'some/folder'


@pytest.mark.parametrize('quick', ['', ',quick'])
def test_half_of_the_mixed_sequences_are_the_students(quick):
  """In every update of every batch, whatever the seed."""
  config, own = (
    distill.get_config(f'teacher=some/folder,method={method}{quick}')
    for method in ('gkd_mixed', 'gkd')
  )
  rows = [c.prompts.batch * c.prompts.samples for c in (config, own)]
  assert rows[0] == rows[1] and config.method == own.method
  env = build.named(config.env, 'arl.envs')
  chat = chat_lib.chat(tokenizers.characters())
  speaker = scripted.ScriptedEngine(lambda request: [9], 102)
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  select = names.resolve(config.prompts.select, 'arl.prompts')
  limits, samples = build.limits(config), config.prompts.samples
  for step in range(2):
    tasks = choosing.task_stream(config, env)(step)
    plan = strategies.Plan(samples, engine.Sampling(), limits, (0, step))
    groups = select(episode.groups(strategy(speaker, env, chat, tasks, plan)))
    for part in batch.updates(groups, config.updates.per_batch):
      shown = [one.extras['demonstrated'].all() for one in part]
      assert np.mean(shown) == 0.5 and len(part) == rows[0] // 2
      assert all(np.isfinite(one.logp).all() for one in part)


def test_the_study_is_about_known_forms():
  for forms in (distillation.FORMS, distillation.QUICK):
    assert set(forms) <= distill.DISTILLED.keys()
  assert set(distillation.DRAWN) - {'rewards'} <= set(distillation.FORMS)


@pytest.mark.parametrize('told', self_distill.TOLD)
@pytest.mark.parametrize('method', self_distill.METHODS)
def test_every_way_to_be_told_more(told, method):
  config = self_distill.get_config(f'told={told},method={method}')
  made = build.check(config)
  assert 'teacher_logp' in made.needs and not config.model.teacher
  read = 'reconsidering' in made.needs
  assert config.rollout.reconsidering == (self_distill.CHECKS if read else '')


def test_who_is_told_more():
  live, base, average = (
    self_distill.get_config(f'model=some/folder,teacher={teacher}')
    for teacher in self_distill.TEACHERS
  )
  for config, teacher, share in (
    (live, '', 0.0), (base, 'start', 0.0), (average, '', 0.05),
  ):  # fmt: skip
    build.check(config)
    assert (config.model.teacher, config.model.average) == (teacher, share)


def test_half_of_the_demonstrations_have_hints():
  config = self_distill_sft.get_config()
  env = build.named(config.env, 'arl.envs')
  prompts = [env.task('train', i).prompt for i in range(400)]
  share = np.mean([prompt.startswith('hint: ') for prompt in prompts])
  assert abs(share - 0.5) < 0.08


@pytest.mark.parametrize(
  'module, arg, words',
  [
    (distill, 'method=none', 'method=none: known are opd, opd_to_go, '),
    (distill, 'method=opdd', 'method=opdd: did you mean opd?'),
    (self_distill, 'told=all', 'told=all: known are answer, steps, success'),
    (self_distill, 'method=opd', 'method=opd: known are privileged, guarded'),
  ],
)
def test_arguments_that_mean_nothing(module, arg, words):
  with pytest.raises(ValueError, match=words):
    module.get_config(arg)


def test_tokens_to_a_success():
  rows = [
    {
      'train/tokens': 2.0,
      'train/graded': 10,
      'train/success': success,
      'wall': 1.0,
    }
    for success in (0.9, 0.1, 0.1, 0.1, 0.5, 0.5, 0.9)
  ]
  for success, tokens in ((0.3, 80), (0.4, 140), (0.5, 140), (0.9, None)):
    moment = reaching.reached(rows, success)
    assert (moment and moment.tokens) == tokens
  assert reaching.reached(rows[:3], 0.0) is None


def test_what_was_measured_is_kept(tmp_path):
  run = runs.Run('', '', tmp_path)
  assert runs.kept(run, 'apart', lambda: {'kl': 0.5}) == {'kl': 0.5}
  assert runs.kept(run, 'apart', lambda: {'kl': 0.9}) == {'kl': 0.5}


def test_what_cannot_be_written_down_is_not_imitated():
  said = lambda *texts: tuple(
    episode.Exchange(text, episode.Turn('')) for text in texts
  )
  (group, other) = episode.groups(tiny.episodes(2, 2))
  right, wrong = (
    e._replace(exchanges=x)
    for e, x in zip(
      group.episodes, (said('get(a)'), said('get(a)', '<|tool|>'))
    )
  )
  silent = [e._replace(exchanges=said(' ')) for e in other.episodes]
  made = imitating.spoken(
    [
      group._replace(episodes=[right, wrong]),
      other._replace(episodes=silent),
    ]
  )
  assert made == [group._replace(episodes=[right])]


def test_the_gap_to_the_teacher_whatever_the_loss_is_called():
  for name in ('policy/teacher_gap', 'matched/teacher_gap'):
    row = {'step': 3, name: 0.25, 'train/success': 1.0}
    assert distillation.gap(row) == {'step': 3, distillation.KL: 0.25}
