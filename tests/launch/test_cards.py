"""Cards of methods: up to date, whole, and with equations that close."""

import pathlib
import re
import shutil

import pytest

from arl.methods import compose, grpo
from launch import cards, generated, papers, table

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = dict(table.recipes())
_MATH = re.compile(r'^```math\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r'\$([^$\n]+)\$')


def section(name):
  module, _, short = name.partition('.')
  path = ROOT / cards.SOURCES / f'{module}.md'
  return cards.sections(path.read_text(encoding='utf-8')).get(short, '')


def test_the_cards_are_up_to_date():
  written = cards.written(ROOT)
  for path, text in written.items():
    assert path.read_text(encoding='utf-8') == text, cards.COMMAND
  pages = ROOT / cards.PAGES
  assert set(pages.glob('*')) == {*written, pages / cards.CURVES}


def test_a_reader_of_the_site_finds_every_page():
  nav = (ROOT / 'mkdocs.yml').read_text(encoding='utf-8')
  for path in (ROOT / cards.PAGES).glob('*.md'):
    assert f': methods/{path.name}\n' in nav, path.name


@pytest.mark.parametrize('name', RECIPES)
def test_a_recipe_has_an_equation_and_says_where_descriptions_differ(name):
  text = section(name)
  assert _MATH.search(text)
  _, told, points = text.partition('\n\nDiffers:\n\n')
  assert told and points.startswith('- ') and '```' not in points


def test_equations_close_what_they_open():
  for path in sorted((ROOT / cards.SOURCES).glob('*.md')):
    text = path.read_text(encoding='utf-8')
    assert text.count('```') == 2 * len(_MATH.findall(text)), path.name
    prose = _MATH.sub('', text)
    assert prose.count('$') == 2 * len(_INLINE.findall(prose)), path.name
    for equation in _MATH.findall(text) + _INLINE.findall(prose):
      assert equation.count('{') == equation.count('}'), equation
      begun = re.findall(r'\\begin\{(\w+)\}', equation)
      assert sorted(begun) == sorted(re.findall(r'\\end\{(\w+)\}', equation)), (
        equation
      )
      assert len(re.findall(r'\\left\b', equation)) == len(
        re.findall(r'\\right\b', equation)
      ), equation


def test_no_cell_of_a_table_has_a_bar_in_an_equation():
  text = (ROOT / cards.SOURCES / 'notation.md').read_text(encoding='utf-8')
  for line in text.splitlines():
    if line.startswith('|'):
      assert line.count('|') == 3, line


def copied(root):
  """What a project needs for its cards."""
  for name in (cards.SUCCESS, papers.FILE, 'setup.cfg'):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, root / name)
  shutil.copytree(ROOT / cards.SOURCES, root / cards.SOURCES)
  return root


def test_check_names_what_is_stale_and_writes_nothing(tmp_path, capsys):
  root = copied(tmp_path)
  made = root / cards.PAGES / 'grpo.md'

  def write(check):
    files = cards.written(root)
    return generated.write(files, 'cards', cards.COMMAND, check=check)

  assert write(check=True) == 1
  assert str(made) in capsys.readouterr().out
  assert not made.exists()
  assert write(check=False) == 0
  assert write(check=True) == 0
  made.write_text('old')
  assert write(check=True) == 1


@pytest.mark.parametrize(
  'old, new, what',
  [
    ('## dapo\n', '', "'dapo' has not a section"),
    ('## dapo\n', '## other\n\n## dapo\n', "'other' has not a recipe"),
    ('cites: deepswe2025', 'cites: nothing2025', 'cites nothing2025'),
  ],
)
def test_what_is_missing_is_named(tmp_path, old, new, what):
  root = copied(tmp_path)
  path = root / cards.SOURCES / 'grpo.md'
  text = path.read_text(encoding='utf-8')
  assert old in text
  path.write_text(text.replace(old, new), encoding='utf-8')
  with pytest.raises(ValueError, match=what):
    cards.written(root)


def test_a_figure_belongs_to_the_recipe_of_its_baseline(tmp_path):
  folder = tmp_path / cards.PAGES / cards.CURVES
  folder.mkdir(parents=True)
  assert cards.curves(tmp_path) == {}
  for name in ('tis', 'dapo'):
    (folder / f'{name}.png').touch()
  made = cards.curves(tmp_path)
  assert made == {'grpo.dapo': ['dapo'], 'offpolicy.tis': ['tis']}


def test_a_card_has_all_its_parts():
  about = cards.known(ROOT, list(RECIPES))
  about = about._replace(
    reached={'dapo': '0.9 (0.8 to 1.0)'}, curves={'grpo.dapo': ['dapo']}
  )
  text = cards.card('grpo.dapo', grpo.dapo, 'The section.', about)
  for part in (
    "## grpo.dapo\n\nDAPO's loss",
    '- Yu et al., *DAPO: ',
    '\n\nThe section.\n\n',
    '| advantage | `group_normalize` |',
    '| needs | `old_logp` |',
    f'[`kernels.surrogates`]({about.address}/arl/kernels/surrogates.py)',
    '| config | `method=dapo` with `low=0.2, high=0.28` |',
    '| held-out success | 0.9 (0.8 to 1.0) by `method=dapo`: [METHODS.md](',
    '| status | published, official code read |\n\n![Success of dapo by',
    'batches, beside GRPO](curves/dapo.png)\n\n```bibtex\n',
    '```bibtex\n@misc{dapo2025,\n',
  ):
    assert part in text
  assert 'further terms' not in text  # it has none


def test_a_section_may_cite_what_has_no_id():
  about = cards.known(ROOT, list(RECIPES))
  text = 'cites: tis2025, opd2025\n\nThe section.'
  made = cards.card('grpo.dapo', grpo.dapo, text, about)
  assert '- Yao et al., *Your Efficient' in made
  assert '@misc{opd2025,' in made and 'cites:' not in made


def test_kernels_are_found_through_partials_and_rebinding():
  names = [name.rpartition('.')[2] for name in cards.kernels(grpo.grpo())]
  assert sorted(names) == [
    'advantages', 'aggregations', 'divergences', 'ratios', 'surrogates'
  ]  # fmt: skip
  assert cards.kernels(compose.method(grpo.dapo())) == []


def test_settings_show_blocks_as_calls():
  assert cards.settings('tis') == (
    '`method=tis` with `base=grpo.dapo(low=0.2, high=0.28), low=0.0, high=2.0`'
  )
  assert cards.settings('rloo') == '`method=rloo` with `updates.per_batch=1`'


def test_success_is_read_by_the_names_of_the_columns():
  text = 'x\n\n| a | success | method |\n| --- | --- | --- |\n| 1 | 0.5 | m |\n'
  assert cards.success(text) == {'m': '0.5'}
