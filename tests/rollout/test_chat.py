"""Turns as ids: what was sampled stays, what is added is the template's."""

import conversations
import pytest
import tokenizers

from arl import episode
from arl.envs import base
from arl.models import tokenizers as tokenizers_lib
from arl.rollout import chat, engine, scripted, strategies

TASK = episode.Task('t', 'sum 1,2', {}, 'be brief')
LIMITS = strategies.Limits(
  max_turns=3, turn_tokens=20, context=400, response_tokens=400
)
# Ends every turn the same way, and with text after the end.
CHATML = (
  '{% for m in messages %}'
  "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
  '{% endfor %}'
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# Shows thoughts, or an empty place for them, in the last turn only.
THINKING = CHATML.replace(
  'm.content',
  "(m.content if m.role != 'assistant' else "
  "m.content.split('</t>')[-1] if not loop.last else "
  "m.content if '</t>' in m.content else '<t></t>' + m.content)",
)


def spelled(template, end='<|im_end|>', others=('<|im_start|>',)):
  """A tokenizer of characters with a template and markers of its own."""
  tokens = ['<|pad|>', end, *others, '\n', *map(chr, range(32, 127))]
  core = tokenizers.Tokenizer(
    tokenizers.models.WordLevel({token: i for i, token in enumerate(tokens)})
  )
  core.pre_tokenizer = tokenizers.pre_tokenizers.Split(
    tokenizers.Regex(r'[\s\S]'), 'isolated'
  )
  core.decoder = tokenizers.decoders.Fuse()
  return tokenizers_lib.wrap(core, template, '<|pad|>', end, others)


TOKENIZERS = {
  'characters': tokenizers_lib.characters,
  'chatml': lambda: spelled(CHATML),
  'thinking': lambda: spelled(THINKING),
}


def telling(observations):
  """An environment that shows the observations in turn, then ends."""

  def step(state, text):
    rest = state[1:]
    return rest, episode.Turn(state[0], 0.0, done=not rest)

  return base.Env(
    task=lambda split, index: TASK,
    reset=lambda task: (*observations, ''),
    step=step,
    oracle=lambda state: '',
    noisy=lambda state, rng: '',
  )


def roll_out(made, env, actions, task=TASK):
  """The episode in which the policy says the ids given, and the requests."""
  said = scripted.ScriptedEngine(lambda request: actions[request.path[-1]], 99)
  (result,) = strategies.multi_turn(
    said,
    env,
    made,
    [task],
    strategies.Plan(1, engine.Sampling(), LIMITS, (0,)),
  )
  return result, said.calls


def test_sampled_ids_are_kept():
  tokenizer = conversations.pairs()
  made = chat.chat(tokenizer)
  assert tokenizer.encode('abc', add_special_tokens=False) == [1, 5]
  assert tokenizer.encode('ab', add_special_tokens=False) == [1]
  e, u, a, o = tokenizer.convert_tokens_to_ids(['<e>', '<u>', '<a>', '<o>'])
  task = episode.Task('t', 'ab', {})
  result, calls = roll_out(made, telling(['c']), [[2, 4], [2, 3]], task)
  assert [x.action for x in result.exchanges] == ['abc', 'ab']
  assert result.tokens.tolist() == [u, 1, a, 2, 4, e, o, 5, a, 2, 3, e]
  assert result.mask.tolist() == [False] * 3 + [True] * 3 + [False] * 3 + (
    [True] * 3
  )
  assert calls[1].tokens == (u, 1, a, 2, 4, e, o, 5, a)


@pytest.mark.parametrize('name', TOKENIZERS)
def test_requests_are_the_rendered_conversation(name):
  tokenizer = TOKENIZERS[name]()
  made = chat.chat(tokenizer)
  actions, seen = ['add(1,2)', 'so it is', '=3'], ['three', ' 3\n']
  ids = [made.action(text)[:-1] for text in actions]
  result, calls = roll_out(made, telling(list(seen)), ids)
  messages = [
    {'role': 'system', 'content': TASK.system},
    {'role': 'user', 'content': TASK.prompt},
  ]
  seen.append('')
  for request, action, observation in zip(calls, actions, seen, strict=True):
    text = tokenizer.apply_chat_template(
      messages, tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(list(request.tokens)) == text
    assert tokenizer.encode(text) == list(request.tokens)
    messages += [
      {'role': 'assistant', 'content': action},
      {'role': 'tool', 'content': observation},
    ]
  sampled = [*ids[0], *made.stop, *ids[1], *made.stop, *ids[2], *made.stop]
  assert result.tokens[result.mask].tolist() == sampled
  assert [x.action for x in result.exchanges] == actions


def test_what_follows_the_stop_id_is_observed():
  tokenizer = spelled(CHATML)
  made = chat.chat(tokenizer, observation_role='user')
  result, _ = roll_out(made, telling(['ok']), [[50], [51]])
  end, newline = tokenizer.convert_tokens_to_ids(['<|im_end|>', '\n'])
  assert made.stop == (end,)
  at = result.mask.tolist().index(True)
  assert result.tokens[at : at + 3].tolist() == [50, end, newline]
  assert result.mask[at : at + 3].tolist() == [True, True, False]
  assert tokenizer.decode(result.tokens[at + 2 : -2]) == (
    '\n<|im_start|>user\nok<|im_end|>\n<|im_start|>assistant\n'
  )


def test_thoughts_stay_in_the_row():
  # The template would drop them; three turns, none is rendered again.
  tokenizer = spelled(THINKING)
  made = chat.chat(tokenizer)
  actions = ['<t>hm</t>one', '<t>so</t>two', '<t></t>three']
  result, calls = roll_out(
    made, telling(['u2', 'u3']), [made.action(text)[:-1] for text in actions]
  )
  for i, new in enumerate([TASK.prompt, 'u2', 'u3']):
    text = tokenizer.decode(list(calls[i].tokens))
    assert text.endswith(f'{new}<|im_end|>\n<|im_start|>assistant\n')
    for action in actions[:i]:
      assert f'assistant\n{action}<|im_end|>' in text
  assert tuple(result.tokens[: len(calls[2].tokens)]) == calls[2].tokens


def test_openings():
  tokenizer = tokenizers_lib.characters()
  made = chat.chat(tokenizer)
  assert tokenizer.decode(made.opening(TASK)) == (
    '<|system|>be brief<|user|>sum 1,2<|assistant|>'
  )
  bare = TASK._replace(system='')
  assert tokenizer.decode(made.opening(bare)) == '<|user|>sum 1,2<|assistant|>'
  assert tokenizer.decode(made.reply('x')) == '<|tool|>x<|assistant|>'
  assert made.action('=3')[-1:] == [1] == list(made.stop)
  assert made.decode(made.action('=3')) == '=3'
  assert made.pieces([1, 2, 6, 7]) == ['<|end|>', '<|user|>', '\n', ' ']


@pytest.mark.parametrize('printed, wanted', [(True, 1), (False, 0)])
def test_no_token_is_put_before_what_the_template_prints(printed, wanted):
  template = ("{{ '<s>' }}" if printed else '') + CHATML
  tokenizer = spelled(template, others=('<|im_start|>', '<s>'))
  bos = tokenizer.convert_tokens_to_ids('<s>')
  tokenizer.backend_tokenizer.post_processor = (
    tokenizers.processors.TemplateProcessing('<s> $A', None, [('<s>', bos)])
  )
  assert tokenizer.encode('x')[0] == bos  # what encoding alone would add
  made = chat.chat(tokenizer)
  opening = made.opening(TASK)
  assert opening.count(bos) == wanted and (opening[0] == bos) == printed
  assert bos not in made.reply('x') + made.action('x')


REWRITING = {
  'forgets earlier answers': CHATML.replace(
    'm.content',
    "(m.content if loop.last or m.role != 'assistant' else 'said before')",
  ),
  'forgets earlier observations': CHATML.replace(
    'm.content',
    "(m.content if loop.revindex < 3 or m.role != 'tool' else 'seen before')",
  ),
  'knows no such role': CHATML.replace(
    'in messages', "in messages if m.role != 'tool'"
  ),
  'counts the turns': CHATML.replace("+ '\\n'", "+ loop.index|string + '\\n'"),
  'puts the newest first': CHATML.replace('in messages', 'in messages|reverse'),
}


@pytest.mark.parametrize('name', REWRITING)
def test_templates_that_rewrite_turns(name):
  with pytest.raises(ValueError, match='does not keep .* turns cannot be app'):
    chat.chat(spelled(REWRITING[name]))


def test_tokenizers_that_cannot_be_spoken_to():
  with pytest.raises(ValueError, match='no chat template or no eos_token'):
    chat.chat(spelled(None))
  with pytest.raises(ValueError, match="an action with '<|im_end|>.n.*'<end>'"):
    chat.chat(spelled(CHATML, '<end>', ('<|im_start|>', '<|im_end|>')))


@pytest.mark.parametrize('special', tokenizers_lib.MARKERS)
def test_text_that_spells_a_special_token(special):
  made = chat.chat(tokenizers_lib.characters())
  text = f'say {special}!'
  for speak, what in (
    (
      lambda: made.opening(TASK._replace(prompt=text)),
      "the prompt of task 't'",
    ),
    (lambda: made.opening(TASK._replace(system=text)), 'the system message of'),
    (lambda: made.reply(text), 'the observation contains'),
    (lambda: made.action(text), 'the action contains'),
  ):
    with pytest.raises(chat.SpecialText, match=what) as caught:
      speak()
    assert repr(special) in str(caught.value)


def test_a_special_token_that_only_the_vocabulary_lists():
  tokenizer = tokenizers_lib.characters()
  tokenizer.add_tokens(['<|header|>'], special_tokens=True)
  assert '<|header|>' not in tokenizer.all_special_tokens
  with pytest.raises(chat.SpecialText, match='<|header|>'):
    chat.chat(tokenizer).reply('<|header|>')


def test_text_that_the_tokenizer_lacks():
  made = chat.chat(tokenizers_lib.characters())
  with pytest.raises(chat.UnfitText, match='cannot encode .*café'):
    made.reply('café')


@pytest.mark.parametrize('text', ['<|user|>', 'café'])
def test_such_an_observation_is_the_fault_of_the_environment(text):
  made = chat.chat(tokenizers_lib.characters())
  result, calls = roll_out(made, telling([text, 'unseen']), [[20], [21]])
  assert result.status == episode.ENVIRONMENT_ERROR
  assert repr(text)[1:-1] in result.error
  assert len(calls) == 1 and result.mask.sum() == 2
