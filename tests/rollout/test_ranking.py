"""Rankings of proposals: by likelihood, and by what the policy answers."""

import numpy as np
import pytest

from arl import episode
from arl.models import tokenizers
from arl.rollout import chat, engine, ranking, scripted, strategies

TOKENIZER = tokenizers.characters()
CHAT = chat.chat(TOKENIZER, observation_role='user')
LIMITS = strategies.Limits(3, turn_tokens=24, context=400, response_tokens=99)
PLAN = strategies.Plan(2, engine.Sampling(temperature=0.7), LIMITS, (5,))


def ids(text):
  return TOKENIZER.encode(text, add_special_tokens=False)


def action(text, logp=(-1.0,)):
  n = len(logp)
  tokens = [*ids(text), *CHAT.stop]
  zeros = np.zeros(n, np.int32)
  logp = np.array(logp, np.float32)
  return engine.Sample(np.array(tokens), logp, engine.STOP, zeros)


def question(*actions, done=()):
  task = episode.Task('t', 'find b', {}, 'rules')
  row = strategies.Live(task, 0, (5, 0, 0))
  row.exchanges += done
  return ranking.Question(row, actions, (5, 0, 0, 4, 0))


def asked(answer, *questions, plan=PLAN):
  """What the critic's answers are read as, and its requests."""
  speaker = scripted.ScriptedEngine(lambda request: ids(answer), vocab=102)
  orders = ranking.by_critic(speaker, CHAT, questions, plan)
  return orders, speaker.calls


def test_by_the_mean_and_not_the_sum():
  short, long = action('a', [-1.0]), action('b', [-0.6, -0.6, -0.6])
  orders = ranking.by_likelihood(
    scripted.ScriptedEngine(lambda _: [], 8), CHAT,
    [question(short, long), question(long, short), question(long, long)], PLAN,
  )  # fmt: skip
  assert orders == [[1, 0], [0, 1], [0, 1]]


def test_the_critic_is_told_the_history_and_the_proposals():
  done = [episode.Exchange('go a', episode.Turn('you see b'))]
  each = question(action('go b'), action('take'), action('go c'), done=done)
  orders, (request,) = asked('2 > 3 > 1', each)
  assert orders == [[1, 2, 0]]
  text = TOKENIZER.decode(request.tokens)
  parts = (
    'rules',
    'find b\n> go a\nyou see b\n',
    '1. go b\n2. take\n3. go c\n',
    'such as 3 > 2 > 1.',
  )
  places = [text.index(part) for part in parts]
  assert places == sorted(places)
  assert request.path == each.path and request.max_tokens == 24


@pytest.mark.parametrize(
  'answer, order',
  [
    ('2 > 1', [1, 0]),
    ('1, 2', [0, 1]),
    ('I take 1.\nSo: 2 > 1\nThat is all', [1, 0]),
    ('1 > 2 > 1', None),
    ('2', None),
    ('2 > 3', None),
    ('0 > 1', None),
    ('12', None),
    ('none of them', None),
    ('', None),
  ],
)
def test_an_answer_is_a_ranking_of_all_or_none(answer, order):
  assert ranking.read(answer, 2) == order


def test_what_cannot_be_asked_is_not_ranked():
  plain = question(action('a'), action('b'))
  strange = question(action('a'), action('b'))
  strange.row.task = episode.Task('t', 'find ☃', {})
  orders, calls = asked('2 > 1', strange, plain)
  assert orders == [None, [1, 0]] and len(calls) == 1
  narrow = PLAN._replace(limits=LIMITS._replace(context=100))
  assert asked('2 > 1', plain, plan=narrow) == ([None], [])
