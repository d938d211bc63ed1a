"""A decision problem small enough to enumerate, in float64.

Two steps with three actions each; the second state depends on the first action,
and rewards of both steps are random. All 36 outcomes of a rollout, or all 1,296
of a group of two, are enumerated, and an objective is run on each of them as it
would be in training. Call it where float64 is on.

Three policies: POLICY is that when the batch began; rollouts are sampled by a
behavior and the loss is differentiated at a policy, which both are POLICY where
nothing else is said.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from arl import kinds, levels
from arl.methods import compose
from arl.models import teachers

# State 0 comes first, state 1 + action after it.
POLICY = np.asarray(
  [[0.2, -0.4, 0.5], [1.0, 0.1, -0.3], [-0.6, 0.4, 0.2], [0.0, 0.9, -0.8]]
)
REFERENCE = np.asarray(
  [[0.0, 0.3, -0.2], [0.4, -0.1, 0.6], [0.1, 0.1, -0.5], [-0.7, 0.2, 0.3]]
)
TEACHER = np.asarray(
  [[-0.3, 0.2, 0.9], [0.2, 0.8, -0.5], [0.3, -0.2, 0.6], [0.5, 0.1, 0.4]]
)
BEHAVIOR = np.asarray(
  [[0.6, 0.0, -0.1], [0.3, 0.5, 0.0], [-0.2, -0.3, 0.7], [0.6, 0.1, -0.2]]
)
MOVED = POLICY + np.asarray(
  [[0.1, -0.2, 0.0], [0.0, 0.1, 0.3], [-0.1, 0.2, 0.0], [0.2, 0.0, -0.3]]
)
FIRST = np.asarray([0.3, -0.5, 1.0])  # mean reward of the first action
SECOND = np.asarray([[1.0, 0.0, -1.0], [0.5, 2.0, -0.7], [-0.2, 0.4, 0.9]])
NOISE = (0.6, 0.25)  # each reward is its mean plus or minus this
SOME_VALUE = np.asarray([0.7, -1.1, 0.4, 2.0])  # of no particular merit


def outcomes(group):
  """actions and rewards [N, group, 2], and the chance of their noise."""
  single = [
    ((a, b), (FIRST[a] + m * NOISE[0], SECOND[a, b] + n * NOISE[1]))
    for a, b in itertools.product(range(3), repeat=2)
    for m, n in itertools.product((-1, 1), repeat=2)
  ]
  all_groups = list(itertools.product(single, repeat=group))
  actions = np.asarray([[a for a, _ in each] for each in all_groups])
  rewards = np.asarray([[r for _, r in each] for each in all_groups])
  return actions.astype(np.int32), rewards, 0.25**group


def states(actions):
  """The state before each action [..., 2]."""
  return jnp.stack([jnp.zeros_like(actions[:, 0]), 1 + actions[:, 0]], axis=1)


def logp(policy, actions):
  """Log-probs of actions [..., 2]."""
  every = jax.nn.log_softmax(policy)[states(actions)]
  return jnp.take_along_axis(every, actions[..., None], axis=-1)[..., 0]


def entropy(policy):
  """Entropy of the policy in each state [4]."""
  return -jnp.sum(jax.nn.softmax(policy) * jax.nn.log_softmax(policy), axis=-1)


def columns(params, actions, rewards, old_value, behavior=POLICY):
  """A group of rollouts [group, 2] of a behavior, each action a turn."""
  seen, shape = states(actions), actions.shape
  rows = np.arange(shape[0], dtype=np.int32)[:, None]
  steps = np.arange(2, dtype=np.int32)[None]

  def level(ids, num):
    return levels.Level(jnp.broadcast_to(jnp.asarray(ids), shape), num)

  return {
    'mask': jnp.ones(shape, bool),
    'rewards': rewards,
    'rollout_logp': logp(behavior, actions),
    'rollout_entropy': entropy(behavior)[seen],
    'baseline': jnp.full(shape, greedy_return()),
    'truncated': jnp.zeros(shape, bool),
    'ranked': jnp.ones(shape, bool),
    'demonstrated': jnp.zeros(shape, bool),
    'stage': jnp.broadcast_to(jnp.asarray(rows % 3), shape),
    'pivotal': jnp.ones(shape, bool),
    'hinted': jnp.ones(shape, bool),
    'kind': jnp.full(shape, kinds.THINK),
    'logp': logp(params['policy'], actions),
    'entropy': entropy(params['policy'])[seen],
    'value': params['value'][seen],
    'old_logp': logp(POLICY, actions),
    'old_entropy': entropy(POLICY)[seen],
    'ref_logp': logp(REFERENCE, actions),
    'teacher_logp': logp(TEACHER, actions),
    'teacher_logps': jnp.stack(
      [logp(table, actions) for table in (REFERENCE, TEACHER)], axis=-1
    ),
    'teacher': jnp.ones(shape, jnp.int32),
    'reconsidering': seen == 2,
    'old_value': old_value[seen],
    'noise': jnp.full(shape, 0.5),
    **_compared(params, seen),
    'iteration': jnp.asarray(0.0),
    'progress': jnp.asarray(0.3),
    'kl_coef': jnp.asarray(0.3),
    'seq': level(rows, shape[0]),
    'group': level(0 * rows, 1),
    'turn': level(2 * rows + steps, 2 * shape[0]),
    'step_of_group': level(steps, 2),
    'state': levels.Level(seen, 4),
    'tree': level(rows, shape[0]),
    'node': level(2 * rows + steps, 2 * shape[0]),
    'copies': jnp.ones(shape, jnp.int32),
    'hindsight_logp': logp(TEACHER, actions),
  }


def _compared(params, seen):
  """What compares the policy with a teacher over all three actions."""
  every = {
    'own_logp': params['policy'],
    'old_own_logp': jnp.asarray(POLICY),
    'teacher_own_logp': jnp.asarray(TEACHER),
  }
  made = {n: jax.nn.log_softmax(table)[seen] for n, table in every.items()}
  made |= {
    'top_logp': made['own_logp'],
    'teacher_top_logp': made['teacher_own_logp'],
    'teacher_entropy': entropy(TEACHER)[seen],
  }
  return made | teachers.compare(
    made['own_logp'], made['teacher_own_logp'], teachers.DIVERGENCES
  )


def _gradient(part, value, policy, behavior):
  """(actions, rewards) -> the gradient in both tables, of one update."""
  method = compose.method(part)
  params = {'policy': jnp.asarray(policy), 'value': value}

  def gradient(actions, rewards):
    acted = columns(params, actions, rewards, value, behavior)
    credits = method.credit(acted)
    weights = method.weigh(acted, credits)

    def loss(params):
      now = columns(params, actions, rewards, value, behavior)
      return method.loss(now, credits, weights)[0]

    return jax.grad(loss)(params)

  return gradient


def each(parts, group, value=SOME_VALUE, policy=POLICY, behavior=POLICY):
  """Probability [N], and by name the gradients [N, ...] of every outcome."""
  value = jnp.asarray(value)
  actions, rewards, chance = outcomes(group)
  made = {n: _gradient(p, value, policy, behavior) for n, p in parts.items()}

  @jax.jit
  def run(actions, rewards):
    total = jax.vmap(lambda a: jnp.sum(logp(behavior, a)))(actions)
    gradients = {n: jax.vmap(g)(actions, rewards) for n, g in made.items()}
    return chance * jnp.exp(total), gradients

  return jax.device_get(run(actions, rewards))


def expected(parts, group, of='policy', **settings):
  """By name, the expected gradients of losses in a table of parameters."""
  probability, gradients = each(parts, group, **settings)
  np.testing.assert_allclose(np.sum(probability), 1.0, rtol=1e-12)
  return {n: np.tensordot(probability, g[of], 1) for n, g in gradients.items()}


def expected_of(part, group, of='policy', **settings):
  """The expected gradient of one loss."""
  return expected({'it': part}, group, of, **settings)['it']


def mean_over_groups(function, group):
  """policy -> mean of function(R [group]) over groups that it samples."""
  actions, rewards, chance = outcomes(group)
  made = jax.vmap(function)(jnp.sum(jnp.asarray(rewards), axis=-1))

  def mean(policy):
    total = jax.vmap(lambda a: jnp.sum(logp(policy, a)))(actions)
    return jnp.sum(chance * jnp.exp(total) * made)

  return mean


def _trajectories(policy, first, second):
  """Expectation of first[a] + second[a, b] under a policy."""
  start, then = jax.nn.softmax(policy[0]), jax.nn.softmax(policy[1:])
  return start @ first + start @ jnp.sum(then * second, axis=1)


def mean_return(policy):
  """What the policy earns."""
  return _trajectories(policy, FIRST, SECOND)


def divergence(policy, other=REFERENCE):
  """KL of whole trajectories to the reference, or to another policy."""
  gap = jax.nn.log_softmax(policy) - jax.nn.log_softmax(other)
  return _trajectories(policy, gap[0], gap[1:])


@functools.cache
def exact(function=mean_return):
  """The gradient of a function of the policy table, at POLICY."""
  return exact_at(POLICY, function)


def exact_at(policy, function=mean_return):
  """The gradient of a function of the policy table, at a policy."""
  return jax.device_get(jax.jit(jax.grad(function))(jnp.asarray(policy)))


def visits(policy=POLICY):
  """How often each state is seen in a rollout [4] of a policy."""
  return jnp.concatenate([jnp.ones(1), jax.nn.softmax(policy[0])])


def greedy_return():
  """What the likeliest actions of POLICY earn on average."""
  first = np.argmax(POLICY[0])
  return FIRST[first] + SECOND[first, np.argmax(POLICY[1 + first])]


def action_values():
  """The mean return [4, 3] after each action in each state, under POLICY."""
  return np.concatenate([[FIRST + true_value()[1:]], SECOND])


def gradient_in_states_of(behavior):
  """The policy gradient with states weighted as a behavior visits them."""
  seen, values = visits(behavior), action_values()

  def surrogate(policy):
    return seen @ jnp.sum(jax.nn.softmax(policy) * values, axis=1)

  return exact_at(POLICY, surrogate)


def true_value():
  """The value of each state [4], under POLICY."""
  then = jnp.sum(jax.nn.softmax(POLICY[1:]) * SECOND, axis=1)
  start = jax.nn.softmax(POLICY[0]) @ (FIRST + then)
  return jnp.concatenate([start[None], then])
