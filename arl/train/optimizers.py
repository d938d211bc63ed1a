"""Optimizers: optax chains by name, with their schedules."""

import optax


def adamw(
  *,
  lr: float,
  warmup: int,
  decay: int,
  b1: float,
  b2: float,
  weight_decay: float,
  max_norm: float,
) -> optax.GradientTransformation:
  """AdamW on the gradient of the whole update, clipped by its global norm.

  Args:
    lr: the peak learning rate.
    warmup: updates of linear warm-up from 0.
    decay: updates from the start to the end of a cosine decay to 0; 0 keeps
      the peak for ever.
    b1: decay of the first moment.
    b2: decay of the second moment.
    weight_decay: decoupled, times the learning rate.
    max_norm: the gradient is scaled down to this norm.
  """
  if decay:
    schedule = optax.warmup_cosine_decay_schedule(0.0, lr, warmup, decay)
  else:
    schedule = optax.linear_schedule(0.0 if warmup else lr, lr, max(warmup, 1))
  return optax.chain(
    optax.clip_by_global_norm(max_norm),
    optax.adamw(schedule, b1=b1, b2=b2, weight_decay=weight_decay),
  )
