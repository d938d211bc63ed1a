import json

import jax
import numpy as np
import tiny

from arl.models import heads, hf, tokenizers, transformer
from arl.train import export


def params(seed=0):
  return transformer.make(tiny.size()).init(jax.random.key(seed))


def same(left, right):
  jax.tree.map(np.testing.assert_array_equal, left, right)


def test_the_folder_is_the_policy(tmp_path):
  folder = tmp_path / 'final'
  export.save(folder, params(), tiny.size(), tiny.tokenizer())
  loaded = hf.load(folder)
  assert loaded.sizes == tiny.size()
  same(loaded.params, params())
  spelled = tokenizers.encode(tokenizers.load(folder), 'bad.')
  assert spelled == tokenizers.encode(tiny.tokenizer(), 'bad.')
  ends = json.loads((folder / 'generation_config.json').read_text())
  assert ends['eos_token_id'] == 1


def test_a_value_head_is_no_part_of_the_policy(tmp_path):
  with_head = heads.with_value_head(params(), 16)
  assert export.policy_params(with_head).keys() == params().keys()
  export.save(tmp_path / 'best', with_head, tiny.size(), tiny.tokenizer())
  same(hf.load(tmp_path / 'best').params, params())


def test_a_folder_is_replaced_as_a_whole(tmp_path):
  folder = tmp_path / 'best'
  for seed in (0, 1):
    export.save(folder, params(seed), tiny.size(), tiny.tokenizer())
    (folder / f'note{seed}').write_text('of another export')
  # And a draft that a kill left behind is no obstacle.
  (tmp_path / 'best.new').mkdir()
  (tmp_path / 'best.new/config.json').write_text('half')
  export.save(folder, params(2), tiny.size(), tiny.tokenizer())
  same(hf.load(folder).params, params(2))
  assert not list(folder.glob('note*'))
  assert [p.name for p in tmp_path.iterdir()] == ['best']
