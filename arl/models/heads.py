"""From hidden states to columns: the only tensors as wide as the vocabulary.

Position t of a column speaks of tokens[:, t] given those before it, so it reads
hidden[:, t - 1], or where tokens form a tree that of the token before it there;
at position 0 a column is 0. 'value_after' alone reads hidden[:, t]: what was
said, the token included.
"""

import functools
import types
from collections.abc import Callable, Collection, Mapping

import jax
import jax.numpy as jnp

from arl.models import functional, layout, teachers

LIKELIEST = frozenset({'likeliest', 'likeliest_logp'})
COLUMNS = LIKELIEST | teachers.DIVERGENCES | {
  'logp', 'entropy', 'value', 'value_after', 'value_logits', 'features',
}  # fmt: skip
TOP = 64  # how many tokens are likeliest
FEATURES = 8, 8  # numbers kept of the vocabulary's side and of the state's
VALUES = frozenset({'value', 'value_after', 'value_logits'})


def columns(
  model: functional.Model,
  params: functional.Params,
  hidden: jax.Array,
  tokens: jax.Array,
  want: Collection[str],
  *,
  temperature: jax.Array | float = 1.0,
  chunk: int | None = None,
  where: jax.Array | None = None,
  at: Mapping[str, jax.Array] = types.MappingProxyType({}),
  teacher: teachers.Teacher | None = None,
  before: jax.Array | Callable[[jax.Array], jax.Array] | None = None,
) -> dict[str, jax.Array]:
  """Columns of a batch, float32 [B, T], or [B, T, K] for those of K entries.

  Args:
    model: gives the logits.
    params: of the model, with a value head where 'value' is wanted.
    hidden: [B, T, D], what `model.apply` returned for the tokens.
    tokens: int [B, T].
    want: a subset of COLUMNS. 'logp' is the log-probability of the token,
      'entropy' that of the distribution it came from, in nats, both of
      softmax(logits / temperature); 'value' is a linear read of the state
      before the token was chosen, 'value_after' of that after it, and
      'value_logits' is as 'value', of as many numbers as the value head has
      bins. 'features' is a random projection of the gradient of the token's
      log-prob in the output head: it has the inner products of those gradients
      in expectation. 'likeliest' are the ids, int32, of the TOP tokens that
      come first, and 'likeliest_logp' their log-probs; the divergences are
      those of the distribution to the teacher's, see `teachers`.
    temperature: positive, a scalar or [B, T]; 0 is padding.
    chunk: how many tokens to hold logits for at a time, forward and backward;
      None for all. It changes memory, not the result.
    where: bool [B, T], the positions that are read; a column is 0 elsewhere,
      and a chunk without any costs nothing. None for all.
    at: further columns by name: the tokens, int [B, T, K], whose log-probs they
      are. A token that the model does not know has -1e4.
    teacher: of the divergences.
    before: int [B, T], where among all B * T the token before each one is, or
      what maps [B, T, ...] to what was before each token; None for that on its
      left. A first token, which has none, is not in `where`.

  Raises:
    ValueError: an unknown column, a chunk below 1, no value head, or no
      teacher.
  """
  _check(params, want, chunk, teacher)
  read = functools.partial(
    _read,
    model,
    params,
    frozenset(want) - {'value_after'},
    teacher,
  )
  states, first = _before(hidden, before), int(before is None)
  heat = jnp.broadcast_to(jnp.float32(temperature), tokens.shape)
  targets = {
    'tokens': tokens[:, first:],
    'temperature': heat[:, first:],
    'at': {n: x[:, first:] for n, x in at.items()},
  }
  if teacher and teachers.DIVERGENCES & set(want):
    targets['taught'] = _before(teacher.hidden, before)
  if chunk is None:
    made = _whole(read, states, targets)
  elif where is None:
    made = _map(read, states, targets, jnp.ones(states.shape[:2], bool), chunk)
  else:
    made = _packed(read, states, targets, where[:, first:], chunk)
  made = {
    name: jnp.pad(x, ((0, 0), (first, 0), (0, 0))[: x.ndim])
    for name, x in made.items()
  }
  if 'value_after' in want:
    made['value_after'] = _valued(params, hidden)
  if where is None:
    return made
  seen = lambda x: where.reshape(*where.shape, *(1,) * (x.ndim - 2))
  return {name: jnp.where(seen(x), x, 0) for name, x in made.items()}


def with_value_head(
  params: functional.Params, width: int, bins: int = 0
) -> functional.Params:
  """The params and a value head of zeros for states [..., width].

  Args:
    params: of a model.
    width: of its states.
    bins: of a categorical head; 0 for a head that reads one number.

  Raises:
    ValueError: they have one already.
  """
  if functional.VALUE_HEAD in params:
    raise ValueError(
      'params already have a value head; drop '
      f'params[{functional.VALUE_HEAD!r}] first to start anew.'
    )
  head = {
    'weight': jnp.zeros([width, bins][: 1 + bool(bins)], jnp.float32),
    'bias': jnp.zeros([bins][: bool(bins)], jnp.float32),
  }
  return {**params, functional.VALUE_HEAD: head}


def _before(hidden, before):
  """The states that tokens were chosen after, of all but the first of a row."""
  if before is None:
    return hidden[:, :-1]
  if callable(before):
    return before(hidden)
  return hidden.reshape(-1, hidden.shape[-1])[before]


def _read(model, params, want, teacher, states, targets):
  """Columns [n] of states [n, D] and the tokens [n] that followed."""
  out = {}
  for name in want & VALUES:
    out[name] = _valued(params, states)
  if want <= VALUES and not targets['at']:
    return out
  heat, tokens = targets['temperature'][:, None], targets['tokens']
  heat = jnp.where(heat > 0, heat, 1)
  scores = model.logits(params, states) / heat
  total = _log_total(scores)
  if 'logp' in want:
    chosen = layout.pick(scores, tokens[:, None])[:, 0]
    out['logp'] = chosen - total
  if want <= VALUES | {'logp'} and not targets['at']:
    return out
  # Centered first: total - sum(p z) would cancel large scores.
  logs = scores - total[:, None]
  if 'entropy' in want:
    out['entropy'] = -(jnp.exp(logs) * logs).sum(-1)
  if 'features' in want:
    out['features'] = _features(logs, states, tokens) / heat
  if want & LIKELIEST:
    made = jax.lax.top_k(logs, min(TOP, logs.shape[-1]))
    both = dict(zip(('likeliest_logp', 'likeliest'), made, strict=True))
    out |= {name: both[name] for name in want & LIKELIEST}
  for name, ids in targets['at'].items():
    out[name] = teachers.log_probs(logs, ids)
  if want & teachers.DIVERGENCES:
    theirs = teachers.logits(teacher, targets['taught']) / heat
    out |= teachers.compare(logs, theirs, want & teachers.DIVERGENCES)
  return out


def _valued(params, states):
  """What the value head reads in states [..., D]."""
  head = params[functional.VALUE_HEAD]
  weight, bias = (head[k].astype(jnp.float32) for k in ('weight', 'bias'))
  made = states.astype(jnp.float32) @ weight
  return made + jnp.broadcast_to(bias, made.shape)


def _features(logs, states, targets):
  """A sketch of the outer product (onehot(token) - p) x state: [n, K].

  Both factors are projected by matrices of independent signs, which are the
  same in every call, so the inner product of two sketches estimates that of two
  gradients without bias.
  """
  tokens, wide = FEATURES
  keys = jax.random.split(jax.random.key(0), 2)
  draw = lambda key, *shape: jax.random.rademacher(key, shape, jnp.float32)
  by_token = draw(keys[0], logs.shape[-1], tokens) / tokens**0.5
  by_width = draw(keys[1], states.shape[-1], wide) / wide**0.5
  left = by_token[targets] - jnp.exp(logs) @ by_token
  right = states.astype(jnp.float32) @ by_width
  return (left[:, :, None] * right[:, None, :]).reshape(len(targets), -1)


@jax.custom_vjp
def _log_total(scores):
  """logsumexp over the last axis, of the same bits with and without a gradient.

  By its own rule the backward pass needs the exponentials of the forward pass;
  keeping them changes how XLA sums them, and with that the last bit.
  """
  return jax.nn.logsumexp(scores, axis=-1)


def _log_total_forward(scores):
  total = _log_total(scores)
  return total, (scores, total)


def _log_total_backward(kept, cotangent):
  scores, total = kept
  return (cotangent[..., None] * jnp.exp(scores - total[..., None]),)


_log_total.defvjp(_log_total_forward, _log_total_backward)


def _whole(read, states, targets):
  """read() of states [B, N, D] and targets [B, N, ...] at once."""
  shape = states.shape[:2]
  flatten = lambda x: x.reshape(-1, *x.shape[2:])
  flat = read(*jax.tree.map(flatten, (states, targets)))
  return {name: x.reshape(*shape, *x.shape[1:]) for name, x in flat.items()}


def _packed(read, states, targets, where, chunk):
  """_map() with the tokens to read first in each row: in the fewest chunks."""
  order = jnp.argsort(~where, axis=1, stable=True)

  pick = layout.reordered
  states, targets, where = jax.tree.map(
    lambda x: pick(x, order), (states, targets, where)
  )
  made = _map(read, states, targets, where, chunk)
  back = jnp.argsort(order, axis=1)
  return {name: pick(column, back) for name, column in made.items()}


def _map(read, states, targets, where, chunk):
  """read() in chunks, each computed again in the backward pass."""
  split = functools.partial(layout.in_chunks, chunk=chunk)
  whole = functools.partial(_whole, read)

  def nothing(*pair):
    shapes = jax.eval_shape(whole, *pair)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

  @jax.checkpoint
  def step(part):
    *pair, wanted = part
    return jax.lax.cond(jnp.any(wanted), whole, nothing, *pair)

  flat = jax.lax.map(step, jax.tree.map(split, (states, targets, where)))
  join = functools.partial(layout.from_chunks, shape=where.shape)
  return {name: join(x) for name, x in flat.items()}


def _check(params, want, chunk, teacher):
  unknown = sorted(set(want) - COLUMNS)
  if unknown:
    raise ValueError(
      f'heads.columns makes {sorted(COLUMNS)}, not {unknown}; leave them out.'
    )
  compared = sorted(set(want) & teachers.DIVERGENCES)
  if compared and teacher is None:
    raise ValueError(f'{compared} are divergences to a teacher; give one.')
  if chunk is not None and chunk < 1:
    raise ValueError(f'chunk is a positive number of tokens, not {chunk}.')
  for name in sorted(set(want) & VALUES):
    if functional.VALUE_HEAD not in params:
      raise ValueError(
        f'column {name!r} needs a value head in params; add one with '
        'heads.with_value_head.'
      )
    bins = params[functional.VALUE_HEAD]['bias'].shape
    if (name == 'value_logits') != bool(bins):
      raise ValueError(
        f'column {name!r} does not fit a value head of {bins or "one number"};'
        ' heads.with_value_head(bins=...) makes one of several.'
      )
