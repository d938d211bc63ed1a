"""Learning rates over the updates of a run, by name.

A schedule is a function of the updates applied so far: the microbatches that an
update is made of, and updates that were skipped, do not count. All climb
linearly from 0 at the first update to the peak at update `warmup`.
"""

import optax


def constant(*, lr: float, warmup: int, decay: int) -> optax.Schedule:
  """Keeps the peak for ever.

  Args:
    lr: the peak.
    warmup: updates of linear warm-up from 0.
    decay: 0.
  """
  if decay:
    raise ValueError(
      f'schedules.constant: decay is {decay}, but a constant rate has none; set'
      ' it to 0, or name schedules.cosine or schedules.linear.'
    )
  return optax.linear_schedule(0.0 if warmup else lr, lr, max(warmup, 1))


def cosine(*, lr: float, warmup: int, decay: int) -> optax.Schedule:
  """Falls from the peak to 0 along half a cosine.

  Args:
    lr: the peak.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start, warm-up included, to the rate 0; 0 keeps the
      peak for ever.
  """
  if not decay:
    return constant(lr=lr, warmup=warmup, decay=decay)
  _check('cosine', warmup, decay)
  return optax.warmup_cosine_decay_schedule(0.0, lr, warmup, decay)


def linear(*, lr: float, warmup: int, decay: int) -> optax.Schedule:
  """Falls from the peak to 0 along a line.

  Args:
    lr: the peak.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start, warm-up included, to the rate 0; 0 keeps the
      peak for ever.
  """
  if not decay:
    return constant(lr=lr, warmup=warmup, decay=decay)
  _check('linear', warmup, decay)
  rise = constant(lr=lr, warmup=warmup, decay=0)
  fall = optax.linear_schedule(lr, 0.0, decay - warmup)
  return optax.join_schedules([rise, fall], [warmup])


def _check(name: str, warmup: int, decay: int) -> None:
  if decay <= warmup:
    raise ValueError(
      f'schedules.{name}: decay={decay} ends before warmup={warmup} has; decay'
      ' counts from the start, so set it to the updates of the whole run.'
    )
