"""Whether policy, sampler and trainer are of one mind, by a run's metrics.

Detectors as in `arl.evaluate.failures`. These are none of the seven failures:
they spoil what all of those are measured by.
"""

from arl.evaluate import agreement, findings, limits


def drift(run: findings.Run) -> findings.Finding:
  """The policy moves far from what sampled before it is asked again."""
  clipped = findings.recent(run.rows, 'policy/clip_fraction')
  moved = findings.recent(run.rows, 'mismatch/mean') if _lag(run) else None
  if clipped is None and moved is None:
    return findings.Finding(
      'drift', findings.UNKNOWN, 'no ratios, or too few steps'
    )
  parts, trips = [], False
  if clipped is not None:
    trips = clipped.value > limits.limit('clipped')
    parts.append(f'{clipped.value:.1%} of the tokens are clipped')
  if moved is not None:
    trips = trips or moved.value > limits.limit('moved')
    parts.append(
      f'log-probs moved by {moved.value:.3g} nats a token since they were'
      f' sampled, up to {_lag(run)} batches before'
    )
  seen = moved or clipped
  return findings.Finding(
    'drift',
    findings.found(trips),
    '; '.join(parts),
    (seen.first, seen.last) if seen else (0, 0),
    (
      'rollout.lag', 'rollout.ahead', 'updates.epochs', 'updates.per_batch',
      'optimizer.lr', 'method (one with truncated importance weights)',
    ),
  )  # fmt: skip


def _lag(run: findings.Run) -> int:
  """How many batches old rollouts may be."""
  if not run.config:
    return 0
  rollout, prompts = run.config['rollout'], run.config['prompts']
  return int(rollout['lag'] + rollout['ahead'] + prompts['max_age'])


def engine(run: findings.Run) -> findings.Finding:
  """The sampler does not compute what the trainer computes."""
  if _lag(run):
    return findings.Finding(
      'engine', findings.UNKNOWN, 'rollouts are of older weights'
    )
  rows = [
    row
    for row in run.rows[-int(limits.limit('window')) :]
    if 'mismatch/correlation' in row
  ]
  if not rows:
    return findings.Finding(
      'engine', findings.UNKNOWN, 'nothing that an engine sampled'
    )
  worst = max(row['mismatch/max'] for row in rows)
  alike = ('mismatch/correlation', 'mismatch/probability')
  least = min(row[key] for row in rows for key in alike if key in row)
  exact = worst <= limits.limit('exact')
  apart = least < limits.limit('correlation') and not exact
  trips = apart or (_one_precision(run) and not exact)
  told = [one for one in run.samples if 'old_logp' in one]
  cause = agreement.cause(told) if trips and told else None
  why = '' if cause is None else f'; {agreement.SENTENCES[cause]}'
  return findings.Finding(
    'engine',
    findings.found(trips),
    f'log-probs of sampler and trainer correlate {least:.4f} and differ by up'
    f' to {worst:.2g} nats{why}',
    (int(rows[0]['step']), int(rows[-1]['step'])),
    ('rollout.temperature', 'engine.dtype', 'engine.urls', 'rollout.strategy'),
  )


def _one_precision(run: findings.Run) -> bool:
  """Whether an embedded sampler computes as the trainer does."""
  if not run.config:
    return False
  block, dtype = run.config['engine'], run.config['model']['dtype']
  one = block['dtype'] in ('', dtype) and dtype == 'float32'
  return not block['urls'] and one
