"""Whether calls are those that were asked for, by BFCL's rules.

BFCL says of each argument which values are right, '' among them where it may be
left out. Numbers and truth values are compared as they are, strings without
case and without some of their punctuation.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import call_syntax_python

Options = Sequence[Any]  # the values that are right
_TYPES = {
  'string': str,
  'integer': int,
  'float': float,
  'boolean': bool,
  'array': list,
  'tuple': list,
  'dict': dict,
  'any': str,
}
_IGNORED = re.compile(r'[ ,./\-_*^]')


def all_fit(
  made: Sequence[call_syntax_python.Call],
  functions: Sequence[Mapping[str, Any]],
  wanted: Sequence[Mapping[str, Mapping[str, Options]]],
) -> bool:
  """Whether there is one call for each that is wanted, in any order.

  Args:
    made: the calls.
    functions: the descriptions of what may be called.
    wanted: of each call, the name and the options of its arguments.
  """
  if len(made) != len(wanted):
    return False
  left = [*made]
  for want in wanted:
    ((name, options),) = want.items()
    function = next(f for f in functions if f['name'] == name)
    found = next((c for c in left if fits(c, function, options)), None)
    if found is None:
      return False
    left.remove(found)
  return True


def fits(
  call: call_syntax_python.Call,
  function: Mapping[str, Any],
  options: Mapping[str, Options],
) -> bool:
  """Whether a call names the function and each argument is one of its options.

  An argument without a name fits nothing.
  """
  given, known = call.arguments, function['parameters']['properties']
  if call.name != function['name'] or call.positional:
    return False
  if any(name not in given for name in function['parameters']['required']):
    return False
  if any(name not in given and '' not in o for name, o in options.items()):
    return False
  return all(
    name in known
    and name in options
    and _accepts(value, known[name], options[name])
    for name, value in given.items()
  )


def found(
  function: Mapping[str, Any], options: Mapping[str, Options]
) -> call_syntax_python.Call:
  """A call that fits; where BFCL's options allow none, one that nearly does."""
  name, needed = function['name'], function['parameters']['required']
  for least in (True, False):
    arguments = {
      key: _inside(values[0])
      for key, values in _given(options).items()
      if not least or key in needed or '' not in options[key]
    }
    call = call_syntax_python.Call(name, (), arguments)
    if fits(call, function, options):
      break
  return call


def _given(options: Mapping[str, Options]) -> dict[str, list[Any]]:
  """The options of each argument that are values; none of those without."""
  there = {
    key: [v for v in _listed(o) if v != ''] for key, o in options.items()
  }
  return {key: values for key, values in there.items() if values}


def _listed(options: Any) -> Options:
  """The options; some dictionaries of BFCL's give the only one as it is."""
  return options if isinstance(options, list) else [options]


def _inside(value: Any) -> Any:
  """A value, with one option for each key of its dictionaries."""
  if isinstance(value, dict):
    return {key: _inside(o[0]) for key, o in _given(value).items()}
  if isinstance(value, list):
    return [_inside(v) if isinstance(v, dict) else v for v in value]
  return value


def _plain(value: Any) -> Any:
  """A string without what does not count; anything else as it is."""
  if not isinstance(value, str):
    return value
  return _IGNORED.sub('', value).lower().replace("'", '"')


def _accepts(value: Any, spec: Mapping[str, Any], options: Options) -> bool:
  kind = spec['type']
  if kind == 'tuple' and isinstance(value, tuple):
    value = list(value)
  if kind == 'float' and type(value) is int:
    value = float(value)
  wanted: Any = _TYPES[kind]
  inner: Any = _TYPES[spec['items']['type']] if wanted is list else None
  # BFCL's answers may be names of variables, where another type is due.
  usual = next((type(o) for o in options if o != ''), wanted)
  if type(value) is not wanted:
    return type(value) is usual and value in options
  if inner and not any(_of_type(value, inner, o) for o in options):
    return False
  if usual is not wanted:
    return value in options
  if wanted is dict:
    return any(_same_dict(value, o) for o in options if o != '')
  if inner is dict:
    return any(
      len(value) == len(o) and all(map(_same_dict, value, o)) for o in options
    )
  if wanted is list:
    plain = [_plain(v) for v in value]
    return any(plain == [_plain(v) for v in o] for o in options)
  if wanted is str:
    return _plain(value) in [_plain(o) for o in options if isinstance(o, str)]
  return value in options


def _of_type(values: Sequence[Any], inner: type, option: Any) -> bool:
  """Whether the items have their type, or that of the option's items."""
  if not isinstance(option, list):
    return True
  usual = next((type(o) for o in option if o != ''), inner)
  return all(type(v) in (inner, usual) for v in values)


def _same_dict(value: Any, options: Mapping[str, Options]) -> bool:
  if not isinstance(value, dict) or not isinstance(options, dict):
    return False
  known = {key: _listed(o) for key, o in options.items()}
  if any(key not in value and '' not in o for key, o in known.items()):
    return False
  return all(
    key in known and _plain(v) in [_plain(o) for o in known[key]]
    for key, v in value.items()
  )
