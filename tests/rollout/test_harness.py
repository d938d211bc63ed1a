"""Agents as programs of their own: what becomes of them, and of their rows."""

import os
import sys
import time

import pytest

from arl import episode
from arl.envs import base, outside, tools
from arl.models import tokenizers as tokenizers_lib
from arl.rollout import chat, engine, harness, scripted, strategies

CHAT = chat.chat(tokenizers_lib.characters())
LIMITS = strategies.Limits(
  max_turns=5, turn_tokens=24, context=128, response_tokens=128
)
TASKS = [tools.make().task(base.TRAIN, i) for i in range(2)]
# What every agent here begins with: a client that needs nothing but Python.
CLIENT = """
import json, os, sys, urllib.error, urllib.request
lines = [json.loads(line) for line in sys.stdin]

def post(path, body, key):
  base = os.environ['OPENAI_BASE_URL'] if path[0] != '/' else (
    os.environ['OPENAI_BASE_URL'].removesuffix('/v1'))
  request = urllib.request.Request(
    base + ('' if path[0] == '/' else '/') + path, json.dumps(body).encode(),
    {'authorization': 'Bearer ' + key, 'content-type': 'application/json'})
  return json.load(urllib.request.urlopen(request))

def ask(line, text):
  body = {'model': 'm', 'messages': [{'role': 'user', 'content': text}]}
  return post('chat/completions', body, line['key'])
"""


def agent(code, **how):
  """The environment of an agent that is this code."""
  path = f"{sys.executable} -c '{(CLIENT + code).replace(chr(39), chr(34))}'"
  return outside.make(
    of={'name': 'tools.make', 'max_hops': 0},
    command=path,
    syntax='positional',
    **how,
  )


def roll_out(env, says='=1', *, limits=LIMITS, tasks=TASKS, samples=2):
  said = says if callable(says) else lambda request: says
  speaker = scripted.ScriptedEngine(
    lambda request: CHAT.action(said(request))[:-1], vocab=101
  )
  episodes = harness.rollouts(
    speaker,
    env,
    CHAT,
    tasks,
    strategies.Plan(samples, engine.Sampling(), limits, (0, 3)),
  )
  return episodes, speaker


SAY = "for line in lines: ask(line, line['task']['prompt'])"


@pytest.mark.parametrize('episodes', [1, 3, 9])
def test_an_agent_of_one_question(episodes):
  right = lambda request: '=' + TASKS[request.path[2]].data['answer']
  made, speaker = roll_out(agent(SAY, episodes=episodes), right)
  order = [(one.task.id, one.sample) for one in made]
  assert order == [(task.id, s) for task in TASKS for s in range(2)]
  assert {one.status for one in made} == {episode.FINISHED}
  assert [episode.total_reward(one) for one in made] == [1.0] * 4
  asked = CHAT.opening(TASKS[0])
  assert made[0].tokens[: len(asked)].tolist() == asked
  paths = sorted(request.path for request in speaker.calls)
  assert paths == [(0, 3, p, s, 0) for p in range(2) for s in range(2)]


def test_the_answer_is_graded_by_the_environment():
  made, _ = roll_out(agent(SAY), '=wrong')
  assert [episode.total_reward(one) for one in made] == [0.0] * 4


def test_a_reward_that_the_agent_posts():
  code = (
    SAY
    + """
for line in lines:
  post('/rollouts/' + line['key'] + '/reward', {'reward': 0.25}, '')
"""
  )
  made, _ = roll_out(agent(code))
  assert [one.rewards[-1] for one in made] == [0.25] * 4


def test_nobody_tells_a_reward():
  env = agent(SAY)
  env = env._replace(harness=env.harness._replace(grade=None))
  made, _ = roll_out(env)
  assert {one.status for one in made} == {episode.REWARD_ERROR}


def test_a_grade_that_fails():
  def grade(task, said):
    raise OSError('no verifier')

  env = agent(SAY)
  env = env._replace(harness=env.harness._replace(grade=grade))
  made, _ = roll_out(env)
  assert {one.status for one in made} == {episode.REWARD_ERROR}
  assert made[0].error == 'OSError: no verifier'


def test_an_agent_that_crashes():
  code = (
    f"{SAY}\nif lines[0]['task']['id'].endswith('/1'): raise OSError('eek')"
  )
  made, _ = roll_out(agent(code))
  assert [one.status for one in made] == [
    *[episode.FINISHED] * 2,
    *[episode.ENVIRONMENT_ERROR] * 2,
  ]
  assert made[2].error.startswith('the agent ended with 1:\nTraceback')
  assert made[2].error.endswith('OSError: eek')


def test_an_agent_that_asks_nothing():
  made, _ = roll_out(agent('pass'), tasks=TASKS[:1], samples=1)
  assert made[0].status == episode.ENVIRONMENT_ERROR
  assert made[0].error == 'the agent made no call'


def test_an_agent_that_is_not_there():
  env = outside.make(of={'name': 'tools.make'}, command='no-such-agent')
  made, _ = roll_out(env, tasks=TASKS[:1], samples=1)
  assert made[0].status == episode.ENVIRONMENT_ERROR
  assert 'could not be started' in made[0].error


def test_an_agent_that_does_not_end(tmp_path):
  code = f"""
import subprocess, time
child = subprocess.Popen(['sleep', '60'])
open('{tmp_path}/pid', 'w').write(str(child.pid))
print('so far', file=sys.stderr, flush=True)
time.sleep(60)
"""
  began = time.monotonic()
  made, _ = roll_out(agent(code, seconds=6.0), tasks=TASKS[:1], samples=1)
  assert time.monotonic() - began < 40
  assert made[0].status == episode.ENVIRONMENT_ERROR
  assert made[0].error == 'the agent ran longer than 6.0 s:\nso far'
  child = int((tmp_path / 'pid').read_text())
  until = time.monotonic() + 5
  while _runs(child) and time.monotonic() < until:
    time.sleep(0.05)
  assert not _runs(child)


def _runs(pid):
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return False
  with open(f'/proc/{pid}/stat') as stat:  # it may wait to be reaped
    return stat.read().rpartition(')')[2].split()[0] != 'Z'


@pytest.mark.parametrize(
  'limits, status',
  [
    (LIMITS._replace(max_turns=2), episode.MAX_TURNS),
    (LIMITS._replace(response_tokens=6), episode.MAX_TOKENS),
    (LIMITS._replace(context=24), episode.MAX_TOKENS),
  ],
)
def test_an_agent_that_runs_into_a_limit(limits, status):
  code = """
for line in lines:
  for n in range(9): ask(line, 'hello' * (1 + n))
"""
  made, _ = roll_out(agent(code), limits=limits, tasks=TASKS[:1], samples=1)
  assert {one.status for one in made} == {status}
  assert [one.row for one in made] == [*range(len(made))]


def test_the_words_of_a_command(tmp_path):
  script = tmp_path / 'agent.py'
  script.write_text(
    CLIENT + "assert sys.argv[1] == json.loads(sys.argv[2])['prompt']\n"
    "ask({'key': os.environ['OPENAI_API_KEY']}, sys.argv[1])"
  )
  env = outside.make(
    of={'name': 'tools.make'},
    command=f'python {script} {{prompt}} {{task}}',
    syntax='positional',
  )
  made, _ = roll_out(env)
  assert {one.status for one in made} == {episode.FINISHED}


def test_an_environment_without_an_agent():
  with pytest.raises(ValueError, match='names no agent'):
    roll_out(tools.make())


def test_agents_that_cannot_be_made():
  for how, words in (
    ({'command': ' '}, 'the command is empty'),
    ({'command': 'x', 'episodes': 0}, 'episodes is 0'),
    ({'command': 'x', 'seconds': 0.0}, 'seconds is 0.0'),
  ):
    with pytest.raises(ValueError, match=words):
      outside.make(of={'name': 'tools.make'}, **how)
