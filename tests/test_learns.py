"""Every recipe teaches a two-table language model, without an engine.

The model answers a prompt with two tokens; one of the nine answers to a prompt
earns 1, at its end. One table reads the prompt and the position, the other the
token before.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from arl import levels
from arl.kernels import advantages
from arl.methods import compose, grpo, ppo, reinforce, sequence

PROMPTS, SAMPLES, TOKENS, VOCAB = 4, 8, 2, 3
ROWS = PROMPTS * SAMPLES
PROMPT = np.repeat(np.arange(PROMPTS), SAMPLES)  # of each row
RIGHT = np.array([[0, 1], [1, 1], [2, 0], [0, 2]])  # the answer to each prompt
BATCHES, UPDATES = 40, 2  # updates of each batch

LR = 0.1

RECIPES = {
  'reinforce': reinforce.reinforce(),
  'rloo': reinforce.rloo(),
  'grpo': grpo.grpo(),
  'dr_grpo': grpo.dr_grpo(length=TOKENS),
  'dapo': grpo.dapo(),
  'cispo': grpo.cispo(),
  'gspo': sequence.gspo(),
  'gspo_token': sequence.gspo_token(),
  'ppo': ppo.ppo(),
}


def fresh():
  return {
    'prompt': jnp.zeros([PROMPTS, TOKENS, VOCAB]),
    'before': jnp.zeros([VOCAB, VOCAB]),
    'value': jnp.zeros([PROMPTS, TOKENS]),
  }


def scores(params, place, before):
  """Logits [ROWS, V] of the token at `place`, after the tokens `before`."""
  logits = params['prompt'][PROMPT, place]
  return logits + params['before'][before] if place else logits


def column(parts):
  """Columns [ROWS, 1 + TOKENS] from one [ROWS] a token; 0 on the prompt."""
  return jnp.stack([jnp.zeros_like(parts[0]), *parts], axis=1)


def sample(params, key):
  """Answers [ROWS, TOKENS]."""
  answer = [jnp.zeros(ROWS, jnp.int32)]
  for place, own in enumerate(jax.random.split(key, TOKENS)):
    logits = scores(params, place, answer[-1])
    answer.append(jax.random.categorical(own, logits).astype(jnp.int32))
  return jnp.stack(answer[1:], axis=1)


def policy(params, answer):
  """The columns of the policy."""
  made = {'logp': [], 'entropy': [], 'value': []}
  for place in range(TOKENS):
    logp = jax.nn.log_softmax(scores(params, place, answer[:, place - 1]))
    chosen = jnp.take_along_axis(logp, answer[:, place, None], axis=-1)
    made['logp'].append(chosen[:, 0])
    made['entropy'].append(-jnp.sum(jnp.exp(logp) * logp, axis=-1))
    made['value'].append(params['value'][PROMPT, place])
  return {name: column(parts) for name, parts in made.items()}


def success(params):
  """The chance of a right answer, exactly."""
  made = policy(params, jnp.asarray(RIGHT[PROMPT]))
  return jnp.mean(jnp.exp(jnp.sum(made['logp'], axis=1)))


def observed(params, answer):
  """The columns of a rollout batch, scored."""
  right = jnp.all(answer == RIGHT[PROMPT], axis=1).astype(jnp.float32)
  shape = ROWS, 1 + TOKENS
  row = jnp.broadcast_to(jnp.arange(ROWS)[:, None], shape)
  group = jnp.broadcast_to(jnp.asarray(PROMPT)[:, None], shape)
  now, start = policy(params, answer), policy(fresh(), answer)
  return {
    'mask': jnp.broadcast_to(jnp.arange(1 + TOKENS) > 0, shape),
    'rewards': column([jnp.zeros(ROWS), right]),
    'seq': levels.Level(row, ROWS),
    'turn': levels.Level(row, ROWS),
    'group': levels.Level(group, PROMPTS),
    'rollout_logp': now['logp'],
    'old_logp': now['logp'],
    'old_value': now['value'],
    'ref_logp': start['logp'],
  }


def train(objective, seed):
  """The success before each batch, and at the end."""
  method, tx = compose.method(objective), optax.adam(LR)

  def batch(carry, key):
    params, opt_state = carry
    answer = sample(params, key)
    columns = observed(params, answer)
    credits = method.credit(columns)
    weights = method.weigh(columns, credits)

    def loss(params):
      made = policy(params, answer)
      return method.loss({**columns, **made}, credits, weights)[0]

    def update(carry, _):
      params, opt_state = carry
      with jax.numpy_dtype_promotion('standard'):
        changes, opt_state = tx.update(jax.grad(loss)(params), opt_state)
      return (optax.apply_updates(params, changes), opt_state), None

    carry, _ = jax.lax.scan(update, carry, length=UPDATES)
    return carry, success(params)

  keys = jax.random.split(jax.random.key(seed), BATCHES)
  params = fresh()
  (params, _), seen = jax.lax.scan(batch, (params, tx.init(params)), keys)
  return jnp.append(seen, success(params))


@pytest.mark.parametrize('name', RECIPES)
def test_a_recipe_learns(name):
  run = jax.jit(functools.partial(train, RECIPES[name]))
  for seed in range(3):
    seen = np.asarray(run(seed))
    assert seen[0] == pytest.approx(1 / 9)
    assert seen[-1] >= 0.8


def test_a_turned_sign_unlearns():
  def turned(rewards, mask, seq, group):
    return -advantages.group_center(rewards, mask, seq, group)

  objective = grpo.dapo()._replace(advantage=turned)
  seen = np.asarray(jax.jit(functools.partial(train, objective))(0))
  assert seen[-1] < 0.02
