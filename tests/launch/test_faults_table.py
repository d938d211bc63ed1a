"""The table of known faults: up to date, whole, and true of what it names."""

import importlib.util
import pathlib
import re

import pytest

from launch import faults, generated

ROOT = pathlib.Path(__file__).parents[2]


def test_the_table_is_up_to_date():
  page = (ROOT / faults.PAGE).read_text(encoding='utf-8')
  assert page == faults.table(ROOT), 'python -m launch.faults'


def test_what_is_said_to_rule_a_fault_out_is_there():
  for number, case in faults.cases(ROOT).items():
    named = re.findall(r'`(arl\.[\w.]+)`', case.where)
    assert named or '`' in case.where, number
    for name in named:
      parts = name.split('.')
      module = next(
        '.'.join(parts[:n])
        for n in range(len(parts), 1, -1)
        if _found('.'.join(parts[:n]))
      )
      rest = name.removeprefix(module).strip('.')
      made = importlib.import_module(module)
      assert not rest or hasattr(made, rest), (number, name)


def _found(module):
  try:
    return importlib.util.find_spec(module)
  except ModuleNotFoundError:
    return None


def written(root, numbers, names):
  """A project of cases with these numbers and tests of these names."""
  folder = root / faults.FOLDER
  folder.mkdir(parents=True)
  rows = ', '.join(f"{n}: ('n{n}', 'k', 'w')" for n in numbers)
  (folder / 'known.py').write_text(f'CASES = {{{rows}}}\n')
  text = '\n'.join(f'def {name}():\n  pass\n' for name in names)
  (folder / 'test_faults_some.py').write_text(text)
  return root


def test_tests_are_counted_by_their_numbers(tmp_path):
  names = ('test_02_two', 'test_02_more', 'test_7_x', 'test_other', 'help_3_x')
  text = faults.table(written(tmp_path, (7, 2), names))
  first, second = text.splitlines()[-2:]
  where = f'`{faults.FOLDER}/test_faults_some.py`'
  assert first == f'| 2 | n2 | k | w | 2 in {where} |'
  assert second == f'| 7 | n7 | k | w | 1 in {where} |'


@pytest.mark.parametrize(
  'numbers, names, what',
  [
    ((1, 2), ('test_1_x',), 'number 2 has not a test'),
    ((1,), ('test_1_x', 'test_3_y'), 'number 3 has not a row'),
  ],
)
def test_no_case_is_without_a_test_and_no_test_without_a_case(
  tmp_path, numbers, names, what
):
  with pytest.raises(ValueError, match=what):
    faults.table(written(tmp_path, numbers, names))


def test_check_names_what_is_stale_and_writes_nothing(tmp_path, capsys):
  root = written(tmp_path, (1,), ('test_1_x',))

  def write(check):
    made = faults.written(root)
    return generated.write(made, 'faults', 'a command', check=check)

  assert write(check=True) == 1
  assert str(root / faults.PAGE) in capsys.readouterr().out
  assert not (root / faults.PAGE).exists()
  assert write(check=False) == 0
  assert write(check=True) == 0
  (root / faults.PAGE).write_text('old')
  assert write(check=True) == 1
