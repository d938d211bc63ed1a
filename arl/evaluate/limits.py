"""From where on something is a sign that a run goes wrong.

Sources: 'survey', a survey's table of seven failures of agentic RL, with its
numbers; an arXiv id, that paper; 'ours', chosen here so that the quickstart's
healthy runs stay below and planted faults do not
(`experiments.studies.doctor`). All are starting points.
"""

from typing import NamedTuple


class Limit(NamedTuple):
  """A number, where it comes from and what is compared with it."""

  value: float
  source: str
  meaning: str


LIMITS = {
  'window': Limit(3, 'ours', 'steps, or evaluations, that a mean is over'),
  'warm_up': Limit(5, 'ours', 'steps before which calls may be wrong'),
  'unsampled': Limit(0, 'survey', 'tokens on the mask that nobody sampled'),
  'gap': Limit(0.15, 'survey', 'mean reward less held-out success'),
  'shaping': Limit(0.5, 'ours', 'share of the reward that terms add'),
  'growth': Limit(2.0, 'survey', '95th percentile of tokens or turns / start'),
  'truncated': Limit(0.10, 'survey', 'share of the episodes that are cut off'),
  'invalid': Limit(0.05, 'survey', 'share of the actions that are no calls'),
  'looping': Limit(0.10, 'survey', 'share of the episodes that repeat'),
  'mixed': Limit(0.20, 'survey', 'share of the groups with both outcomes'),
  'mastered': Limit(0.80, 'ours', 'success above which sameness is fine'),
  'entropy': Limit(0.20, 'survey', 'entropy / start'),
  'spread': Limit(0.10, 'survey', 'deviation of rewards in a group / start'),
  'told': Limit(0.5, 'ours', 'nats a first action tells of its task, at start'),
  'scored': Limit(0.1, 'ours', 'nats a token tells of its prompt, at start'),
  'information': Limit(0.20, 'ours', 'the same / start'),
  'clipped': Limit(0.30, 'ours', 'share of the tokens that are clipped'),
  'moved': Limit(0.05, 'survey', 'mean |log-ratio| to what sampled, in nats'),
  'correlation': Limit(0.99, '2608.17393', 'of engine and trainer'),
  'exact': Limit(1e-3, 'survey', 'max |difference|, nats, of one precision'),
}


def limit(name: str) -> float:
  """The number of a limit."""
  return LIMITS[name].value
