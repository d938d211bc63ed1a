"""The models of a run: the policy, and those beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl import types
from arl.models import hf, tokenizers
from arl.train import build, loading

# Of the policy.


@pytest.mark.parametrize(
  'model', [{'path': 'a', 'size': 'tiny'}, {'path': '', 'size': ''}]
)
def test_a_folder_or_a_size(model):
  with pytest.raises(ValueError) as error:
    loading.load_model(tiny.config('some/folder', model=model).model, seed=0)
  assert str(error.value) == (
    f'model: path={model["path"]!r} and size={model["size"]!r}; give the folder'
    ' of a model, or the size of a fresh one, and leave the other empty.'
  )


def test_a_fresh_model_has_a_known_size():
  for size, words in (
    ('tinny', "'sizes.tinny' names no function: .*did you mean 'sizes.tiny'"),
    (
      'qwen3_8b',
      "config.model.size is 'qwen3_8b', a published model with a vocabulary of"
      ' its own; give its folder as config.model.path.',
    ),
  ):
    with pytest.raises(ValueError, match=words):
      loading.load_model(
        tiny.config('some/folder', model={'path': '', 'size': size}).model,
        seed=0,
      )


def test_a_fresh_model_follows_the_seed():
  block = tiny.config('some/folder', model={'path': '', 'size': 'tiny'}).model
  (first, tokenizer), (again, _), (other, _) = (
    loading.load_model(block, seed) for seed in (0, 0, 1)
  )
  assert first.model.vocab == len(tokenizer) == 102
  same = lambda x, y: bool(jnp.all(x == y))
  assert all(jax.tree.leaves(jax.tree.map(same, first.params, again.params)))
  assert not same(*(x.params['embed']['embedding'] for x in (first, other)))


def test_a_tokenizer_of_a_larger_model(tmp_path):
  folder = tiny.write_model(tmp_path / 'model')
  tokenizers.save(tokenizers.characters(), folder)
  with pytest.raises(ValueError) as error:
    loading.load_model(
      tiny.config('some/folder', model={'path': str(folder)}).model, seed=0
    )
  assert str(error.value) == (
    "the tokenizer has ids up to 101, 102 with 0, but the model's vocabulary"
    ' is 8; load the tokenizer of this model.'
  )


# Of the models beside it.


def method(*needs):
  return types.Method(
    dict, dict, lambda *_: (0, {}), frozenset(needs), frozenset()
  )


def further(policy, teacher, *needs, **blocks):
  config = tiny.config(policy, model={'teacher': str(teacher)}, **blocks)
  loaded, _ = loading.load_model(config.model, 0)
  return loaded, loading.further(config, method(*needs), loaded)


def test_only_what_is_read_is_loaded(model_folder, tmp_path):
  nowhere = tmp_path / 'nothing'
  assert further(model_folder, nowhere, 'old_logp')[1] == {}
  loaded, found = further(model_folder, nowhere, 'ref_logp')
  assert found.keys() == {'ref_logp'} and found['ref_logp'] == [loaded]


def test_a_teacher_has_its_own_weights_and_sizes(model_folder, tmp_path):
  shape = tiny.size()._replace(layers=2, width=24, heads=3)
  folder = tiny.write_model(tmp_path / 'teacher', seed=3, shape=shape)
  loaded, found = further(model_folder, folder, 'teacher_logp', 'ref_logp')
  assert found.keys() == {'teacher_logp', 'ref_logp'}
  (teacher,) = found['teacher_logp']
  assert teacher.sizes == shape and loaded.sizes == tiny.size()
  tiny.same(teacher.params, hf.load(folder).params)


def test_a_teacher_is_kept_in_float32(model_folder, tmp_path):
  params = jax.device_get(hf.load(model_folder).params)
  hf.save(tmp_path / 'half', params, tiny.size(), dtype='bfloat16')
  tokenizers.save(tiny.tokenizer(), tmp_path / 'half')
  _, found = further(model_folder, tmp_path / 'half', 'teacher_logp')
  kinds = {x.dtype for x in jax.tree.leaves(found['teacher_logp'][0].params)}
  assert kinds == {jnp.dtype('float32')}


def test_a_teacher_may_have_room_for_more_ids(model_folder, tmp_path):
  # Published sizes of one family pad the same vocabulary differently.
  folder = tiny.write_model(tmp_path / 'padded', shape=tiny.size(vocab=16))
  _, found = further(model_folder, folder, 'teacher_logp')
  assert found['teacher_logp'][0].model.vocab == 16


def test_a_teacher_that_spells_in_other_tokens(model_folder, tmp_path):
  folder = tiny.write_model(tmp_path / 'other', shape=tiny.size(vocab=102))
  tokenizers.save(tokenizers.characters(), folder)
  with pytest.raises(ValueError) as caught:
    further(model_folder, folder, 'teacher_logp')
  assert str(caught.value).startswith(
    f'the teacher in {folder} and the policy do not share a tokenizer: they'
    ' differ in '
  )


def test_ids_in_another_order_are_other_tokens(model_folder, tmp_path):
  folder = tiny.write_model(tmp_path / 'turned')
  file = folder / 'tokenizer.json'
  text = file.read_text()
  swapped = text.replace('"a": 2', '"a": X').replace('"b": 3', '"b": 2')
  assert '"a": X' in swapped
  file.write_text(swapped.replace('"a": X', '"a": 3'))
  with pytest.raises(ValueError, match="differ in 'a'; a teacher reads"):
    further(model_folder, folder, 'teacher_logp')


def test_a_teacher_that_reads_less_than_an_episode(model_folder, tmp_path):
  shape = tiny.size()._replace(context=16)
  folder = tiny.write_model(tmp_path / 'short', shape=shape)
  with pytest.raises(ValueError) as caught:
    further(model_folder, folder, 'teacher_logp', rollout={'context': 24})
  assert str(caught.value) == (
    f'the teacher in {folder} reads 16 tokens, but episodes have up to 24;'
    ' lower rollout.context, or choose another config.model.teacher.'
  )


def test_a_fresh_policy_has_a_teacher_over_characters(tmp_path):
  folder = tiny.write_model(tmp_path / 'teacher', shape=tiny.size(vocab=102))
  tokenizers.save(tokenizers.characters(), folder)
  config = tiny.config('', model={'size': 'tiny', 'teacher': str(folder)})
  loaded, _ = loading.load_model(config.model, 0)
  found = loading.further(config, method('teacher_logp'), loaded)
  assert found['teacher_logp'][0].sizes.vocab == loaded.sizes.vocab


def test_the_engine_may_compute_in_another_dtype(model_folder):
  made = build.world(tiny.config(model_folder, engine={'dtype': 'bfloat16'}))
  plain = build.world(tiny.config(model_folder))
  ids = [[2, 3, 4, 5, 6, 7]]
  (half,), (full,) = (w.engine.score(ids, 1.0) for w in (made, plain))
  np.testing.assert_allclose(half, full, atol=0.02)
  assert np.any(half != full)
  assert made.loaded.model.vocab == plain.loaded.model.vocab
  tiny.same(made.loaded.params, plain.loaded.params)


def test_the_policy_as_it_starts_may_teach(model_folder):
  loaded, found = further(model_folder, 'start', 'teacher_logp')
  assert found['teacher_logp'] == [loaded]
