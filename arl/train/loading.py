"""The models of a run and their tokenizer."""

import inspect
from typing import Any

import jax
import ml_collections

from arl import names, types
from arl.models import hf, sizes, tokenizers, transformer
from arl.train import score, sharding, taught


def _fresh_size(name: str, vocab: int) -> sizes.Sizes:
  make = names.resolve(f'sizes.{name}', 'arl.models')
  if not inspect.signature(make).parameters:
    raise ValueError(
      f'config.model.size is {name!r}, a published model with a vocabulary of'
      ' its own; give its folder as config.model.path.'
    )
  return make(vocab)


def load_model(
  block: ml_collections.ConfigDict,
  seed: int,
  place: sharding.Place | None = None,
) -> tuple[hf.Loaded, Any]:
  """A model and its tokenizer, which must fit each other.

  From the folder `path`, or a fresh one of `size` over characters.

  Args:
    block: config.model.
    seed: of a fresh one.
    place: where on a mesh the parameters lie; None for one device.
  """
  if bool(block.path) == bool(block.size):
    raise ValueError(
      f'model: path={block.path!r} and size={block.size!r}; give the folder of'
      ' a model, or the size of a fresh one, and leave the other empty.'
    )
  tokenizer = _tokenizer(block)
  if block.path:
    loaded = hf.load(
      block.path,
      dtype=block.dtype,
      cast='float32',
      remat=block.remat,
      place=place,
    )
  else:
    size = _fresh_size(block.size, len(tokenizer))
    model = transformer.make(size, block.dtype, block.remat)
    fresh = sharding.born(model.init, place)(jax.random.key(seed))
    loaded = hf.Loaded(model, fresh, size)
  model = tokenizers.known(tokenizer, loaded.model)
  return loaded._replace(model=model), tokenizer


def further(
  config: ml_collections.ConfigDict,
  made: types.Method,
  loaded: hf.Loaded,
  place: sharding.Place | None = None,
) -> dict[str, list[hf.Loaded]]:
  """The models beside the policy, by the column of their log-prob.

  There may be several teachers. Those on servers are none of this, nor is one
  that scores for the strategy. Where on a mesh their parameters lie `place`
  says, as of `load_model`.

  Raises:
    ValueError: a teacher that spells in other tokens, or cannot read as far as
      an episode goes.
  """
  found = {}
  if 'ref_logp' in made.needs:
    found['ref_logp'] = [loaded]
  folders = taught.named(config.model.teacher).values()
  in_process = folders and not taught.served(config.model.teacher)
  strategy = names.resolve(config.rollout.strategy, 'arl.rollout')
  scores = in_process and not taught.takes(strategy)
  if scores and made.needs & score.TAUGHT:
    vocab = loaded.model.vocab
    found['teacher_logp'] = [
      loaded if folder == taught.START
      else teacher(config, folder, vocab, place)
      for folder in folders
    ]  # fmt: skip
  return found


def _tokenizer(block: ml_collections.ConfigDict) -> Any:
  if block.path:
    return tokenizers.load(block.path)
  return tokenizers.characters()


def teacher(
  config: ml_collections.ConfigDict,
  folder: str,
  vocab: int,
  place: sharding.Place | None = None,
) -> hf.Loaded:
  """The teacher: how many ids it knows beyond the tokenizer's is its own.

  It is asked about those alone that the policy knows too.

  Args:
    config: of the run.
    folder: of the model.
    vocab: how many ids the policy knows.
    place: as of `load_model`.

  Raises:
    ValueError: it spells in other tokens, or reads less than an episode.
  """
  tokenizer = tokenizers.load(folder)
  theirs, ours = tokenizer.get_vocab(), _tokenizer(config.model).get_vocab()
  if theirs != ours:
    different = sorted(theirs.items() ^ ours.items())[0][0]
    raise ValueError(
      f'the teacher in {folder} and the policy do not share a tokenizer: they'
      f' differ in {different!r}; a teacher reads the ids of the policy.'
    )
  dtype = config.model.dtype
  made = hf.load(folder, dtype=dtype, cast='float32', place=place)
  tokenizers.check_vocab(tokenizer, made.model.vocab)
  if made.model.context < config.rollout.context:
    raise ValueError(
      f'the teacher in {folder} reads {made.model.context} tokens, but episodes'
      f' have up to {config.rollout.context}; lower rollout.context, or choose'
      ' another config.model.teacher.'
    )
  logits = made.model.logits
  cut = lambda params, hidden: logits(params, hidden)[..., :vocab]
  return made._replace(model=made.model._replace(logits=cut))
