"""A pool of verifiers keeps its pace under answers that do not end.

  python -m experiments.studies.verifiers [--quick]

Mathematical answers through a pool of two workers: right and wrong ones, with
none, 5 % and 20 % pathological among them. Of these there are two kinds: those
whose text shows that they are too large, which are refused at once, and those
that only a deadline ends. Prints a JSON object a line and rewrites
experiments/results/verifiers.md.
"""

import concurrent.futures
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl.rewards import maths, pool, verdict
from experiments.studies import runs, summary

WORKERS, SECONDS, COUNT = 2, 2.0, 400
SHARES = (0.05, 0.2)
REFUSED = (
  r'\boxed{9^{9^{9^{9}}}}',
  r'\boxed{10^{10^{10}}}',
  r'\boxed{(10^{7})!}',
  r'\boxed{' + r'\frac{1}{1+' * 200 + 'x' + '}' * 201,
  r'\boxed{\binom{10000000}{5000000}}',
)
STUCK = (
  r'\boxed{(x+y+z+1)^{300}}',
  r'\boxed{\int_0^1 \sin(x^x)\ln(x+\sqrt{x})\,dx}',
  r'\boxed{\int_0^\infty \frac{\sin(x)^{7}}{x^{3}+1} dx}',
)


class Answer(NamedTuple):
  """An answer, and what is known of it: its score, None if pathological."""

  gold: str
  text: str
  score: float | None


class Measured(NamedTuple):
  """What a pool made of a mix.

  Attributes:
    rate: plain answers a second, until the last of them has its verdict.
    all: answers a second, until the last of all has.
    right: the share of those with a score that got it.
    ended: the share of the pathological that got no score.
  """

  rate: float
  all: float
  right: float
  ended: float


def plain(rng: random.Random) -> Answer:
  """An answer that is worked out in milliseconds, right or wrong."""
  a, b, c = (rng.randint(2, 99) for _ in range(3))
  gold, same = rng.choice((
    (f'{a}/{b}', rf'\frac{{{a * c}}}{{{b * c}}}'),
    (f'{a * b}', f'{a * b}.0'),
    (rf'{a}\sqrt{{{b}}}', rf'\sqrt{{{a * a * b}}}'),
    (f'x^2+{a}x+{b}', f'{b}+x({a}+x)'),
    (f'({a},{a + b})', rf'({a}, \frac{{{2 * (a + b)}}}{{2}})'),
    (f'{a},{-b}', f'{-b}, {a}'),
  ))  # fmt: skip
  right = rng.random() < 0.5
  text = same if right else same.replace(str(a), str(a + 1))
  if not right and text == same:
    text = f'{same}+1'
  return Answer(gold, rf'So it is \boxed{{{text}}}.', float(right))


def mix(count: int, share: float, kind: Sequence[str], seed: int) -> list:
  """Answers of which a share is pathological, in random order."""
  rng = random.Random(seed)
  bad = round(share * count)
  made = [plain(rng) for _ in range(count - bad)]
  made += [Answer('x+1', rng.choice(kind), None) for _ in range(bad)]
  rng.shuffle(made)
  return made


def measure(made: pool.Pool, answers: Sequence[Answer]) -> Measured:
  """Sends a mix through a pool, all at once, and waits for every verdict."""
  start = time.monotonic()
  asked = [made.submit(maths.verify, *each[:2]) for each in answers]
  plain_ones = [f for f, a in zip(asked, answers) if a.score is not None]
  concurrent.futures.wait(plain_ones)
  seconds = time.monotonic() - start
  verdicts = [each.result() for each in asked]
  all_seconds = time.monotonic() - start
  pairs = list(zip(verdicts, answers))
  scored = [v.score == a.score for v, a in pairs if a.score is not None]
  ended = [v.status != verdict.SCORED for v, a in pairs if a.score is None]
  return Measured(
    len(plain_ones) / seconds,
    len(answers) / all_seconds,
    float(np.mean(scored)),
    float(np.mean(ended)) if ended else 1.0,
  )


class Case(NamedTuple):
  """A mix of answers: of which kind so large a share is."""

  name: str
  share: float
  kind: Sequence[str]


def cases() -> list[Case]:
  """The mixes; the clean one first, which the others are compared with."""
  made = [Case('clean', 0.0, REFUSED)]
  for share in SHARES:
    percent = f'{100 * share:.0f} %'
    made += [
      Case(f'{percent} too large', share, REFUSED),
      Case(f'{percent} without end', share, STUCK),
    ]
  return made


def run(case: Case, count: int, seed: int) -> Measured:
  """Measures a mix in a pool of its own, that has answered some already."""
  with pool.Pool(WORKERS, seconds=SECONDS, warm=maths.warm) as made:
    measure(made, mix(50, 0.0, case.kind, seed + 1000))
    return measure(made, mix(count, case.share, case.kind, seed))


def tell(case: Case, found: Sequence[Measured], clean: Sequence[Measured]):
  """Prints the numbers of a mix, one a seed each; gives its row."""
  kept = [ours.rate / all_.rate for ours, all_ in zip(found, clean)]
  cells, name = [case.name], case.name.replace(' %', '%').replace(' ', '_')
  for what, values, unit, aim in (
    ('rate', [each.rate for each in found], 'plain answers a second', ''),
    ('kept', kept, 'of the clean rate', ''),
    ('all', [each.all for each in found], 'answers a second', ''),
    ('right', [each.right for each in found], 'of the plain', '1'),
    ('ended', [each.ended for each in found], 'of the pathological', '1'),
  ):
    value, interval = runs.mean(values)
    key = f'verifiers/{name}/{what}'
    runs.line(key, value, unit, aim, runs.seeds(), interval)
    cells.append(f'{value:.1f}' if what in ('rate', 'all') else f'{value:.3f}')
  return cells


def main(argv: list[str]) -> None:
  del argv
  found: dict[Case, list[Measured]] = {}
  count = 40 if runs.quick() else COUNT
  for seed in runs.seeds():
    for case in cases():
      found.setdefault(case, []).append(run(case, count, seed))
  clean = next(iter(found.values()))
  body = [tell(case, each, clean) for case, each in found.items()]
  if not runs.quick():
    header = (
      'answers', 'plain a second', 'of the clean rate', 'all a second',
      'plain ones right',
      'pathological ones without a score',
    )  # fmt: skip
    runs.write_table(runs.RESULTS / 'verifiers.md', header, body)
    summary.write()


if __name__ == '__main__':
  runs.start(main)
