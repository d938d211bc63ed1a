"""Where what was sampled first spells a text that ends it."""

from collections.abc import Callable, Sequence

from arl.rollout import engine


def find(
  ids: Sequence[int],
  texts: Sequence[str],
  read: Callable[[Sequence[int]], str],
) -> tuple[int, str] | None:
  """How many ids it takes to spell one of the texts, and which.

  Args:
    ids: what was sampled.
    texts: none of them empty.
    read: ids as text; more ids must not take back a text that was complete.

  Returns:
    The fewest ids, and the first of the texts that they spell; None where all
    of the ids spell none.
  """

  def spelt(n: int) -> str | None:
    whole = read(ids[:n])
    return next((text for text in texts if text in whole), None)

  if not texts or spelt(len(ids)) is None:
    return None
  low, high = 1, len(ids)
  while low < high:
    middle = (low + high) // 2
    if spelt(middle) is None:
      low = middle + 1
    else:
      high = middle
  text = spelt(low)
  assert text is not None
  return low, text


def cut(
  sample: engine.Sample,
  texts: Sequence[str],
  read: Callable[[Sequence[int]], str],
) -> engine.Sample:
  """The sample up to the token that completes one of the texts."""
  found = find(sample.tokens.tolist(), texts, read)
  return sample if found is None else engine.cut(sample, found[0])


def refuse(sampling: engine.Sampling) -> None:
  """For engines that know no text.

  Raises:
    ValueError: the sampling has texts that end a sample.
  """
  if sampling.stop_text:
    raise ValueError(
      f'sampling.stop_text is {sampling.stop_text}, but this engine knows no'
      ' text; leave it empty, or use LocalEngine(read=...) or a server.'
    )
