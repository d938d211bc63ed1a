"""What a recipe is compared with, read off tests that are not run."""

from launch import evidence

RECIPES = ('a.one', 'a.two', 'a.three')
GOLDEN = """
import nothing_of_the_kind

TWO = make('a.two')
PAIR, OTHER = 1, 2


def _helper(name):
  return make(TWO, name)


TABLE: dict[str, object] = {
  'loss/x': row('a.one', low=0.2),
  'loss/y': (row('a.one'), _helper),
  **REST,
}
NOT_ANNOTATED = {'loss/z': row('a.three')}
"""
EXACT = """
EXACT: dict[str, str] = {'a.two': 'the policy gradient'}
"""


def _found(root):
  return evidence.find(RECIPES, root)


def _write(root, path, text):
  (root / path).parent.mkdir(parents=True, exist_ok=True)
  (root / path).write_text(text)


def test_keys_are_found_by_recipe(tmp_path):
  _write(tmp_path, 'tests/golden/policy_rows.py', GOLDEN)
  _write(tmp_path, 'tests/test_exact_gradients.py', EXACT)
  assert _found(tmp_path) == {
    'a.one': {'verl': ['loss/x', 'loss/y']},
    'a.two': {'verl': ['loss/y'], 'exact gradient': ['the policy gradient']},
    'a.three': {},
  }


def test_all_files_of_a_source_count_and_a_key_counts_once(tmp_path):
  for name in ('worked_a', 'worked_b'):
    _write(tmp_path, f'tests/golden/{name}.py', GOLDEN)
  assert _found(tmp_path)['a.two'] == {'worked example': ['loss/y']}


def test_cells():
  found = {'verl': ['loss/x', 'loss/y'], 'rlax': ['gae']}
  assert evidence.short(found) == 'verl, rlax'
  assert evidence.long(found) == 'verl: loss/x, loss/y; rlax: gae'
  assert evidence.short({}) == evidence.long({}) == evidence.NONE


def test_the_sources_of_this_project_are_there():
  for pattern in evidence.SOURCES.values():
    assert list(evidence.ROOT.glob(pattern)), pattern
  found = evidence.find(['grpo.dapo', 'soft.dppo', 'filters.finished'])
  assert {'verl', 'worked example'} <= found['grpo.dapo'].keys()
  assert found['soft.dppo']['verl'] == ['dppo_tv']
