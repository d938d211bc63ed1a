"""Known faults of ids and text: what was sampled is what is trained on."""

import contextlib
import json

import conversations
import httpx
import hypothesis
import hypothesis.strategies as st
import numpy as np
import plain
import pytest

from arl import episode
from arl.rollout import (
  chat,
  engine,
  loopback,
  proxy,
  record,
  rows,
  scripted,
  strategies,
  templates,
)
from arl.rollout.proxy import sampling

LIMITS = strategies.Limits(
  max_turns=999, turn_tokens=400, context=9000, response_tokens=9000
)
# Shows what the assistant thought in the last turn only.
STRIPS = (
  '{% for m in messages %}'
  "{% if m.role == 'user' %}{{ 'U:' + m.content + ';' }}"
  "{% else %}{{ 'A:' + (m.content if loop.last else"
  " m.content.split('</think>')[-1]) + ';' }}{% endif %}"
  '{% endfor %}'
  "{% if add_generation_prompt %}{{ 'A:' }}{% endif %}"
)


def talk(tokenizer, world, said):
  """The episode in which the policy says texts or ids, and the requests."""
  spelt = [
    tokenizer.encode(each, add_special_tokens=False)
    if isinstance(each, str)
    else each
    for each in said
  ]
  policy = scripted.ScriptedEngine(lambda r: spelt[r.path[-1]], 999)
  plan = strategies.Plan(1, engine.Sampling(), LIMITS, (0,))
  made = chat.chat(tokenizer, observation_role='user')
  (one,) = strategies.multi_turn(policy, world, made, [plain.task('u1')], plan)
  return one, [list(r.tokens) for r in policy.calls], spelt


def test_09_what_a_template_would_strip_stays_and_news_are_sent():
  tokenizer = conversations.spelled(STRIPS, (';',))
  thought = '<think>t</think>ans'
  render = lambda messages, **how: tokenizer.apply_chat_template(
    messages, tokenize=False, **how
  )
  user, said = {'role': 'user'}, {'role': 'assistant', 'content': thought}
  first = render([{**user, 'content': 'u1'}, said])
  second = render([{**user, 'content': 'u1'}, said, {**user, 'content': 'u2'}])
  assert (len(first), len(second)) == (27, 16) and second[27:] == ''
  world = plain.env('u2', 'u3')
  one, asked, spelt = talk(tokenizer, world, [thought, thought, 'ans'])
  texts = [tokenizer.decode(ids) for ids in asked]
  for text, told in zip(texts, ['u1', 'u2', 'u3'], strict=True):
    assert text.endswith(f'U:{told};A:')
  assert texts[2].count('<think>t</think>') == 2
  end = [tokenizer.eos_token_id]
  assert one.tokens[one.mask].tolist() == sum((s + end for s in spelt), [])


words = st.text('ab <>/thinks', min_size=1, max_size=12)


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.lists(st.tuples(st.booleans(), words, words), min_size=2, max_size=5)
)
def test_09_a_row_grows_and_never_changes(turns):
  """Of any words, thoughts or none: each request extends the one before."""
  tokenizer = conversations.spelled(STRIPS, (';',))
  said = [f'<think>{s}</think>{s}' if t else s for t, s, _ in turns]
  seen = [f'news {i} {o}' for i, (_, _, o) in enumerate(turns[1:])]
  one, asked, spelt = talk(tokenizer, plain.env(*seen), said)
  end = [tokenizer.eos_token_id]
  for i, told in enumerate(seen):
    before, after = asked[i] + spelt[i] + end, asked[i + 1]
    assert after[: len(before)] == before
    assert tokenizer.decode(after[len(before) :]) == f'U:{told};A:'
  assert one.tokens[one.mask].tolist() == sum((s + end for s in spelt), [])


class Agent:
  """An agent of plain HTTP, in front of a policy that says given texts."""

  def __init__(self, tokenizer):
    self.tokenizer, self.said, self.next = tokenizer, [], []
    self.script = conversations.Script(lambda request: self.next)
    self.rollout = record.Rollout('k', episode.Task('t', '', {}), 0, (0,))
    settings = sampling.Settings(
      templates.of(tokenizer), 'hermes', engine.Sampling(), LIMITS
    )
    self.app = proxy.Proxy(self.script, settings, {'k': self.rollout}).app

  def post(self, path, **body):
    return httpx.post(f'{self.url}/rollouts/k/{path}', json=body)

  def hear(self, says, tools=()):
    self.next = self.tokenizer.encode(says, add_special_tokens=False)
    body = {'model': 'm', 'messages': self.said, 'tools': list(tools)}
    made = self.post('v1/chat/completions', **body)
    assert made.status_code == 200, made.text
    self.said.append(made.json()['choices'][0]['message'])
    return self.tokenizer.decode(list(self.script.calls[-1].tokens))

  def rows(self):
    self.post('reward', reward=1.0)
    record.close(self.rollout)
    return rows.of(self.rollout)


@contextlib.contextmanager
def agent(tokenizer):
  made = Agent(tokenizer)
  with loopback.served(made.app) as made.url:
    yield made


# template, how often what was told and what the policy says to it
LOOPS = {
  'thoughts': (
    'thinking',
    [
      ('user', '<think>t</think>one'),
      ('user', '<think>so</think>two'),
      ('user', 'three'),
    ],
  ),
  'an empty wrapper': (
    'silent',
    [('user', 'one'), ('user', 'two'), ('user', 'three')],
  ),
  'a reminder in a loop of tools': (
    'thinking',
    [
      ('user', '<think>t</think>one'),
      ('tool', '<think>so</think>two'),
      ('user', 'three'),
    ],
  ),
}


@pytest.mark.parametrize('name', LOOPS)
def test_09_a_rewritten_turn_begins_a_row_of_its_own(name):
  family, turns = LOOPS[name]
  with agent(conversations.family(family)) as one:
    for i, (role, says) in enumerate(turns):
      one.said.append({'role': role, 'content': f'news {i}'})
      asked = one.hear(says)
      assert asked.count(f'news {i}') == 1
    trained = [ids for e in one.rows() for ids in e.tokens[e.mask].tolist()]
    end = [one.tokenizer.eos_token_id]
    spelt = [
      one.tokenizer.encode(says, add_special_tokens=False) + end
      for _, says in turns
    ]
  assert trained == sum(spelt, [])


@pytest.mark.parametrize(
  'ids, text, again',
  [([2, 4], 'abc', [1, 5]), ([2, 3], 'ab', [1])],
  ids=['same length', 'shorter'],
)
def test_11_sampled_ids_reach_the_trainer_as_they_are(ids, text, again):
  tokenizer = conversations.pairs()
  assert tokenizer.decode(ids) == text
  assert tokenizer.encode(text, add_special_tokens=False) == again
  policy = scripted.ScriptedEngine(lambda request: ids, 9)
  plan = strategies.Plan(1, engine.Sampling(), LIMITS, (0,))
  made = chat.chat(tokenizer, observation_role='user')
  (one,) = strategies.multi_turn(
    policy, plain.env('c'), made, [plain.task('ab')], plan
  )
  end = tokenizer.eos_token_id
  batch = plain.columns([one])
  assert batch['tokens'][batch['mask']].tolist() == [*ids, end, *ids, end]
  first, second = policy.calls
  n = len(first.tokens)
  assert second.tokens[n : n + 3] == (*ids, end)
  assert [x.action for x in one.exchanges] == [text, text]


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_11_any_ids_come_through(ids):
  tokenizer = conversations.pairs()
  policy = scripted.ScriptedEngine(lambda request: ids, 9)
  plan = strategies.Plan(1, engine.Sampling(), LIMITS, (0,))
  made = chat.chat(tokenizer, observation_role='user')
  (one,) = strategies.multi_turn(
    policy, plain.env(), made, [plain.task('ab')], plan
  )
  batch = plain.columns([one])
  kept = batch['tokens'][batch['mask']].tolist()
  assert kept == [*ids, tokenizer.eos_token_id]
  assert np.count_nonzero(batch['rollout_logp']) == len(kept)


BOS = '<s>'
TOOL = {'type': 'function', 'function': {'name': 'get', 'parameters': {}}}


def beginning(*, printed, known):
  """A tokenizer that begins texts with a token, if known, as a template may."""
  template = (f"{{{{ '{BOS}' }}}}" if printed else '') + conversations.CHATML
  marks = (*conversations.CHATML_MARKS, BOS)
  return conversations.spelled(template, marks, bos=BOS if known else '')


@pytest.mark.parametrize('printed', [True, False])
@pytest.mark.parametrize('known', [True, False])
def test_12_a_sequence_begins_once_everywhere(printed, known):
  tokenizer = beginning(printed=printed, known=known)
  bos = tokenizer.convert_tokens_to_ids(BOS)
  task = episode.Task('t', 'u1', {})
  rolled = chat.chat(tokenizer).opening(task)
  one, _, _ = talk(tokenizer, plain.env('u2'), ['a', 'b'])
  plan = strategies.Plan(1, engine.Sampling(), LIMITS, (1,))
  said = scripted.ScriptedEngine(lambda r: [9], 99)
  (evaluated,) = strategies.multi_turn(
    said, plain.env(), chat.chat(tokenizer), [task], plan
  )
  assert evaluated.tokens[: len(rolled)].tolist() == rolled
  for ids in (rolled, one.tokens.tolist()):
    assert ids.count(bos) == printed and (ids[0] == bos) == printed
  raw = chat.plain(tokenizer, 'some text')
  assert raw.count(bos) == known and (raw[0] == bos) == known


def test_12_a_template_that_begins_twice_is_refused():
  template = f"{{{{ '{BOS}{BOS}' }}}}" + conversations.CHATML
  marks = (*conversations.CHATML_MARKS, BOS)
  tokenizer = conversations.spelled(template, marks, bos=BOS)
  with pytest.raises(ValueError, match='more than once'):
    templates.of(tokenizer)


values = st.recursive(
  st.none()
  | st.booleans()
  | st.integers(-99, 99)
  | st.text('é"\\ {}a', max_size=5),
  lambda inner: st.lists(inner, max_size=3)
  | st.dictionaries(st.text('abé', min_size=1, max_size=3), inner, max_size=3),
  max_leaves=6,
)  # fmt: skip


def rendered(one, arguments):
  """What the policy is asked after a call that came from outside."""
  call = {'name': 'get', 'arguments': arguments}
  one.said = [
    {'role': 'user', 'content': 'q'},
    {
      'role': 'assistant',
      'content': None,
      'tool_calls': [{'id': 'c', 'type': 'function', 'function': call}],
    },
    {'role': 'tool', 'content': 'r', 'tool_call_id': 'c'},
  ]
  return one.hear('fine')


@pytest.mark.parametrize('family', ['chatml', 'thinking', 'llama'])
def test_13_arguments_are_printed_once_as_text_or_mapping(family):
  wanted = '{"n": 4, "tag": "é"}'
  with agent(conversations.family(family)) as one:
    texts = [rendered(one, x) for x in (wanted, json.loads(wanted))]
  assert texts[0] == texts[1]
  assert texts[0].count(wanted) == 1 and '\\' not in texts[0]


def test_13_any_arguments_print_alike():
  with agent(conversations.family('chatml')) as one:

    @hypothesis.settings(deadline=None, max_examples=15)
    @hypothesis.given(
      st.dictionaries(
        st.text('abé', min_size=1, max_size=3), values, max_size=3
      )
    )
    def alike(arguments):
      told = [arguments, json.dumps(arguments), json.dumps(arguments, indent=1)]
      first, *others = (rendered(one, each) for each in told)
      assert others == [first, first]
      printed = first.split('"arguments": ')[1].split('}\n</tool_call>')[0]
      assert json.loads(printed) == arguments

    alike()


def test_13_a_sampled_call_is_never_printed_anew():
  odd = '<tool_call>{"arguments" : {"key":"\\u00e9"}, "name":"get"}</tool_call>'
  with agent(conversations.family('chatml')) as one:
    one.said.append({'role': 'user', 'content': 'q'})
    one.hear(odd, [TOOL])
    (call,) = one.said[-1]['tool_calls']
    assert json.loads(call['function']['arguments']) == {'key': 'é'}
    one.said.append(
      {'role': 'tool', 'tool_call_id': call['id'], 'content': 'r'}
    )
    asked = one.hear('so', [TOOL])
  assert odd in asked and '{"key": "é"}' not in asked
