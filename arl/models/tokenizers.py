"""Tokenizers: one over characters, and those of model folders.

Text that a user or an environment wrote must go through `encode`: calling the
tokenizer, or tokenizing a rendered chat template, would read '<|end|>' in that
text as the marker itself.
"""

import importlib
import logging
import os
import pathlib
from typing import TYPE_CHECKING, Any

import tokenizers

from arl.models import functional

if TYPE_CHECKING:
  import transformers

PAD, END = '<|pad|>', '<|end|>'
MARKERS = (PAD, END, '<|user|>', '<|assistant|>', '<|tool|>', '<|system|>')
# One marker before every message; only the policy's own has an end to sample.
_TEMPLATE = (
  '{% for message in messages %}'
  "{% if message.role not in ['system', 'user', 'assistant', 'tool'] %}"
  "{{ raise_exception('unknown role ' + message.role) }}"
  '{% endif %}'
  "{{ '<|' + message.role + '|>' + message.content }}"
  "{% if message.role == 'assistant' %}{{ '<|end|>' }}{% endif %}"
  '{% endfor %}'
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def characters() -> 'transformers.PreTrainedTokenizerFast':
  """A token a character: printable ASCII and newline, after the MARKERS.

  Decoding gives back the text exactly. Any other character is an error when
  encoded. Its chat template writes <|role|>content, <|end|> after an assistant
  only, and <|assistant|> as the generation prompt.
  """
  alphabet = ['\n', *map(chr, range(ord(' '), ord('~') + 1))]
  ids = {token: i for i, token in enumerate([*MARKERS, *alphabet])}
  core = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids))
  core.pre_tokenizer = tokenizers.pre_tokenizers.Split(
    tokenizers.Regex(r'[\s\S]'), 'isolated'
  )
  core.decoder = tokenizers.decoders.Fuse()
  return wrap(core, _TEMPLATE, PAD, END, MARKERS[2:])


def wrap(
  core: Any, template: str, pad: str, end: str, others: tuple[str, ...] = ()
) -> 'transformers.PreTrainedTokenizerFast':
  """A tokenizer of the `tokenizers` library as one of transformers.

  Args:
    core: the tokenizers.Tokenizer.
    template: the chat template, in Jinja.
    pad: the padding token.
    end: the end-of-sequence token.
    others: further special tokens.
  """
  return _transformers().PreTrainedTokenizerFast(
    tokenizer_object=core,
    pad_token=pad,
    eos_token=end,
    additional_special_tokens=list(others),
    chat_template=template,
    clean_up_tokenization_spaces=False,
  )


def encode(
  tokenizer: 'transformers.PreTrainedTokenizerFast', text: str
) -> list[int]:
  """Ids of plain text: nothing is added, and no marker in it is a marker.

  Raises:
    ValueError: the tokenizer cannot spell the text.
  """
  try:
    return tokenizer.encode(
      text, add_special_tokens=False, split_special_tokens=True
    )
  except Exception as error:
    raise ValueError(
      f'the tokenizer cannot encode {text[:80]!r} ({error}); replace the '
      'characters that it does not know.'
    ) from error


def load(folder: str | os.PathLike[str]) -> Any:
  """The tokenizer saved in a folder; nothing is fetched and no code is run.

  Raises:
    ValueError: the folder does not exist, or holds no tokenizer.
  """
  if not pathlib.Path(folder).is_dir():
    raise ValueError(
      f'{folder} is no folder; give the folder of a Hugging Face model.'
    )
  if not any(pathlib.Path(folder).glob('tokenizer*')):
    raise ValueError(
      f'{folder} holds no tokenizer.json; give the folder of a Hugging Face'
      ' model, such as the `final` of a run.'
    )
  return _transformers().AutoTokenizer.from_pretrained(
    folder, local_files_only=True, trust_remote_code=False
  )


def save(
  tokenizer: 'transformers.PreTrainedTokenizerFast',
  folder: str | os.PathLike[str],
) -> None:
  """Writes the tokenizer and its chat template into a folder."""
  tokenizer.save_pretrained(folder)


def check_vocab(
  tokenizer: 'transformers.PreTrainedTokenizerFast', vocab: int
) -> None:
  """Checks that a model of `vocab` ids knows every id of the tokenizer.

  Raises:
    ValueError: it does not.
  """
  largest = max(tokenizer.get_vocab().values())
  if largest >= vocab:
    raise ValueError(
      f'the tokenizer has ids up to {largest}, {largest + 1} with 0, but the '
      f"model's vocabulary is {vocab}; load the tokenizer of this model."
    )


def known(
  tokenizer: 'transformers.PreTrainedTokenizerFast', model: functional.Model
) -> functional.Model:
  """The model over the ids of its tokenizer alone.

  Published tables have more rows than there are tokens. What those rows give is
  in no sum, and their ids are never sampled.

  Raises:
    ValueError: as of `check_vocab`.
  """
  check_vocab(tokenizer, model.vocab)
  vocab = max(tokenizer.get_vocab().values()) + 1
  if vocab == model.vocab:
    return model
  cut = lambda params, hidden: model.logits(params, hidden)[..., :vocab]
  return model._replace(logits=cut, vocab=vocab)


def _transformers() -> Any:
  """The library, imported late as it is slow, without its PyTorch notice."""
  notice = lambda record: 'PyTorch was not found' not in record.getMessage()
  logger = logging.getLogger('transformers')
  logger.addFilter(notice)
  try:
    return importlib.import_module('transformers')
  finally:
    logger.removeFilter(notice)
