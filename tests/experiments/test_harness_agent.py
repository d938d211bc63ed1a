"""The agent of the harness experiment: its tools, and a step of training."""

import json

from arl.envs import base, tools
from arl.train import loop
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


def test_a_step_of_training(tmp_path, compiled_once):
  del compiled_once
  config = harness_agent.get_config('quick')
  config.model.update(path='', size='quick')
  config.steps = 1
  config.prompts.update(batch=2, samples=2)
  config.eval.update(every=1, tasks=2, final_tasks=2)
  loop.train(config, tmp_path)
  row = json.loads((tmp_path / 'metrics.jsonl').read_text())
  assert row['step'] == 1 and row['train/episodes'] == 4
  assert row['train/environment_error'] == row['train/reward_error'] == 0
