"""Flags that benchmarks share."""

from collections.abc import Callable

from absl import flags

from arl import command

LIBRARIES = ('verl', 'trl', 'tunix')


def start(
  main: Callable[[list[str]], object],
  define: Callable[[], object] = lambda: None,
) -> None:
  """Runs a benchmark with the flags that all of them share.

  Args:
    main: the benchmark.
    define: defines the flags of its own.
  """

  def both() -> None:
    flags.DEFINE_bool('quick', False, 'Less of each: the same lines, fast.')
    for library in LIBRARIES:
      flags.DEFINE_string(
        f'{library}_python', None, f'A Python with {library}; none: skipped.'
      )
    flags.DEFINE_string(
      'smollm2', None, 'A Hugging Face folder of SmolLM2-135M; none: skipped.'
    )
    flags.DEFINE_string(
      'lines', None, 'Takes what was measured, and is not measured again.'
    )
    define()

  command.run(main, both)


def quick() -> bool:
  """Whether less is measured."""
  return flags.FLAGS.quick


def pythons() -> dict[str, str | None]:
  """By library, the interpreter of an environment that has it."""
  return {name: flags.FLAGS[f'{name}_python'].value for name in LIBRARIES}
