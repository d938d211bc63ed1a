"""The seven failures of agentic RL, by what the metrics of a run show.

A detector is a pure function of a run so far to one finding. The failures are
those of a survey's table; `arl.evaluate.limits` has the limits.
"""

import math

from arl.evaluate import findings, limits


def masks(run: findings.Run) -> findings.Finding:
  """Tokens that no engine sampled are trained on."""
  points = findings.series(run.rows, 'audit/unsampled')
  if not points:
    return findings.Finding(
      'masks', findings.UNKNOWN, 'nothing that an engine sampled'
    )
  wrong = [(step, n) for step, n in points if n > limits.limit('unsampled')]
  where = wrong or points
  return findings.Finding(
    'masks',
    findings.found(bool(wrong)),
    f'{sum(n for _, n in wrong):.0f} tokens to be trained on that no engine'
    f' sampled, in {len(wrong)} of {len(points)} steps',
    (where[0][0], where[-1][0]),
    ('prompts.select', 'rollout.strategy'),
  )


def hacking(run: findings.Run) -> findings.Finding:
  """What is paid in training grows away from held-out success."""
  settings = ('env', 'reward.terms', 'reward.cap')
  share = _shaping(run)
  gaps = _gaps(run)
  if share is None and len(gaps) < limits.limit('window'):
    return findings.Finding('hacking', findings.UNKNOWN, 'too few evaluations')
  rising = int(limits.limit('window'))
  rose = any(
    gaps[i][1] < gaps[i + 1][1] < gaps[i + 2][1]
    for i in range(len(gaps) - rising + 1)
  )
  far = bool(gaps) and gaps[-1][1] > limits.limit('gap') and rose
  far = far and _sure(run, gaps[-1][1])
  paid = share is not None and share > limits.limit('shaping')
  told = ', '.join(f'{gap:+.2f}' for _, gap in gaps[-4:])
  text = f'mean reward less held-out success: {told or "not evaluated"}'
  if share is not None:
    text += f'; terms add {share:.0%} of the reward'
  steps = (gaps[0][0], gaps[-1][0]) if gaps else (0, 0)
  return findings.Finding(
    'hacking', findings.found(far or paid), text, steps, settings
  )


def _sure(run: findings.Run, gap: float) -> bool:
  """Whether the last gap is more than the doubt about held-out success."""
  last = [row for row in run.rows if 'eval/sampled' in row][-1]
  high = last.get('eval/sampled_high', last['eval/sampled'])
  return last['eval/sampled'] + gap > high


def _gaps(run: findings.Run) -> list[tuple[int, float]]:
  """(step, reward with all terms - held-out success) at each evaluation."""
  made, size = [], int(limits.limit('window'))
  paid: list[float] = []
  for row in run.rows:
    reward = row.get('train/reward', math.nan) + row.get('reward/added', 0.0)
    if math.isfinite(reward):
      paid.append(reward)
    if paid and 'eval/sampled' in row:
      mean = math.fsum(paid[-size:]) / len(paid[-size:])
      made.append((int(row['step']), mean - row['eval/sampled']))
  return made


def _shaping(run: findings.Run) -> float | None:
  """What terms add, as a share of the whole reward; None without terms."""
  added = findings.recent(
    run.rows, 'reward/added', int(limits.limit('warm_up'))
  )
  paid = findings.recent(run.rows, 'train/reward', int(limits.limit('warm_up')))
  if added is None or paid is None:
    return None
  plus = max(added.value, 0.0)
  return plus / max(plus + max(paid.value, 0.0), 1e-9)


def length(run: findings.Run) -> findings.Finding:
  """Episodes become much longer than they were."""
  grown = []
  for key, unit in (
    ('length/tokens_p95', 'tokens'),
    ('length/turns_p95', 'turns'),
  ):
    first, last = (f(run.rows, key) for f in (findings.start, findings.recent))
    if first is not None and last is not None:
      grown.append((last.value / max(first.value, 1e-9), first, last, unit))
  if not grown:
    return findings.Finding('length', findings.UNKNOWN, 'too few steps')
  factor, first, last, unit = max(grown)
  return findings.Finding(
    'length',
    findings.found(factor >= limits.limit('growth')),
    f'95 % of the episodes have up to {last.value:.0f} {unit}, {factor:.1f}'
    f' times the {first.value:.0f} at the start',
    (first.first, last.last),
    ('reward.terms (shaping.overlong)', 'rollout.max_turns'),
  )


def truncation(run: findings.Run) -> findings.Finding:
  """Limits cut too many episodes off."""
  last = findings.recent(run.rows, 'length/truncated')
  if last is None:
    return findings.Finding('truncation', findings.UNKNOWN, 'too few steps')
  return findings.Finding(
    'truncation',
    findings.found(last.value > limits.limit('truncated')),
    f'{last.value:.0%} of the episodes are cut off by a limit',
    (last.first, last.last),
    (
      'rollout.turn_tokens', 'rollout.response_tokens', 'rollout.max_turns',
      'rollout.context', 'rollout.seconds',
    ),
  )  # fmt: skip


def calls(run: findings.Run) -> findings.Finding:
  """Tools that are not there, or arguments that they do not take."""
  last = findings.recent(
    run.rows, 'calls/invalid', int(limits.limit('warm_up'))
  )
  if last is None:
    return findings.Finding('calls', findings.UNKNOWN, 'too few steps')
  return findings.Finding(
    'calls',
    findings.found(last.value > limits.limit('invalid')),
    f'{last.value:.0%} of the actions call what is not there, or wrongly',
    (last.first, last.last),
    ('reward.terms (shaping.errors)', 'model.path (a warm start that calls)'),
  )


def loops(run: findings.Run) -> findings.Finding:
  """The same is done over and over, with the same answer."""
  last = findings.recent(run.rows, 'loops/share')
  distinct = findings.recent(run.rows, 'loops/distinct')
  if last is None or distinct is None:
    return findings.Finding('loops', findings.UNKNOWN, 'too few steps')
  return findings.Finding(
    'loops',
    findings.found(last.value > limits.limit('looping')),
    f'{last.value:.0%} of the episodes do the same three times or more with'
    f' the same answer; {distinct.value:.0%} of the actions are no repetition',
    (last.first, last.last),
    ('rollout.max_turns', 'reward.terms (shaping.turns)', 'env'),
  )


def groups(run: findings.Run) -> findings.Finding:
  """The rollouts of a task do not differ, so that nothing is learnt."""
  keys = ('groups/mixed', 'groups/unsolved', 'groups/solved')
  mixed, none, every = (findings.recent(run.rows, key) for key in keys)
  if mixed is None or none is None or every is None:
    return findings.Finding(
      'groups', findings.UNKNOWN, 'no groups, or too few steps'
    )
  varied = findings.recent(run.rows, 'groups/varied')
  alike = max(mixed.value, varied.value if varied else 0) < limits.limit(
    'mixed'
  )
  return findings.Finding(
    'groups',
    findings.found(alike and not findings.mastered(run.rows)),
    f'{mixed.value:.0%} of the groups have both outcomes, {none.value:.0%} no'
    f' success and {every.value:.0%} nothing else',
    (mixed.first, mixed.last),
    (
      'prompts.samples', 'rollout.temperature', 'env (its difficulty)',
      'prompts.select (select.varied)',
    ),
  )  # fmt: skip


def entropy(run: findings.Run) -> findings.Finding:
  """The policy has hardly any choice left, before it is any good."""
  found = _shrunk(run, 'entropy', 'train/entropy', 'entropy of its tokens')
  return found._replace(evidence=found.evidence + _reference(run))


def spread(run: findings.Run) -> findings.Finding:
  """What the rollouts of a task earn hardly differs any more."""
  what = 'deviation of the rewards of a group'
  return _shrunk(run, 'spread', 'groups/std', what)


def _shrunk(
  run: findings.Run, name: str, key: str, what: str
) -> findings.Finding:
  """Whether a metric is a small share of its start, and success no reason."""
  first, last = (f(run.rows, key) for f in (findings.start, findings.recent))
  if first is None or last is None or first.value <= 0:
    return findings.Finding(name, findings.UNKNOWN, 'too few steps')
  share = last.value / first.value
  trips = share < limits.limit(name) and not findings.mastered(run.rows)
  return findings.Finding(
    name,
    findings.found(trips),
    f'{what} {last.value:.3g}, {share:.0%} of the {first.value:.3g} at the'
    ' start',
    (first.first, last.last),
    (
      'method (clip higher, a term of entropy or KL)', 'optimizer.lr',
      'rollout.temperature', 'prompts.select',
    ),
  )  # fmt: skip


def _reference(run: findings.Run) -> str:
  last = findings.recent(run.rows, 'train/ref_kl')
  return f'; KL to the reference {last.value:.3g} nats' if last else ''


def template(run: findings.Run) -> findings.Finding:
  """What is said no longer depends on what was asked.

  By what first actions tell of their tasks, and where config.eval.crossed has
  answers scored behind other prompts, by what those say.
  """
  made = [
    _lost(run, 'actions/information', 'told', 'a first action tells'),
    _lost(run, 'templates/information', 'scored', 'a token of it tells'),
  ]
  known = [x for x in made if x.state != findings.UNKNOWN]
  trips = [x for x in known if x.state == findings.TRIPS]
  return (*trips, *known, made[0])[0]


def _lost(
  run: findings.Run, key: str, least: str, what: str
) -> findings.Finding:
  """Whether an information that was there at the start has been lost."""
  first, last = (f(run.rows, key) for f in (findings.start, findings.recent))
  if first is None or last is None:
    return findings.Finding(
      'template', findings.UNKNOWN, 'no groups, or too few steps'
    )
  spoke = first.value >= limits.limit(least)
  share = last.value / max(first.value, 1e-9)
  return findings.Finding(
    'template',
    findings.found(spoke and share < limits.limit('information')),
    f'{what} {last.value:.2f} nats of its task, {share:.0%} of the'
    f' {first.value:.2f} at the start',
    (first.first, last.last),
    ('env (what it pays for)', 'reward.terms', 'prompts.select'),
  )
