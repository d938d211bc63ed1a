"""What a number was measured on, and whether it is what was aimed at."""

import pathlib
import platform


def cpu() -> str:
  """The name of the processor, as Linux tells it."""
  for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
    if line.startswith('model name'):
      return line.partition(':')[2].strip()
  return platform.processor()


def meets(value: float, aim: str) -> bool:
  """Whether a number is as an aim like '>= 5' wants it."""
  sign, bound = aim.split()
  return value >= float(bound) if sign == '>=' else value <= float(bound)
