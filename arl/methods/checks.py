"""What is refused when a method is built: reads and numbers of its kernels."""

from typing import Any

from arl import columns as columns_lib
from arl import names
from arl.kernels import corrections
from arl.methods import binding

_POLICY = columns_lib.filled_by(columns_lib.POLICY)
_SCORED = columns_lib.filled_by(columns_lib.SCORE)
_BY_RHO: frozenset[Any] = corrections.WEIGH_BY_RHO
_CUT_FREELY = frozenset({'seq', 'turn'})  # these lie within a row


def check_rho(objective: Any) -> None:
  """Refuses what counts the ratio to the sampler twice.

  Args:
    objective: a `compose.Objective`.

  Raises:
    ValueError: two corrections weigh by the ratio of `old_logp` to
      `rollout_logp`, or one does and the surrogate's own ratio is to
      `rollout_logp`.
  """
  surrogate = binding.read_by(objective.surrogate)
  anchored = 'rollout_logp' in binding.read_by(objective.ratio)
  counted = []
  if 'rollout_logp' in surrogate or (anchored and 'log_ratio' in surrogate):
    counted.append(objective.surrogate)
  advantage = objective.advantage
  steps = () if callable(advantage) else [kernel for _, kernel in advantage]
  counted += [
    kernel
    for kernel in (*steps, *objective.corrections)
    if binding.function_of(kernel) in _BY_RHO
  ]
  if len(counted) > 1:
    both = ' and '.join(repr(binding.kernel_name(k)) for k in counted[:2])
    raise ValueError(
      f'objective: {both} each count the ratio to the policy that sampled;'
      ' weigh by it once: drop one of them.'
    )


def _check_reads(term, phase, chain, available, forbidden=frozenset()):
  """Names what a chain of steps reads from outside; refuses what is unknown."""
  needed, made = set(), set(available)
  known = set(columns_lib.COLUMNS) | made
  for name, kernel in chain:
    for column in binding.read_by(kernel):
      where = f'term {term.name!r}: kernel {binding.kernel_name(kernel)!r}'
      if column in made:
        continue
      if column in forbidden:
        raise ValueError(
          f'{where} reads {column!r} in its {phase}, where nothing is'
          ' differentiated and that column does not exist yet; read a column'
          f' of the policy that acted: {", ".join(sorted(_SCORED))}.'
        )
      if column not in known:
        raise ValueError(
          f'{where} reads {column!r}, which is no column; to set it, bind it:'
          f' partial({binding.kernel_name(kernel)}, {column}=...)'
          f'{names.suggest(column, known)}'
        )
      if columns_lib.COLUMNS[column].filler == columns_lib.STEP:
        raise ValueError(
          f'{where} reads {column!r} in its {phase}, where no earlier step'
          f' gives it; add a step named {column!r} before it.'
        )
      needed.add(column)
    made.add(name)
    known.add(name)
  return needed


def check(term: Any) -> tuple[set[str], set[str]]:
  """What a term needs and which levels a microbatch must keep whole.

  Args:
    term: a `compose.Term`.

  Raises:
    ValueError: a kernel reads what nothing provides, or a number bound to it is
      out of its range.
  """
  given = {name for name, _ in term.credit}
  weigh = (('weights', term.aggregate),)
  needs = _check_reads(term, 'credit', term.credit, (), _POLICY)
  needs |= _check_reads(term, 'aggregate', weigh, given, _POLICY)
  inner = (*term.loss, *term.monitors)
  read = _check_reads(term, 'loss', inner, given)
  if not term.loss or term.loss[-1][0] != 'loss':
    raise ValueError(f'term {term.name!r}: its last step must give "loss".')
  for _, kernel in (*term.credit, *weigh, *inner):
    binding.check_ranges(f'term {term.name!r}', kernel)
  is_level = {n for n, c in columns_lib.COLUMNS.items() if c.shape == 'Level'}
  return needs | read, (read & is_level) - _CUT_FREELY
