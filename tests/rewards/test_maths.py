"""Mathematical answers: what is equal, and that one answer counts."""

import asyncio
import threading
import time

import pytest

from arl.rewards import maths, pool, verdict

YES, NO = 1.0, 0.0
# What libraries get wrong, or right, with what is wanted.
EQUALITY = [
  (r'$\frac{1}{3^{80}}$', r'$\frac{1}{3^{81}}$', NO),
  ('0.0000001', '0.0000003', NO),
  ('5p+q-8=0', 'p-2q+1=0', NO),
  (r'$2-\frac{3}{\mathrm{q}}$', r'$2+\frac{3}{\mathrm{q}}$', NO),
  ('$12$', r'first \boxed{7} then \boxed{12}', YES),
  ('$k=5,6$', '$k=4,6$', NO),
  (r'$\pm 7$', '$7$', NO),
  ('$(2,3)$', '$(3,2)$', NO),
  ('48', 'Result: **48**', YES),
  ('$17$', r'$\text{17}$', YES),
  ('1,250', '$1250$', YES),
  (r'$\frac{5}{8}$', '0.625', YES),
]
COLUMN = r'\begin{pmatrix}1\\2\end{pmatrix}'
MORE = [
  (r'$2-\frac{3}{\mathrm{q}}$', r'\boxed{2 - \frac{3}{q}}', YES),
  (r'\frac{1}{3^{80}}', r'\boxed{3^{-80}}', YES),
  ('5p+q-8=0', r'\boxed{16 - 10p = 2q}', YES),
  ('5p+q-8=0', r'\boxed{5p+q-9=0}', NO),
  ('x=5', r'\boxed{5}', YES),
  ('5', r'\boxed{x=5}', YES),
  ('5', r'\boxed{x+1=5}', NO),
  ('$k=5,6$', r'\boxed{k=6,5}', YES),
  (r'$\pm 7$', r'\boxed{-7, 7}', YES),
  ('(2,3)', r'\boxed{\left(2, \frac{6}{2}\right)}', YES),
  ('(0,1]', r'\boxed{(0,1)}', NO),
  ('0.333333', r'\boxed{\frac{1}{3}}', YES),
  ('1/3', r'\boxed{0.33}', NO),
  (str(2**200), rf'\boxed{{{2**200 + 1}}}', NO),
  (str(2**200), r'\boxed{2^{200}}', YES),
  (r'\frac{\sqrt{2}}{2}', r'\boxed{\frac{1}{\sqrt{2}}}', YES),
  (r'\sqrt{2}', r'\boxed{1.41}', NO),
  ('1e-7', r'\boxed{0.0000001}', YES),
  ('10', r'\boxed{10\text{ cm}}', YES),
  ('10', r'\boxed{10 cm}', YES),
  ('10', r'\boxed{10cm}', YES),
  ('10', r'\boxed{10\text{ cm}^2}', YES),
  ('10', r'\boxed{10\,\mathrm{cm}}', YES),
  ('10', r'\boxed{10 apples}', YES),
  ('10', r'\boxed{10m}', NO),
  ('5+a', r'\boxed{a+5m}', NO),
  (r'x\text{ if }y', r'\boxed{x}', NO),
  ('x^2+2x+1', r'\boxed{(x+1)^2}', YES),
  ('x^2+2x+1', r'\boxed{(x-1)^2}', NO),
  (r'\{1, 2\}', r'\boxed{\{2, 1\}}', YES),
  (COLUMN, rf'\boxed{{{COLUMN}}}', YES),
  (COLUMN, rf'\boxed{{{COLUMN.replace("2", "3")}}}', NO),
  (COLUMN, rf'\boxed{{{COLUMN.replace("2", "4/2")}}}', YES),
  (r'\text{east}', r'\boxed{East}', YES),
  ('east', r'\boxed{west}', NO),
  ('(C)', r'\boxed{\text{(C)}}', YES),
  (r'\infty', r'\boxed{-\infty}', NO),
  ('5', r'\boxed{\[5\]}', YES),
  ('1/3', r'\boxed{0.\overline{3}}', YES),
  (r'2.1\overline{45}', r'\boxed{\frac{118}{55}}', YES),
  (r'\{x: x>1\}', r'\boxed{\emptyset}', NO),
  (r'\{x \mid x > 1\}', r'\boxed{x>1}', YES),
  (r'\{x | x>1\}', r'\boxed{\{x : x > 2\}}', NO),
  (r'\pi n', r'\boxed{n \cdot \pi}', YES),
  ('(0,\\infty)', r'\boxed{(0, +\infty)}', YES),
  ('(0,1)\\cup(2,3)', r'\boxed{(2,3)\cup(0,1)}', YES),
  ('0', r'\boxed{0.0}', YES),
  ('0', r'\boxed{0.0000001}', NO),
]  # fmt: skip
# One answer is read, and naming several is wrong.
ONE_ANSWER = [
  ('12', r'\boxed{7} or \boxed{12}', YES),
  ('12', r'\boxed{12} no, \boxed{7}', NO),
  ('12', r'\boxed{7 or 12}', NO),
  ('12', r'\boxed{7, 12}', NO),
  ('12', r'\boxed{7\text{ or }12}', NO),
  ('12', 'It is 7 or 12', NO),
  ('12', 'It is 12 or 7', NO),
  ('12', 'Between 7, 11 and 12', NO),
  ('12', 'It is $7$ or $12$.', NO),
  ('12', 'I first had 7. Now it is 12.', YES),
  ('12', r'\boxed{12', NO),
  ('12', r'\boxed{7} and then \boxed{12', NO),
  ('12', r'<think>\boxed{12}</think> I do not know', NO),
  ('12', r'<think>\boxed{12}', NO),
  ('12', r'<think>\boxed{7}</think> \boxed{12}', YES),
  ('12', r'\boxed{}', NO),
  ('12', '', NO),
  ('12', ' ', NO),
  ('12', r'\boxed{12\}', NO),
  (r'\{12\}', r'\boxed{\{12\}}', YES),
  ('12', r'\boxed{\text{the answer is }12}', NO),
  ('12', '<answer>12</answer>', YES),
  ('3/4', 'so we get $x = \\frac{3}{4}$.', YES),
  ('-3', 'The answer is -3.', YES),
  ('12', '12' * 100, NO),
  ('12', '12 ' * 100, NO),
]


@pytest.mark.parametrize('gold, text, wanted', EQUALITY + MORE + ONE_ANSWER)
def test_equality(gold, text, wanted):
  answer = maths.verify(gold, text)
  assert (answer.score, answer.status) == (wanted, verdict.SCORED), answer


def test_a_right_answer_that_cannot_be_read_is_an_error():
  answer = maths.verify(r'\frac{1}{', r'\boxed{1}')
  assert answer.status == verdict.ERROR
  assert 'cannot be read' in answer.detail
  assert maths.verify('x+', r'\boxed{x+}').score == 1  # the same text


LARGE = [
  '$9^{9^{9^{9}}}$',
  '$10^{10^{10}}$',
  '$(10^{7})!$',
  r'\boxed{9**9**9**9}',
  r'\boxed{2^{(10^5)!}}',
  r'\boxed{\binom{10000000}{5000000}}',
  rf'\boxed{{{"1" * 1500}}}',
  rf'\boxed{{{"9" * 2000}}}',
  r'\boxed{' + r'\frac{1}{' * 100 + '2' + '}' * 101,
  r'\boxed{' + '1,' * 60 + '1}',
  r'\boxed{' + r'\sqrt{1+' * 40 + '2' + '}' * 41,
]


@pytest.mark.parametrize('text', LARGE)
def test_what_is_too_large_is_a_timeout_at_once(text):
  start = time.process_time()
  answer = maths.verify('5', text)
  assert answer.status == verdict.TIMEOUT
  assert answer.detail.startswith('not worked out: ')
  assert time.process_time() - start < 1


@pytest.mark.parametrize(
  'text', ['2^{1000}', 'x^{2024}', '20!', r'\binom{50}{25}', 'e^{x^{2}}', '!']
)
def test_what_is_large_enough_is_worked_out(text):
  assert maths.verify('5', rf'\boxed{{{text}}}')[:2] == (0.0, 'scored')


@pytest.mark.parametrize(
  'junk',
  [
    '$',
    '\\boxed{',
    '{',
    '\\(',
    '<answer>',
    '1,',
    '**',
    '<think>',
    '^',
    '5',
    ' ',
    ' a',
  ],
)
def test_reading_is_linear(junk):
  start = time.process_time()
  maths.verify('5', junk * (200_000 // len(junk)))
  maths.verify('5', rf'\boxed{{{junk * (200_000 // len(junk))}}}')
  maths.verify('5', rf'\boxed{{{"5 " + junk * (990 // len(junk))}}}')
  assert time.process_time() - start < 2


@pytest.fixture(scope='module')
def made():
  with pool.Pool(2, seconds=2.0, warm=maths.warm) as each:
    yield each


def test_from_anywhere(made):
  """The main thread, a thread, asyncio, and another process."""
  found = [maths.verify('5/8', '0.625')]
  thread = threading.Thread(
    target=lambda: found.append(maths.verify('5/8', '0.625'))
  )
  thread.start()
  thread.join()

  async def ask():
    return maths.verify('5/8', '0.625'), await made.ask(
      maths.verify, '5/8', '0.625'
    )

  found += asyncio.run(ask())
  assert found == [verdict.scored(1.0)] * 4


# Small to look at, and hard to work out.
HARD = [
  r'\boxed{(x+y+z+1)^{300}}',
  r'\boxed{\sum_{k=1}^{10^{9}} \frac{1}{k}}',
  r'\boxed{\int_0^1 \sin(x^x)\ln(x+\sqrt{x})\,dx}',
  r'\boxed{2^{9999}!}',
]


def test_a_pool_answers_whatever_it_is_asked(made):
  start = time.monotonic()
  hard = [made.submit(maths.verify, 'x+1', text) for text in HARD]
  plain = made.map(maths.verify, [('5/8', '0.625')] * 20)
  assert [p.score for p in plain] == [1.0] * 20
  for each in hard:
    assert each.result().score in (None, 0.0)
  assert time.monotonic() - start < 60
  assert made.call(maths.verify, '5/8', '0.625').score == 1
