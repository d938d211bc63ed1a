"""Servers that answer wrongly, late, twice or not at all.

The numbers in names are those of a collection of faults that were found in
other libraries.
"""

import asyncio
from typing import Any

import numpy as np
import pytest
import served

from arl.rollout import engine
from arl.rollout.sglang import worker as sglang_worker
from experiments.studies import pretend

PLAIN = engine.Sampling()
REQUEST = engine.Request((1, 2, 3), 4, (0, 0))


def twisted(change, request=REQUEST, sampling=PLAIN):
  """The sample of an answer that was changed before it was sent."""

  def twist(body, answer):
    if body['rid'].startswith('arl-greeting'):
      return answer
    change(answer, answer['meta_info'])
    return answer

  with served.serving() as (client, _, (model,)):
    model.twist = twist
    return client.generate([request], sampling)[0]


def trim_ids(answer, meta):  # 7: the stop token is cut off the ids
  answer['output_ids'] = answer['output_ids'][:-1]


def trim_both(answer, meta):
  trim_ids(answer, meta)
  meta['completion_tokens'] -= 1


def other_ids(answer, meta):  # 11: the text was encoded anew, at equal length
  answer['output_ids'] = [(i + 1) % pretend.VOCAB for i in answer['output_ids']]


def fewer_ids(answer, meta):  # 11: ... and shorter
  answer['output_ids'] = answer['output_ids'][:1]
  meta['completion_tokens'] = 1


def unknown_id(answer, meta):
  answer['output_ids'][0] = pretend.VOCAB


def not_a_number(answer, meta):
  meta['output_token_logprobs'][1][0] = float('nan')


def no_logp(answer, meta):
  meta['output_token_logprobs'][1][0] = None


def likely(answer, meta):
  meta['output_token_logprobs'][1][0] = 0.5


def other_length(answer, meta):
  meta['output_token_logprobs_length'] = 9


def other_prompt(answer, meta):
  meta['prompt_tokens'] = 9


def unknown_finish(answer, meta):
  meta['finish_reason'] = {'type': 'tired'}


def no_object(answer, meta):
  meta['finish_reason'] = 'stop'


def no_triples(answer, meta):
  meta['output_token_logprobs'] = [-0.1] * 4


def stopped_by_text(answer, meta):
  meta['finish_reason'] = {'type': 'stop', 'matched': 'NaN happened'}


def stopped_elsewhere(answer, meta):
  meta['finish_reason'] = {'type': 'stop', 'matched': answer['output_ids'][-1]}


def short_spans(answer, meta):
  meta['weight_versions'][0]['end'] = 3


def no_spans(answer, meta):
  del meta['weight_versions']


def named_version(answer, meta):
  meta['weight_versions'][0]['version'] = 'default'


def no_cached(answer, meta):
  del meta['cached_tokens']


WRONG: list[tuple[Any, str]] = [
  (trim_ids, '3 came back'),
  (trim_both, '4 log-probs for 3 tokens'),
  (other_ids, 'of other ids'),
  (fewer_ids, '4 log-probs for 1 tokens'),
  (unknown_id, 'none of 64 ids'),
  (not_a_number, 'not all finite'),
  (no_logp, 'not all finite'),
  (likely, 'not all finite'),
  (other_length, 'said to be 9'),
  (other_prompt, 'counts 9 tokens'),
  (unknown_finish, 'does not know'),
  (no_object, 'request arl-'),
  (no_triples, 'request arl-'),
  (stopped_by_text, 'NaN happened'),
  (stopped_elsewhere, 'not among the stop ids'),
  (short_spans, 'do not cover 4 tokens'),
  (no_spans, "'weight_versions' should be a list"),
  (named_version, '--weight-version 0'),
  (no_cached, "'cached_tokens' should be"),
]


@pytest.mark.parametrize('change, what', WRONG)
def test_an_answer_whose_parts_disagree_is_an_error(change, what):
  with pytest.raises(sglang_worker.ServerError, match=what) as caught:
    twisted(change)
  assert 'http://127.0.0.1' in str(caught.value)
  assert 'request arl-' in str(caught.value)


def test_26_the_temperature_reaches_the_server_and_the_log_probs():
  with served.serving() as (client, _, (model,)):
    client.generate([REQUEST], PLAIN._replace(temperature=0.7))
    body = served.asked(model)[-1]
    assert body['sampling_params']['temperature'] == 0.7


def test_28_truncated_sampling_takes_the_log_probs_of_what_was_kept():
  def kept(answer, meta):
    meta['output_token_sampling_logprobs'] = [-0.25] * 4

  cut = PLAIN._replace(top_p=0.8)
  sample = twisted(kept, sampling=cut)
  assert sample.logp.tolist() == [-0.25] * 4
  with pytest.raises(
    sglang_worker.ServerError, match='output_token_sampling_logprobs'
  ):
    twisted(lambda answer, meta: None, sampling=cut)
  greedy = cut._replace(temperature=0.0)  # nothing is cut from one token
  np.testing.assert_allclose(
    twisted(lambda answer, meta: None, sampling=greedy).logp,
    pretend.logp(
      0,
      twisted(lambda answer, meta: None, sampling=greedy).tokens.tolist(),
    ),
    rtol=1e-6,
  )


def test_42_an_abort_is_no_finished_answer_and_keeps_its_tokens():
  def aborted(answer, meta):
    meta['finish_reason'] = {'type': 'abort', 'message': 'Aborted'}

  sample = twisted(aborted)
  assert sample.finish == engine.ABORT
  assert len(sample.tokens) == len(sample.logp) == len(sample.versions) == 4


def test_42_a_request_aborted_in_the_queue_is_an_empty_abort():
  def queued(answer, meta):
    answer['output_ids'] = []
    meta.update(
      completion_tokens=0,
      output_token_logprobs=[],
      output_token_logprobs_length=0,
      finish_reason={'type': 'abort', 'message': 'Abort in waiting queue'},
      weight_versions=[{'version': '0', 'start': 0, 'end': 0}],
    )

  sample = twisted(queued)
  assert sample.finish == engine.ABORT
  assert len(sample.tokens) == 0


def streamed(change):
  """The pieces of a stream of which the last was changed."""
  with served.serving() as (client, _, (model,)):
    model.twist = lambda body, answer: change(answer)

    async def pieces():
      return [piece async for piece in client.stream(REQUEST, PLAIN)]

    return asyncio.run(pieces())


def cut_to_the_last(answer, version='0'):
  meta = answer['meta_info']
  answer['output_ids'] = answer['output_ids'][-1:]
  meta.update(
    completion_tokens=1,
    output_token_logprobs=meta['output_token_logprobs'][-1:],
    output_token_logprobs_length=1,
    finish_reason={'type': 'abort', 'message': 'Aborted'},
    weight_version=version,
    weight_versions=[{'version': version, 'start': 0, 'end': 1}],
  )
  return answer


def test_42_a_stream_that_is_aborted_with_its_last_token_keeps_all():
  # The fourth token came only with the last piece, which the stream had not
  # seen: three tokens were given, and the abort repeats the last of them.
  def change(answer):
    meta = answer['meta_info']
    answer['output_ids'] = answer['output_ids'][:3]
    meta['output_token_logprobs'] = meta['output_token_logprobs'][:3]
    return cut_to_the_last(answer)

  *_, before, last = streamed(change)
  assert last.finish == engine.ABORT
  assert len(last.tokens) == 3
  np.testing.assert_array_equal(last.tokens, before.tokens)
  assert last.versions.tolist() == [0, 0, 0]


def test_42_versions_that_cannot_be_told_are_not_guessed():
  def change(answer):
    meta = answer['meta_info']
    answer['output_ids'] = answer['output_ids'][:3]
    meta['output_token_logprobs'] = meta['output_token_logprobs'][:3]
    return cut_to_the_last(answer, version='1')

  with pytest.raises(sglang_worker.ServerError, match='between versions 0 and'):
    streamed(change)


def test_a_stream_that_takes_tokens_back_is_an_error():
  def change(answer):
    answer['output_ids'][0] = (answer['output_ids'][0] + 1) % pretend.VOCAB
    answer['meta_info']['output_token_logprobs'][0][1] = answer['output_ids'][0]
    return answer

  with pytest.raises(sglang_worker.ServerError, match='should only grow'):
    streamed(change)


def test_a_stream_that_breaks_is_not_begun_anew():
  def choose(path, body):
    return 'truncated' if body and body.get('stream') else ''

  with served.serving(choose) as (client, _, _):

    async def pieces():
      return [piece async for piece in client.stream(REQUEST, PLAIN)]

    with pytest.raises(sglang_worker.ServerError, match='ended early'):
      asyncio.run(pieces())
