"""Episodes whose prompts are rendered anew: rows where turns are rewritten."""

import conversations
import numpy as np
import pytest

from arl import episode
from arl.envs import base, tools
from arl.models import tokenizers
from arl.rollout import chat, engine, pack, rendered, scripted, strategies

LIMITS = strategies.Limits(
  max_turns=4, turn_tokens=40, context=400, response_tokens=400
)


def telling(*observations):
  """An environment that shows the observations in turn, then ends."""

  def step(state, text):
    done = len(state) == 1
    return state[1:], episode.Turn(state[0], 0.5 if done else 0.25, done)

  return base.Env(
    task=lambda split, index: episode.Task(str(index), 'begin', {}, 'be kind'),
    reset=lambda task: (*observations, ''),
    step=step,
    oracle=lambda state: '',
    noisy=lambda state, rng: '',
  )


def roll_out(
  strategy, made, env, says, *, limits=LIMITS, samples=1, tasks=None
):
  def said(request):
    text = says[request.path[-1]] if isinstance(says, tuple) else says(request)
    return made.tokenizer.encode(text, add_special_tokens=False)

  return strategy(
    scripted.ScriptedEngine(said, 99),
    env,
    made,
    tasks or [env.task(base.TRAIN, 0)],
    strategies.Plan(samples, engine.Sampling(), limits, (0, 3)),
  )


def test_thoughts_are_stripped_as_the_template_strips_them():
  tokenizer = conversations.family('thinking')
  made = chat.chat(tokenizer, observation_role='user')
  says = ('<think>a</think>one', 'two', '<think>b</think>three', 'four')
  env = telling('u2', 'u3', 'u4')
  episodes = roll_out(rendered.multi_turn, made, env, says)
  texts = [tokenizer.decode(e.tokens[e.mask]) for e in episodes]
  assert texts == [
    f'{says[0]}<|im_end|>',
    f'{says[1]}<|im_end|>{says[2]}<|im_end|>',
    f'{says[3]}<|im_end|>',
  ]
  assert [e.row for e in episodes] == [0, 1, 2]
  assert [e.rewards.sum() for e in episodes] == [0.25, 0.5, 0.5]
  assert {e.status for e in episodes} == {episode.FINISHED}
  last = tokenizer.decode(episodes[-1].tokens)
  assert 'think' not in last and 'assistant\none<|im_end|>' in last
  turns = [np.unique(e.turn[e.mask]).tolist() for e in episodes]
  assert turns == [[0], [1, 2], [3]]


def test_its_rows_are_packed_as_one_sequence():
  made = chat.chat(conversations.family('thinking'), observation_role='user')
  says = ('<think>a</think>one', '<think>b</think>two', 'three')
  episodes = roll_out(rendered.multi_turn, made, telling('u2', 'u3'), says)
  batch = pack.pack(episodes, rows=3, width=400, max_turns=4)
  filled = batch.segments > 0
  assert len(episodes) == 3
  assert set(np.asarray(batch.seq.ids)[filled]) == {0}
  assert set(np.asarray(batch.turn.ids)[batch.mask]) == {0, 1, 2}
  assert batch.rewards.sum() == sum(e.rewards.sum() for e in episodes) == 1.0


def test_where_turns_are_kept_it_is_the_other_strategy():
  made = chat.chat(tokenizers.characters())
  env = tools.make()
  tasks = [env.task(base.TRAIN, index) for index in range(4)]

  def says(request):
    _, _, place, sample, turn = request.path
    told = tasks[place].data
    right = [*told['plan'], f'={told["answer"]}']
    return [right, ['get(x', 'get(abc.pin)', '=1' * 30]][sample][turn]

  how = {'samples': 2, 'tasks': tasks}
  kept = roll_out(strategies.multi_turn, made, env, says, **how)
  anew = roll_out(rendered.multi_turn, made, env, says, **how)
  for a, b in zip(kept, anew, strict=True):
    assert (a.task, a.sample, a.status) == (b.task, b.sample, b.status)
    for name in ('tokens', 'mask', 'logp', 'rewards', 'turn'):
      np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
  assert {e.status for e in anew} == {episode.FINISHED, episode.MAX_TOKENS}


@pytest.mark.parametrize(
  'how, status',
  [
    ({'max_turns': 2}, episode.MAX_TURNS),
    ({'turn_tokens': 2}, episode.MAX_TOKENS),
    ({'response_tokens': 5}, episode.MAX_TOKENS),
    ({'context': 130}, episode.MAX_TOKENS),
  ],
)
def test_limits(how, status):
  made = chat.chat(conversations.family('chatml'))
  env = telling(*['x' * 9] * 9)
  limits = LIMITS._replace(**how)
  episodes = roll_out(
    rendered.multi_turn, made, env, ('go',) * 9, limits=limits
  )
  (one,) = episodes
  assert one.status == status and len(one.tokens) <= limits.context
  assert one.mask.sum() <= limits.response_tokens


def test_what_breaks():
  made = chat.chat(conversations.family('chatml'))
  (one,) = roll_out(
    rendered.multi_turn, made, telling('<|im_end|>'), ('go',) * 9
  )
  assert one.status == episode.ENVIRONMENT_ERROR and 'im_end' in one.error

  def broken(task):
    raise OSError('no disk')

  env = telling('x')._replace(reset=broken)
  (one,) = roll_out(rendered.multi_turn, made, env, ('go',) * 9)
  assert one.status == episode.ENVIRONMENT_ERROR and 'no disk' in one.error
  for error, status in (
    (base.RewardFailure('?'), episode.REWARD_ERROR),
    (OSError('?'), episode.ENVIRONMENT_ERROR),
  ):

    def fails(state, text, error=error):
      raise error

    env = telling('x')._replace(step=fails)
    (one,) = roll_out(rendered.multi_turn, made, env, ('go',) * 9)
    assert one.status == status
  with pytest.raises(ValueError, match="task '0': its prompt has .* no room"):
    limits = LIMITS._replace(context=20)
    roll_out(rendered.multi_turn, made, telling('x'), ('go',), limits=limits)
