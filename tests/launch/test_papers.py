"""Publications: read strictly, shown shortly, and none too many or too few."""

import pathlib

import pytest

from launch import papers

ROOT = pathlib.Path(__file__).parents[2]
ENTRY = (
  '@misc{some2025,\n  title = {{Some: A Title}},\n  author = {Ann Lee and Bo'
  ' Xu},\n  year = {2025},\n  eprint = {2501.00001},\n}'
)


def entries():
  return papers.read((ROOT / papers.FILE).read_text(encoding='utf-8'))


def test_every_id_of_a_docstring_has_an_entry_and_no_other():
  named = {
    one
    for path in (ROOT / 'arl' / 'methods').glob('*.py')
    for one in papers.ids(path.read_text(encoding='utf-8'))
  }
  arxiv = [p.arxiv for p in entries().values() if p.arxiv]
  assert len(arxiv) == len(set(arxiv))
  assert set(arxiv) == named


def test_an_entry_is_of_the_year_of_its_id():
  for paper in entries().values():
    year = paper.fields['year']
    assert not paper.arxiv or year == f'20{paper.arxiv[:2]}', paper.key
    assert paper.key.endswith(year), paper.key


def test_an_entry_can_be_found():
  for paper in entries().values():
    assert {'eprint', 'url', 'journal'} & paper.fields.keys(), paper.key


def test_an_entry_is_read_and_shown():
  (paper,) = papers.read(f'% a comment\n\n{ENTRY}\n').values()
  assert (paper.key, paper.arxiv, paper.bibtex) == (
    'some2025',
    '2501.00001',
    ENTRY,
  )
  assert papers.shown(paper) == (
    'Lee and Xu, *Some: A Title*, 2025,'
    ' [arXiv:2501.00001](https://arxiv.org/abs/2501.00001)'
  )


@pytest.mark.parametrize(
  'author, shown',
  [
    ('{Some Team}', 'Some Team'),
    ('Le Roux, Nicolas and others', 'Le Roux et al.'),
    ('{Some Team} and Ann Lee and others', 'Some Team et al.'),
    ('Ann B. Lee', 'Lee'),
  ],
)
def test_authors_in_short(author, shown):
  text = ENTRY.replace('Ann Lee and Bo Xu', author)
  (paper,) = papers.read(text).values()
  assert papers.shown(paper).startswith(f'{shown}, *Some')


def test_what_is_not_known_is_left_out():
  text = ENTRY.replace('  author = {Ann Lee and Bo Xu},\n', '').replace(
    'eprint = {2501.00001}', 'url = {https://x.org/y}'
  )
  (paper,) = papers.read(text).values()
  assert papers.shown(paper) == (
    '*Some: A Title*, 2025, [https://x.org/y](https://x.org/y)'
  )


@pytest.mark.parametrize(
  'text, what',
  [
    (f'{ENTRY}\n{ENTRY}', "'some2025' is there twice"),
    (ENTRY.replace('  year = {2025},\n', ''), 'has no year'),
    (ENTRY.replace('year = {2025},', 'year = 2025,'), 'is in no entry'),
    (ENTRY.replace('\n}', ''), 'is in no entry'),
    ('title', "'title' is in no entry"),
  ],
)
def test_what_is_no_entry_is_refused(text, what):
  with pytest.raises(ValueError, match=what):
    papers.read(text)
