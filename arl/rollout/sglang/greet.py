"""Meeting a server: is it new enough, and does it serve the trainer's model?"""

import contextlib
import json
import pathlib
import secrets
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arl.rollout import event_loop
from arl.rollout.sglang import answers as sglang_answers
from arl.rollout.sglang import worker as sglang_worker

_TOLERANCE = 1e-3  # of a difference of log-probs


class Met(NamedTuple):
  """What servers said about themselves.

  Attributes:
    ours: whether they are arl's own.
    version: of the weights that all of them hold.
    folders: of the models that they loaded, by their own reckoning.
    ranks: tensor-parallel ranks of each.
    texts: whether all of them know text.
  """

  ours: bool
  version: int
  folders: tuple[str, ...]
  ranks: tuple[int, ...]
  texts: bool


async def greet(
  workers: Sequence[sglang_worker.Worker],
  *,
  vocab: int | None,
  context: int,
  names: Mapping[str, int],
) -> Met:
  """Looks at every server.

  Args:
    workers: the servers.
    vocab: how many ids the trainer's model knows; None where theirs may differ.
    context: tokens of the longest sequence.
    names: versions behind names that are no numbers.

  Raises:
    ServerError: one cannot be used, with the reason.
  """
  each = await event_loop.together(
    [_one(w, vocab=vocab, context=context, names=names) for w in workers]
  )
  for what in ('ours', 'version'):
    found = {worker.url: getattr(m, what) for worker, m in zip(workers, each)}
    if len(set(found.values())) > 1:
      raise sglang_worker.ServerError(
        f'the servers differ in {what}: {found}; start them alike, and restart'
        ' them where they hold weights of different steps.'
      )
  return each[0]._replace(
    folders=tuple(m.folders[0] for m in each),
    ranks=tuple(m.ranks[0] for m in each),
    texts=all(m.texts for m in each),
  )


async def _one(worker, *, vocab, context, names) -> Met:
  try:
    about = await worker.get('/model_info')
  except sglang_worker.Unreachable as error:
    raise sglang_worker.ServerError(
      f'{error}; start a server there with launch/sglang.sh or python -m'
      ' launch.serve, or give the address of one that runs.'
    ) from error
  server = await worker.get('/server_info')
  models = await worker.get('/v1/models')
  ours = server.get('engine') == 'arl'
  folder = str(about.get('model_path', ''))
  _check_vocab(worker.url, folder, vocab)
  _check_context(worker.url, models, context)
  if not ours:
    _check_flags(worker.url, server)
    await _check_temperature(worker)
  try:
    version = sglang_answers.number(await worker.version(), names)
  except ValueError as error:
    raise sglang_worker.ServerError(f'{worker.url}: {error}') from error
  ranks = (int(server.get('tp_size') or 1),)
  texts = not server.get('skip_tokenizer_init')
  return Met(ours, version, (folder,), ranks, texts)


def _check_vocab(url: str, folder: str, vocab: int | None) -> None:
  """Compares with the served config, where its folder can be read here.

  A served table may have more rows than the trainer knows ids: padding.
  """
  if not folder or vocab is None:
    return
  with contextlib.suppress(OSError, ValueError, KeyError):
    text = (pathlib.Path(folder) / 'config.json').read_text('utf-8')
    served = json.loads(text)['vocab_size']
    if served < vocab:
      raise sglang_worker.ServerError(
        f'{url} serves {folder}, which knows {served} ids, but the trainer'
        f' knows {vocab}; serve the model that is trained.'
      )


def _check_context(url: str, models: Mapping[str, Any], context: int) -> None:
  try:
    longest = models['data'][0]['max_model_len']
  except (KeyError, IndexError, TypeError) as error:
    raise sglang_worker.ServerError(
      f'{url}/v1/models does not tell max_model_len; is it SGLang?'
    ) from error
  if longest < context:
    raise sglang_worker.ServerError(
      f'{url} holds {longest} tokens of context, but rollout.context is'
      f' {context}; start it with --context-length {context}, or lower that.'
    )


def _check_flags(url: str, server: Mapping[str, Any]) -> None:
  if server.get('incremental_streaming_output'):
    raise sglang_worker.ServerError(
      f'{url} runs with --incremental-streaming-output; start it without.'
    )
  if not server.get('enable_deterministic_inference'):
    warnings.warn(
      f'{url} runs without --enable-deterministic-inference and ignores seeds:'
      ' its samples are valid, but no run can be repeated.'
    )


async def _check_temperature(worker: sglang_worker.Worker) -> None:
  """Proves that log-probs are those of the temperature sampled at.

  A server can be told to give them at temperature 1 instead. Between the two
  most likely tokens, the difference at temperature 2 is half that at 1.
  """
  gaps: list[float] = []
  for temperature in (1.0, 2.0):
    answer = await worker.generate(
      {
        'input_ids': [0, 1],
        'rid': f'arl-greeting-{secrets.token_hex(8)}',
        'sampling_params': {'temperature': temperature, 'max_new_tokens': 1},
        'return_logprob': True,
        'top_logprobs_num': 2,
      }
    )
    (most, second) = answer['meta_info']['output_top_logprobs'][0]
    gaps.append(most[0] - second[0])
  if abs(gaps[1] - gaps[0] / 2) > _TOLERANCE:
    raise sglang_worker.ServerError(
      f'{worker.url} gives log-probs that temperature does not change; unset'
      ' SGLANG_RETURN_ORIGINAL_LOGPROB where it runs.'
    )
