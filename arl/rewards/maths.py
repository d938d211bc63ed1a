"""Whether a mathematical answer is the right one.

math-verify and the reader of LaTeX that it uses, behind rules of our own: one
answer is taken from a text, all of it has to be read, numbers are compared
relative to their size, equations up to a factor, and no alarm is set, so it
works in any thread. What does not end is for `pool` to end: it is asked as
`pool.call(maths.verify, gold, text)`, of a pool with `warm=maths.warm`.
"""

import functools
import logging
from typing import Any

from arl.rewards import answers, formulas, lists, sizes, verdict

_TOLERANCE = 1e-6
_EXACT = 1e-20


@functools.cache
def _libraries() -> Any:
  """sympy, math_verify and latex2sympy2_extended: loading takes a second."""
  import latex2sympy2_extended
  import math_verify
  import sympy

  # That there is no time limit in here is what we want.
  logging.getLogger('math_verify').setLevel(logging.CRITICAL)
  return sympy, math_verify, latex2sympy2_extended


def warm() -> None:
  """Loads and builds what the first answer would have to wait for."""
  for gold, answer in (
    ('1/2', '0.4'), ('x=2', 'y=3'), ('x^2+1', 'x(x+1)'), (r'\sqrt{2}', '1,2'),
    (r'\pm 7', '7'), ('(0,1]', r'\frac{1}{\sqrt{2}}'),
    ('x^2+3x+5', '5+x(3+x)'), ('x^2+3x+5', '6+x(3+x)'), ('2,-1', '-1, 2'),
  ):  # fmt: skip
    same(gold, answer)


def verify(gold: str, text: str) -> verdict.Verdict:
  """1 if the answer that a text gives is the right one, else 0.

  Args:
    gold: the right answer and nothing else, plain or in LaTeX.
    text: what the policy wrote.

  Returns:
    A score of 0 also for no answer and for one that cannot be read. An error if
    the right answer cannot be read, a timeout if the answer is too large to be
    worked out, as `sizes` says.
  """
  answer = answers.math(text)
  if answer is None:
    return verdict.scored(0.0, 'no answer')
  return same(answers.boxed(gold) or gold, answer)


def same(gold: str, answer: str) -> verdict.Verdict:
  """Whether two formulas are equal, as `verify` says of answers."""
  if gold.strip() == answer.strip():
    return verdict.scored(1.0)
  if large := sizes.too_large(answer):
    return verdict.timeout(f'not worked out: {large}')
  left, right = formulas.plain(gold), formulas.plain(answer)
  if left == right:
    return verdict.scored(1.0)
  if answers.has_words(left) or answers.has_words(right):
    return verdict.scored(left.casefold() == right.casefold(), 'as text')
  try:
    wanted = _read(left)
  except (RecursionError, MemoryError):
    raise
  except Exception as failed:
    return verdict.error(f'the right answer {gold!r} cannot be read: {failed}')
  try:
    given = _read(right)
  except (RecursionError, MemoryError):
    raise
  except Exception:  # the reader raises it
    return verdict.scored(0.0, f'cannot be read: {answer}')
  return verdict.scored(_equal(wanted, given))


def _read(formula: str) -> Any:
  """A formula as an object of sympy; raises if any of it is left over.

  One that lists others is a Listed of what they are.
  """
  if found := lists.read(formula):
    return found._replace(parts=[_read(part) for part in found.parts])
  sympy, _, reader = _libraries()
  made = reader.latex2sympy(formula, normalization_config=None)
  if isinstance(made, sympy.FiniteSet):  # as of \\pm
    return lists.Listed('{}', list(made))
  return made


def _equal(a: Any, b: Any) -> bool:
  sympy, math_verify, _ = _libraries()
  equations = [isinstance(each, sympy.Equality) for each in (a, b)]
  if all(equations):
    return _equal_equations(a, b)
  if any(equations):
    return _equal(_assigned(a), _assigned(b)) if _assigns(a, b) else False
  if isinstance(a, lists.Listed) or isinstance(b, lists.Listed):
    return _equal_lists(_listed(a), _listed(b))
  if getattr(a, 'is_number', False) and getattr(b, 'is_number', False):
    return _close(a, b)
  return math_verify.verify([a], [b], timeout_seconds=None, raise_on_error=True)


def _assigns(a: Any, b: Any) -> bool:
  """Whether the one that is an equation says what a variable is."""
  sympy = _libraries()[0]
  (equation,) = [each for each in (a, b) if isinstance(each, sympy.Equality)]
  return isinstance(equation.lhs, sympy.Symbol)


def _assigned(a: Any) -> Any:
  return a.rhs if isinstance(a, _libraries()[0].Equality) else a


def _equal_equations(a: Any, b: Any) -> bool:
  """The same variable and value, or the same up to a factor."""
  sympy = _libraries()[0]
  if isinstance(a.lhs, sympy.Symbol) and a.lhs == b.lhs:
    return _equal(a.rhs, b.rhs)
  sides = (a.lhs, a.rhs, b.lhs, b.rhs)
  if not all(isinstance(side, sympy.Expr) for side in sides):
    return a == b
  ours, theirs = (sympy.expand((e.lhs - e.rhs).doit()) for e in (a, b))
  if ours == 0 or theirs == 0:
    return ours == theirs
  factor = sympy.simplify(ours / theirs)
  return bool(factor.is_number and factor != 0)


def _listed(a: Any) -> lists.Listed:
  return a if isinstance(a, lists.Listed) else lists.Listed('{}', [a])


def _equal_lists(a: lists.Listed, b: lists.Listed) -> bool:
  """The same brackets, and equal parts; of sets in any order."""
  if a.brackets != b.brackets or len(a.parts) != len(b.parts):
    return False
  if a.ordered:
    return all(map(_equal, a.parts, b.parts))
  left = list(b.parts)
  for each in a.parts:
    twin = next((i for i, x in enumerate(left) if _equal(each, x)), None)
    if twin is None:
      return False
    del left[twin]
  return True


def _close(a: Any, b: Any) -> bool:
  """Equal numbers; with a decimal among them, to a millionth of their size."""
  sympy = _libraries()[0]
  if a == b:
    return True
  decimal = a.has(sympy.Float) or b.has(sympy.Float)
  gap = (a - b).doit()
  if gap.is_Rational and not decimal:
    return bool(gap == 0)
  size, gap = abs(sympy.N(b, 50)), abs(sympy.N(gap, 50))
  if not (size.is_finite and gap.is_finite):
    return False
  return bool(gap <= (_TOLERANCE if decimal else _EXACT) * size)
