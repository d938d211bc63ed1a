import functools
import pathlib

import pytest

from arl import methods
from arl.kernels import divergences, surrogates
from arl.methods import binding, compose, grpo, terms
from experiments import recipes as configs
from launch import generated, table

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = dict(table.recipes())


def test_the_tables_are_up_to_date():
  for path, text in table.written(ROOT).items():
    assert path.read_text(encoding='utf-8') == text, path


def test_check_names_what_is_stale_and_writes_nothing(tmp_path, capsys):
  readme, long = tmp_path / 'README.md', tmp_path / 'docs' / 'methods.md'
  readme.write_text(f'{table.BEGIN}{table.END}')

  def write(check):
    made = table.written(tmp_path)
    return generated.write(made, 'methods', 'a command', check=check)

  assert write(check=True) == 1
  out = capsys.readouterr().out
  assert str(readme) in out and str(long) in out
  assert not long.exists()
  assert write(check=False) == 0
  assert write(check=True) == 0
  long.write_text('old')
  assert write(check=True) == 1


@pytest.mark.parametrize('name', RECIPES)
def test_a_recipe_says_where_it_comes_from(name):
  status = table.status(RECIPES[name])
  assert status
  unpublished = ('survey-described', 'standard', ' read')
  if not any(word in status for word in unpublished):
    assert table.source(RECIPES[name]) != '–'


def test_every_config_runs_a_recipe_of_the_table():
  named = {block['name'] for block in configs.METHODS.values()}
  assert named <= RECIPES.keys()


def _told():
  """A docstring with all that the table reads.

  By arXiv:2402.03300 and again arXiv:2402.03300; arXiv:2501.12948. Status:
  published (arXiv:2402.03300), code
  read.
  """


def _cited():
  """One (Williams, Machine Learning 8, 1992), with notes (not a year)."""


def test_source_and_status_are_read_off_the_docstring():
  assert table.source(_told) == (
    '[2402.03300](https://arxiv.org/abs/2402.03300),'
    ' [2501.12948](https://arxiv.org/abs/2501.12948)'
  )
  assert table.status(_told) == 'published (2402.03300), code read'
  assert table.source(_cited) == 'Williams, Machine Learning 8, 1992'
  assert table.status(_cited) == ''
  assert table.source(lambda: None) == '–'


def test_a_short_row_is_what_it_is_made_of_or_what_it_changes():
  cells = table.short_row('grpo.grpo', RECIPES['grpo.grpo'], 'x')
  assert cells[:2] == (
    '`grpo.grpo`',
    '`group_normalize` · `token` · `clip` · `sequence_mean` · 0.04 kl (`k3`)',
  )
  assert cells[4:] == ('x', '`method=grpo`')
  cells = table.short_row('offpolicy.tis', RECIPES['offpolicy.tis'], 'x')
  assert cells[0] == '`offpolicy.tis` over a base'
  assert cells[1] == 'surrogate `truncated` × `clip`'


def test_a_row_shows_every_axis():
  cells = table.row('mine', grpo.grpo(clip=0.1, kl_coef=0.5), 'all')
  assert cells == (
    'mine',
    '`group_normalize`',
    '`token`',
    '`clip(low=0.1, high=0.1)`',
    '`sequence_mean`',
    '0.5 kl (`k3`)',
    '`old_logp`, `ref_logp`',
    'all',
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
    '–', '–', '–', '`token_mean`', 'imitation', '–', ''
  )  # fmt: skip


def test_a_term_with_its_own_aggregation_says_so():
  made = grpo.grpo()._replace(terms=(terms.kl(1.0),))
  assert table.row('x', made)[5] == 'kl (`k3`, `token_mean`)'


def test_a_method_that_was_not_composed_shows_its_needs():
  made = compose.method(grpo.dapo())
  assert table.row('x', made) == ('x', *['–'] * 5, '`old_logp`', '')


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


def test_a_step_without_a_name_is_shown_by_what_it_gives():
  part = grpo.dapo()._replace(advantage=(('advantage', lambda rewards: 0),))
  assert table.row('x', part)[1] == '`advantage`'


def test_every_recipe_is_found_once():
  names = [name for name, _ in table.recipes()]
  assert len(names) == len(set(names))
  assert {'grpo.grpo', 'ppo.ppo', 'terms.imitation'} <= set(names)
  assert not {'filters.rewarded', 'terms.kl', 'compose.method'} & set(names)


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
