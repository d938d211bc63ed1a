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
SMOLLM2 = flags.DEFINE_string(
  'smollm2', None, 'A Hugging Face folder of SmolLM2-135M; none: skipped.'
)
LINES = flags.DEFINE_string(
  'lines', None, 'Takes what was measured, and is not measured again.'
)
