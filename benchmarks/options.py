"""Flags that benchmarks share."""

from absl import flags

QUICK = flags.DEFINE_bool('quick', False, 'Less of each: the same lines, fast.')
# By library, the interpreter of an environment that has it.
PYTHONS = {
  library: flags.DEFINE_string(
    f'{library}_python', None, f'A Python with {library}; none: skipped.'
  )
  for library in ('verl', 'trl', 'tunix')
}
