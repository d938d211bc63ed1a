"""What a benchmark of several models and libraries was given, and keeps."""

import json
import pathlib
from typing import Any, NamedTuple

from absl import flags

from benchmarks import options


class Setup(NamedTuple):
  """What there is to measure with.

  Attributes:
    pythons: by library, the interpreter that has it, or None.
    smollm2: a folder of the model, or None.
    quick: whether to measure little.
    kept: a file of lines, or None.
  """

  pythons: dict[str, str | None]
  smollm2: str | None
  quick: bool
  kept: pathlib.Path | None

  def tell(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prints lines, and keeps them if there is a file for that."""
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    print(text, end='', flush=True)
    if self.kept:
      with self.kept.open('a', encoding='utf-8') as file:
        file.write(text)
    return lines

  def known(self) -> list[dict[str, Any]]:
    """The lines that are kept."""
    if not self.kept or not self.kept.exists():
      return []
    return [json.loads(x) for x in self.kept.read_text('utf-8').splitlines()]

  def missing(self, library: str, folder: Any) -> str:
    """What a comparison would need."""
    if not self.pythons[library]:
      return f'no --{library}_python'
    return '' if folder else 'no --smollm2'


def from_flags() -> Setup:
  """What the flags say."""
  lines = flags.FLAGS.lines
  return Setup(
    options.pythons(),
    flags.FLAGS.smollm2,
    options.quick(),
    pathlib.Path(lines) if lines else None,
  )
