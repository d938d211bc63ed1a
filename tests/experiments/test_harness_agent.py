"""The agent of the harness experiment: its tools, and its episodes."""

import numpy as np

from arl import episode, names
from arl.envs import base, tools
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, harness, scripted, strategies
from experiments import harness_agent
from experiments.agents import tool_user


def test_its_tools_answer_as_the_environment_does():
  env = tools.make()
  for index in range(30):
    task = env.task(base.TRAIN, index)
    state = env.reset(task)
    for written in task.data['plan']:
      name, _, asked = written.rstrip(')').partition('(')
      key = {'get': 'key', 'calc': 'expression'}[name]
      state, turn = env.step(state, written)
      mine = tool_user.use(name, {key: asked}, task.data['records'])
      assert mine == turn.text
  assert tool_user.use('get', {'key': 'abc.pin'}, {}).startswith('error: no')
  assert tool_user.use('calc', {'expression': '1+'}, {}).startswith('error:')


def test_it_plays_as_the_environment_does_in_process():
  """Token for token: what an agent over HTTP adds is nothing."""
  config = harness_agent.get_config()
  block = config.env.to_dict()
  env = names.resolve(block.pop('name'), 'arl.envs')(**block)
  chat = chat_lib.chat(tokenizers.characters())
  tasks = [env.task(base.TRAIN, index) for index in range(4)]

  def says(request):
    _, _, place, sample, turn = request.path
    told = tasks[place].data
    right = [*told['plan'], f'={told["answer"]}']
    wrong = ['get(abc.pin)', '=000']
    return chat.action([right, wrong][sample][turn])[:-1]

  limits = strategies.Limits(5, 24, 128, 128)
  plan = strategies.Plan(2, engine.Sampling(), limits, (0, 0))
  speaker = scripted.ScriptedEngine(says, vocab=101)
  inside = strategies.multi_turn(speaker, env, chat, tasks, plan)
  outside = harness.rollouts(speaker, env, chat, tasks, plan)
  for a, b in zip(inside, outside, strict=True):
    assert (a.task, a.sample, a.status, a.row) == (
      b.task,
      b.sample,
      b.status,
      b.row,
    )
    for name in ('tokens', 'mask', 'logp', 'rewards', 'turn'):
      np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
    np.testing.assert_array_equal(
      a.extras['rollout_version'], b.extras['rollout_version']
    )
  assert {episode.total_reward(one) for one in outside} == {0.0, 1.0}
