"""Recorded answers as episodes: ids, masks, rewards, what is refused."""

import conversations
import numpy as np
import pytest

from arl import episode
from arl.models import tokenizers
from arl.rollout import chat, engine, recorded, scripted, strategies

LIMITS = strategies.Limits(1, 8, 64, 64)
USER = [{'role': 'user', 'content': 'Why?'}]


def said(text):
  return {'role': 'assistant', 'content': text}


def task(name='some:1', **data):
  return episode.Task(
    name, 'Why?', {'name': name, 'messages': USER, 'tools': [], **data}
  )


PAIR = task(chosen=said('So.'), rejected=said('No!!'))


@pytest.fixture(scope='module')
def made():
  return chat.chat(tokenizers.characters())


def run(strategy, made, *tasks, samples=2, limits=LIMITS):
  return strategy(
    scripted.ScriptedEngine(lambda request: [], 2),  # it is not asked
    None,
    made,
    tasks,
    strategies.Plan(samples, engine.Sampling(), limits, (0,)),
  )


def text(made, one):
  return ''.join(made.pieces(one.tokens))


def test_a_pair_is_two_episodes(made):
  chosen, rejected = run(recorded.pairs, made, PAIR)
  assert text(made, chosen) == '<|user|>Why?<|assistant|>So.<|end|>'
  assert text(made, rejected) == '<|user|>Why?<|assistant|>No!!<|end|>'
  assert chosen.mask.tolist() == [False] * 6 + [True] * 4
  assert np.isnan(chosen.logp[chosen.mask]).all()
  assert chosen.rewards.tolist() == [0] * 9 + [1]
  assert not rejected.rewards.any()
  assert [e.task.id for e in (chosen, rejected)] == ['some:1'] * 2
  assert [e.sample for e in (chosen, rejected)] == [0, 1]
  assert chosen.status == episode.FINISHED


def test_single_answers_and_the_next_ones(made):
  tasks = [
    task('some:1', completion=said('So.'), label=True),
    task('some:2', completion=said('No!'), label=False),
    task('some:3', completion=said('Hm.'), label=True),
  ]
  found = run(recorded.unpaired, made, *tasks)
  answers = [text(made, e).split('<|assistant|>')[1] for e in found]
  order = ('So.', 'No!', 'No!', 'Hm.', 'Hm.', 'So.')
  assert answers == [f'{a}<|end|>' for a in order]
  assert [episode.total_reward(e) for e in found] == [1, 0, 0, 0, 1, 0]
  marks = [set(e.extras['mismatched'].tolist()) for e in found]
  assert marks == [{False}, {True}] * 3
  assert len({e.task.id for e in found}) == 6


def test_a_template_with_calls():
  tokenizer = conversations.family('chatml')
  call = {
    'type': 'function',
    'id': 'a',
    'function': {'name': 'f', 'arguments': {'x': 1}},
  }
  tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]
  one = task(
    tools=tools, chosen={**said(''), 'tool_calls': [call]}, rejected=said('No.')
  )
  limits = LIMITS._replace(context=400)
  made = chat.chat(tokenizer, observation_role='user')
  chosen, _ = run(recorded.pairs, made, one, limits=limits)
  prompt, answer = (
    tokenizer.decode(chosen.tokens[mask])
    for mask in (~chosen.mask, chosen.mask)
  )
  assert '"name": "f"' in prompt
  assert answer == (
    '\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    '<|im_end|>'
  )


def refused(made, strategy, *tasks, **more):
  with pytest.raises(ValueError) as caught:
    run(strategy, made, *tasks, **more)
  return str(caught.value)


def test_records_are_refused_by_name(made):
  long = task(chosen=said('a' * 60), rejected=said('b'))
  assert refused(made, recorded.pairs, long) == (
    'some:1 has 67 tokens with its answer, but the context is 64; raise'
    ' rollout.context or drop the record.'
  )
  same = task(chosen=said('a'), rejected={**said('a'), 'name': 'me'})
  assert 'some:1: chosen and rejected are the same' in refused(
    made, recorded.pairs, same
  )
  special = task(chosen=said('a<|end|>'), rejected=said('b'))
  assert refused(made, recorded.pairs, special).startswith('some:1, chosen: ')
  strange = task(chosen=said('\u00e9'), rejected=said('b'))
  assert refused(made, recorded.pairs, strange).startswith('some:1, chosen: ')
  field = task(chosen={**said('a'), 'mood': 1}, rejected=said('b'))
  assert 'mood' in refused(made, recorded.pairs, field)
  single = task(completion=said('a'), label=True)
  assert "some:1 has no 'chosen'" in refused(made, recorded.pairs, single)


def test_batches_are_refused(made):
  single = task(completion=said('a'), label=True)
  assert 'is alone in its batch' in refused(made, recorded.unpaired, single)
  for strategy in (recorded.pairs, recorded.unpaired):
    message = refused(made, strategy, PAIR, samples=4)
    assert 'prompts.samples is 4; set it to 2' in message
