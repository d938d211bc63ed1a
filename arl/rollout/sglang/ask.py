"""What is asked of SGLang's /generate: ids, never text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arl.rollout import engine


class Facts(NamedTuple):
  """What is true of every server of an engine.

  Attributes:
    ours: whether it is arl's own server, whose log-probs are always those of
      the distribution sampled from, and which tells its entropy.
    vocab: how many ids the model knows.
    texts: whether every server knows text.
    experts: how many layers of a mixture, and experts a token; zeros for none.
    names: the versions behind names that are no numbers.
  """

  ours: bool
  vocab: int
  texts: bool
  experts: tuple[int, int]
  names: Mapping[str, int]


# The largest top_k of which SGLang tells what it kept.
MOST_KEPT = 4096


def truncated(sampling: engine.Sampling) -> bool:
  """Whether some tokens cannot be sampled."""
  cut = sampling.top_p < 1 or sampling.top_k > 0
  return cut and sampling.temperature > 0


def _top_k(sampling: engine.Sampling, facts: Facts) -> int:
  """SGLang's: -1 for all, but all by number where it tells what it kept."""
  if sampling.top_k and sampling.temperature > 0:
    return sampling.top_k
  return facts.vocab if truncated(sampling) and not facts.ours else -1


def tokens(
  request: engine.Request,
  sampling: engine.Sampling,
  facts: Facts,
  *,
  rid: str,
  seed: int,
  salt: str,
) -> dict[str, Any]:
  """The body of a request.

  Every number that changes the distribution is given: a server may have been
  started with other defaults.

  Args:
    request: what to continue.
    sampling: how.
    facts: about the servers.
    rid: names the request; no other may begin with it, since an abort stops
      every request whose name begins with what it is given.
    seed: of this request.
    salt: what was computed under another one is not used again.
  """
  greedy, cut = sampling.temperature == 0, truncated(sampling)
  parameters: dict[str, Any] = {
    'max_new_tokens': request.max_tokens,
    'temperature': sampling.temperature,
    'top_p': 1.0 if greedy else sampling.top_p,
    'top_k': _top_k(sampling, facts),
    'min_p': 0.0,
    'frequency_penalty': 0.0,
    'presence_penalty': 0.0,
    'repetition_penalty': 1.0,
    'stop': list(sampling.stop_text),
    'skip_special_tokens': False,  # where those texts are looked for
    'stop_token_ids': [int(i) for i in sampling.stop],
    'ignore_eos': not sampling.stop,  # it ignores stop ids, too
    'sampling_seed': seed,
  }
  body: dict[str, Any] = {
    'input_ids': [int(i) for i in request.tokens],
    'rid': rid,
    'sampling_params': parameters,
    'return_logprob': True,
    'stream': False,
  }
  if sampling.experts:
    body['return_routed_experts'] = True
  if facts.ours:
    parameters['custom_params'] = {'path': [int(i) for i in request.path]}
    return body | ({'return_entropy': True} if sampling.entropy else {})
  body['extra_key'] = salt
  if cut:
    body |= {
      'return_sampling_mask': True,
      'sampling_logprobs_mode': 'selected',
    }
  return body


def scores(ids: Sequence[int], rid: str, top: int = 0) -> dict[str, Any]:
  """The body of a request that samples nothing.

  Args:
    ids: what is scored.
    rid: names the request.
    top: how many of the likeliest tokens are told at each place.
  """
  return {
    'input_ids': [int(i) for i in ids],
    'rid': rid,
    'sampling_params': {'max_new_tokens': 0, 'temperature': 1.0},
    'return_logprob': True,
    'logprob_start_len': 0,
    'top_logprobs_num': top,
    'stream': False,
  }
