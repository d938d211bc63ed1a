"""Flags that benchmarks share."""

from absl import flags

QUICK = flags.DEFINE_bool('quick', False, 'Less of each: the same lines, fast.')
