"""In which order to look for what is wrong, with what a run says of each.

Eight items, from what spoils all others to what only a working run can show:
the order of a survey of agentic RL. Each is a finding, as of a detector.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arl.evaluate import failures, findings, limits, trust

OVERFIT = 50  # updates in which one prompt has to be learnt
_BARS = 10


def agree(run: findings.Run) -> findings.Finding:
  """0: sampler and trainer agree, and one prompt can be learnt by heart."""
  found = trust.engine(run)
  told = (
    'one prompt: `python -m launch.overfit` with this config has to reach'
    f' success 1 within {OVERFIT} updates'
  )
  return found._replace(evidence=f'{found.evidence}; {told}')


def rewards(run: findings.Run) -> findings.Finding:
  """1: rewards are there, differ, and their grader does not fail."""
  paid = findings.series(run.rows, 'train/reward')
  failed = findings.series(run.rows, 'train/reward_error')
  if not paid:
    return _unknown('nothing was graded')
  none = all(value == 0 for _, value in paid)
  errors = sum(n for _, n in failed)
  each = [one['reward'] for one in run.samples]
  text = f'mean reward {paid[0][1]:.3g} at first, {paid[-1][1]:.3g} at last'
  if none:
    text += '; all rewards are 0'
  if errors:
    text += f'; the grader failed {errors:.0f} times'
  if each:
    text += f'; samples: {_histogram(each)}'
  return findings.Finding(
    'rewards',
    findings.found(none or errors > 0),
    text,
    (paid[0][0], paid[-1][0]),
    ('env', 'model.path (a warm start)', 'rollout.max_failed'),
  )


def _histogram(values: Sequence[float]) -> str:
  """'0: 3, 0.5: 1': values, or tenths of their range where they are many."""
  counts = collections.Counter(f'{x:.3g}' for x in values)
  if len(counts) > _BARS:
    low, width = min(values), (max(values) - min(values)) / _BARS
    places = (min(int((x - low) / width), _BARS - 1) for x in values)
    counts = collections.Counter(f'from {low + width * i:.3g}' for i in places)
  listed = sorted(counts.items(), key=lambda x: float(x[0].split()[-1]))
  return ', '.join(f'{value}: {n}' for value, n in listed)


def sizes(run: findings.Run) -> findings.Finding:
  """2: episodes end by themselves, and are no longer than they were."""
  cut, grown = failures.truncation(run), failures.length(run)
  return _both('sizes', cut, grown)


def audit(run: findings.Run) -> findings.Finding:
  """3: what is trained on is what the policy said, by decoding it."""
  found = failures.masks(run)
  odd = [one for one in run.samples if not spoken(one)]
  if not odd:
    return found._replace(sample=_decoded(run.samples[-1:]))
  return found._replace(
    state=findings.TRIPS,
    evidence=f'{found.evidence}; in {len(odd)} of {len(run.samples)} samples'
    ' the tokens to be trained on do not spell the actions',
    sample=_decoded(odd[:1]),
  )


def spoken(sample: Mapping[str, Any]) -> bool:
  """Whether the tokens on the mask spell the actions of a sample, in order.

  Pieces may hold what ends a turn beside an action, and a character of which
  several tokens have a part reads badly; so of actions and answers in plain
  ASCII it is asked whether the action stands in the text of its turn, and
  whether the answer does not, if it is long enough not to stand there by
  chance. A sample that was cut is not asked.
  """
  said: dict[int, str] = collections.defaultdict(str)
  for piece, on, turn in zip(sample['pieces'], sample['mask'], sample['turn']):
    said[turn] += piece * bool(on)
  for turn, exchange in enumerate(sample['exchanges']):
    action, answer = exchange['action'], exchange['answer']
    text = said[turn]
    if sample['cut'] or not text or not (action + answer).isascii():
      continue
    shown = len(answer) > 2 and answer in text.replace(action, '', 1)
    if action not in text or shown:
      return False
  return True


def _decoded(samples: Sequence[Mapping[str, Any]]) -> str:
  """A sample as text, what is trained on between double brackets."""
  made = []
  for one in samples:
    last = False
    for piece, on in zip(one['pieces'], one['mask']):
      if bool(on) != last:
        made.append('[[' if on else ']]')
        last = bool(on)
      made.append(piece)
    made.append(']]' * last)
  return ''.join(made)


def moves(run: findings.Run) -> findings.Finding:
  """4: the first update is on policy, and later ones stay near."""
  found = _both('moves', trust.drift(run), failures.entropy(run))
  first = next((r for r in run.rows if 'mismatch/max' in r), None)
  if first is None:
    return found
  gap = first['mismatch/max']
  text = f'first max |log-ratio| {gap:.2g} nats'
  for key in ('policy/kl', 'train/ref_kl'):
    last = findings.recent(run.rows, key)
    text += f'; {key} {last.value:.2g}' if last else ''
  return found._replace(evidence=f'{text}; {found.evidence}')


def outcomes(run: findings.Run) -> findings.Finding:
  """5: of how many groups all, none or some succeed."""
  return failures.groups(run)._replace(name='outcomes')


def tools(run: findings.Run) -> findings.Finding:
  """6: which calls are made, how many are none, how many repeat."""
  found = _both('tools', failures.calls(run), failures.loops(run))
  said = collections.Counter(
    x['action'].partition('(')[0][:24].strip()
    for one in run.samples
    for x in one['exchanges']
    if '(' in x['action']
  )
  if not said:
    return found
  listed = ', '.join(f'{name} {n}' for name, n in said.most_common(8))
  return found._replace(evidence=f'{found.evidence}; in samples: {listed}')


def variance(run: findings.Run) -> findings.Finding:
  """7: the rewards of a prompt's rollouts differ."""
  first = findings.start(run.rows, 'groups/std')
  last = findings.recent(run.rows, 'groups/std')
  varied = findings.recent(run.rows, 'groups/varied')
  if last is None or varied is None:
    return _unknown('no groups, or too few steps')
  before = f', {first.value:.3g} at the start' if first else ''
  none = varied.value < limits.limit('mixed')
  return findings.Finding(
    'variance',
    findings.found(none and not findings.mastered(run.rows)),
    f'deviation of the rewards of a prompt {last.value:.3g}{before};'
    f' {varied.value:.0%} of the prompts have some',
    (last.first, last.last),
    ('prompts.samples', 'rollout.temperature', 'prompts.select'),
  )


def _both(
  name: str, one: findings.Finding, other: findings.Finding
) -> findings.Finding:
  """Two findings as one, that trips where one of them does."""
  worse = max((one, other), key=lambda f: _RANK.index(f.state))
  return worse._replace(name=name, evidence=f'{one.evidence}; {other.evidence}')


_RANK = (findings.UNKNOWN, findings.QUIET, findings.TRIPS)


def _unknown(evidence: str) -> findings.Finding:
  return findings.Finding('', findings.UNKNOWN, evidence)


ITEMS: tuple[Callable[[findings.Run], findings.Finding], ...] = (
  agree,
  rewards,
  sizes,
  audit,
  moves,
  outcomes,
  tools,
  variance,
)


def go_through(run: findings.Run) -> list[findings.Finding]:
  """Items 0 to 7, each under the name of its function."""
  return [item(run)._replace(name=item.__name__) for item in ITEMS]
