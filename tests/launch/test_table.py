import functools
import pathlib

import pytest

from arl import methods
from arl.kernels import divergences, surrogates
from arl.methods import binding, compose, grpo, terms
from launch import table

README = pathlib.Path(__file__).parents[2] / 'README.md'


def test_the_readme_is_up_to_date():
  text = README.read_text(encoding='utf-8')
  assert table.insert(text, table.table()) == text


def test_a_row_shows_every_axis():
  cells = table.row('mine', grpo.grpo(clip=0.1, kl_coef=0.5))
  assert cells == (
    'mine',
    '`group_normalize`',
    '`token`',
    '`clip(low=0.1, high=0.1)`',
    '`sequence_mean`',
    '0.5 kl (`k3`)',
    '`old_logp`, `ref_logp`',
  )


def test_steps_and_terms_of_ppo_are_in_order():
  cells = table.row('ppo', methods.make('ppo.ppo', entropy_coef=0.01))
  assert cells[1] == (
    '`kl_in_reward(coef=0.05)` → `gae(gamma=1, lam=0.95)` → `whiten`'
  )
  assert cells[5] == '0.5 value (`value_clip(clip=0.2)`); 0.01 entropy'


def test_corrections_multiply_the_surrogate():
  def half(mask):
    return mask * 0.5

  made = grpo.dapo()._replace(corrections=(half,))
  assert table.row('x', made)[3] == '`half` × `clip(low=0.2, high=0.28)`'


def test_an_axis_that_nothing_reads_is_empty():
  assert table.row('x', methods.make('reinforce.rloo'))[2] == '–'
  assert table.row('x', terms.imitation())[1:] == (
    '–', '–', '–', '`token_mean`', 'imitation', '–'
  )  # fmt: skip


def test_a_term_with_its_own_aggregation_says_so():
  made = grpo.grpo()._replace(terms=(terms.kl(1.0),))
  assert table.row('x', made)[5] == 'kl (`k3`, `token_mean`)'


def test_a_method_that_was_not_composed_shows_its_needs():
  made = compose.method(grpo.dapo())
  assert table.row('x', made) == ('x', '–', '–', '–', '–', '–', '`old_logp`')


@pytest.mark.parametrize(
  'kernel, shown',
  [
    (divergences.k3, '`k3`'),
    (binding.on(divergences.k3, ref_logp='old_logp'),
     '`k3(ref_logp: old_logp)`'),
    (binding.on(functools.partial(surrogates.clip, low=0.2, high=3e-4),
                advantage='returns'),
     '`clip(low=0.2, high=0.0003, advantage: returns)`'),
    (functools.partial(surrogates.clip, low=surrogates.ratio),
     '`clip(low=ratio)`'),
    (functools.partial(surrogates.clip, low='x'), "`clip(low='x')`"),
  ],
)  # fmt: skip
def test_kernels_by_name(kernel, shown):
  assert table.describe(kernel) == shown


def test_every_recipe_is_found_once():
  names = [name for name, _ in table.recipes()]
  assert len(names) == len(set(names))
  assert {'grpo.grpo', 'ppo.ppo', 'terms.imitation'} <= set(names)
  assert not {'ppo.penalized', 'terms.kl', 'compose.method'} & set(names)


def test_only_what_lies_between_the_markers_is_replaced():
  text = f'# Title\n{table.BEGIN}\nold\n{table.END}\nrest\n'
  new = table.insert(text, 'new')
  assert new == f'# Title\n{table.BEGIN}\n\nnew\n\n{table.END}\nrest\n'
  assert table.insert(new, 'new') == new


@pytest.mark.parametrize(
  'text', ['none', table.BEGIN, f'{table.BEGIN}{table.END}{table.END}']
)
def test_missing_markers_are_refused(text):
  with pytest.raises(ValueError, match='methods:begin'):
    table.insert(text, 'new')
