"""What a batch of episodes shows of how a policy acts, as metrics by name.

These are what `arl.evaluate.doctor` reads; BUILD.md has the names in a table.
"""

import collections
import math
from collections.abc import Sequence

import numpy as np

from arl import episode

LOOP = 3  # times that the same is done with the same answer
_VERSION = 'rollout_version'


def measure(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """All metrics of this module; nothing of what is not there to be measured.

  Args:
    episodes: of one rollout batch, those of a task in any order. Those without
      a grade are left out.
  """
  played = [e for e in episode.whole(episodes) if episode.graded(e)]
  if not played:
    return {}
  groups = [group.episodes for group in episode.groups(played)]
  return outcomes(groups) | lengths(played) | actions(played) | told(groups)


def outcomes(
  groups: Sequence[Sequence[episode.Episode]],
) -> dict[str, float]:
  """How the rollouts of a task differ, over the tasks that have several.

  `groups/solved` and `groups/unsolved`, the shares of tasks that all and that
  no rollouts solved; `groups/mixed`, of the others; `groups/varied`, of those
  whose rewards are not all the same; `groups/std`, the mean deviation of the
  rewards of a task, by n - 1.
  """
  rewards = [[*map(episode.total_reward, each)] for each in groups]
  rewards = [each for each in rewards if len(each) > 1]
  if not rewards:
    return {}
  shares = [np.mean(np.array(each) >= episode.SOLVED) for each in rewards]
  solved = float(np.mean([share == 1 for share in shares]))
  unsolved = float(np.mean([share == 0 for share in shares]))
  return {
    'groups/solved': solved,
    'groups/unsolved': unsolved,
    'groups/mixed': 1 - solved - unsolved,
    'groups/varied': float(np.mean([np.ptp(each) > 0 for each in rewards])),
    'groups/std': float(np.mean([np.std(each, ddof=1) for each in rewards])),
  }


def lengths(played: Sequence[episode.Episode]) -> dict[str, float]:
  """`length/tokens_p95`, `length/turns_p95` and the share `length/truncated`.

  The 95th percentiles over episodes of the tokens that the policy sampled and
  of the turns that it took; the share that a limit cut off.
  """
  tokens = [int(np.count_nonzero(e.mask)) for e in played]
  turns = [np.unique(e.turn[e.mask]).size for e in played]
  return {
    'length/tokens_p95': float(np.percentile(tokens, 95)),
    'length/turns_p95': float(np.percentile(turns, 95)),
    'length/truncated': float(
      np.mean([e.status in episode.TRUNCATED for e in played])
    ),
  }


def actions(played: Sequence[episode.Episode]) -> dict[str, float]:
  """Calls that cannot be, and what is done over and over.

  `calls/invalid`, the share of answered actions that were no valid ones (see
  `invalid`); `loops/share`, of the episodes in which the same action got the
  same answer `LOOP` times; `loops/distinct`, the mean over episodes of the
  share of actions that are not a repetition of that kind.
  """
  answered = [x for e in played for x in _answered(e)]
  counts = [repeats(e) for e in played if _answered(e)]
  if not counts:
    return {}
  return {
    'calls/invalid': float(np.mean([invalid(x) for x in answered])),
    'loops/share': float(np.mean([max(each) >= LOOP for each in counts])),
    'loops/distinct': float(np.mean([len(c) / sum(c) for c in counts])),
  }


def repeats(one: episode.Episode) -> list[int]:
  """How often each different exchange of an episode occurs."""
  done = [(x.action.strip(), x.turn.text) for x in _answered(one)]
  return list(collections.Counter(done).values())


def invalid(exchange: episode.Exchange) -> bool:
  """Whether an action called no tool there is, or with arguments it lacks.

  As the environment tells; where it does not, whether it answered with an
  error, whatever that was of.
  """
  valid = exchange.turn.valid
  if valid is None:
    return exchange.turn.text.lower().startswith('error: ')
  return not valid


def _answered(one: episode.Episode) -> Sequence[episode.Exchange]:
  """Without what a limit of tokens cut off, which no environment saw."""
  cut = one.status == episode.MAX_TOKENS and one.exchanges
  last = cut and not one.exchanges[-1].turn.text
  return one.exchanges[:-1] if last else one.exchanges


def told(groups: Sequence[Sequence[episode.Episode]]) -> dict[str, float]:
  """`actions/information`: what a first action tells of its task, in nats.

  The mutual information of task and first action, from counts, less the same
  where the actions are dealt out at random, which is what chance alone gives
  counts so few: about 0 for a policy that says the same whatever it is asked,
  however varied that is. And `actions/entropy`, that of the first action. Both
  ours: RAGEN-2 (arXiv:2604.06268) asks the model for likelihoods under
  exchanged prompts instead.
  """
  first = [[_first(e) for e in each if e.exchanges] for each in groups]
  first = [each for each in first if len(each) > 1]
  if len(first) < 2:
    return {}
  said = [action for each in first for action in each]
  dealt = list(np.random.default_rng(0).permutation(np.array(said, object)))
  ends = np.cumsum([len(each) for each in first])
  by_chance = [
    dealt[end - len(each) : end] for each, end in zip(first, ends, strict=True)
  ]
  chance = _conditional(by_chance)
  return {
    'actions/entropy': _entropy(said),
    'actions/information': max(chance - _conditional(first), 0.0),
  }


def _first(one: episode.Episode) -> str:
  return one.exchanges[0].action.strip()


def _conditional(groups: Sequence[Sequence[str]]) -> float:
  """The entropy within groups, weighed by their sizes."""
  sizes = [len(each) for each in groups]
  return float(np.average([_entropy(each) for each in groups], weights=sizes))


def _entropy(values: Sequence[str]) -> float:
  n = len(values)
  counts = collections.Counter(values).values()
  return -math.fsum(c / n * math.log(c / n) for c in counts)


def unsampled(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """`audit/unsampled`: tokens to be trained on that no engine sampled.

  The mask derived anew from the calls of the engine, whose answers carry the
  version of the weights on each of their tokens and no other token does.
  Right answers that a strategy has put in (column `answer`) do not count.
  Episodes that nobody sampled, such as demonstrations, and those without
  versions are left out; nothing where there are no others.
  """
  counts = [
    int(np.count_nonzero(_chosen(e) & (e.extras[_VERSION] < 0)))
    for e in episodes
    if _VERSION in e.extras and np.any(e.extras[_VERSION] >= 0)
  ]
  return {'audit/unsampled': float(sum(counts))} if counts else {}


def _chosen(one: episode.Episode) -> np.ndarray:
  """Where the policy is said to have chosen the token."""
  return one.mask & ~one.extras.get('answer', np.zeros(1, bool))
