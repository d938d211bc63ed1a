"""BFCL's stateful APIs: file system, trading, travel, vehicle, tickets, posts.

The package's own Python classes, called by name with literals; a call that they
refuse or fail at is an observation. Calls that would work for very long are
refused here.
"""

import copy
import functools
import inspect
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import bfcl, call_syntax_python, extras

# Class -> the file of its descriptions and the module it is in.
FILES = {
  'GorillaFileSystem': 'gorilla_file_system',
  'MathAPI': 'math_api',
  'MessageAPI': 'message_api',
  'TwitterAPI': 'posting_api',
  'TicketAPI': 'ticket_api',
  'TradingBot': 'trading_bot',
  'TravelAPI': 'travel_booking',
  'VehicleControlAPI': 'vehicle_control',
}
_SOURCES = 'bfcl_eval.eval_checker.multi_turn_eval.func_source_code'
_MOST = 1000  # of an exponent, and of digits of precision
_LOCK = threading.Lock()  # the mathematics sets a precision for all threads

Apis = dict[str, Any]  # an object by the name of its class


def make(
  classes: Sequence[str], scenarios: Mapping[str, Any], long_context: bool
) -> Apis:
  """Objects of the classes, in the state that their scenarios say."""
  made = {}
  for name in classes:
    module = extras.load(f'{_SOURCES}.{FILES[name]}', bfcl.INSTALL)
    api = getattr(module, name)()
    if hasattr(api, '_load_scenario'):
      api._load_scenario(
        copy.deepcopy(scenarios.get(name, {})), long_context=long_context
      )
    made[name] = api
  return made


@functools.cache
def functions(name: str) -> tuple[Mapping[str, Any], ...]:
  """The descriptions of what a class offers."""
  return bfcl.load(f'multi_turn_func_doc/{FILES[name]}.json')


def run(apis: Apis, call: call_syntax_python.Call) -> str:
  """What a call gives, as text; `error: ..` where it cannot be made."""
  method = _method(apis, call.name)
  if method is None:
    return f'error: no function {call.name[:40]!r}'
  try:
    bound = inspect.signature(method).bind(*call.positional, **call.arguments)
  except TypeError as error:
    return f'error: {error}'
  if _endless(call.name, bound.arguments):
    return 'error: the number is too large'
  try:
    with _LOCK:
      given = method(*bound.args, **bound.kwargs)
  except Exception as error:  # of whatever kind: the arguments may be anything
    return f'error: {error}'
  return _text(given)


def same(left: Apis, right: Apis) -> bool:
  """Whether two sets of objects stand alike, by their public parts."""
  return all(_public(left[name]) == _public(api) for name, api in right.items())


def _method(apis: Apis, name: str) -> Any:
  """What a described function is; nothing else can be called."""
  for cls, api in apis.items():
    if any(name == function['name'] for function in functions(cls)):
      return getattr(api, name)
  return None


def _endless(name: str, arguments: Mapping[str, Any]) -> bool:
  sizes = [arguments.get('precision', 0)]
  if name == 'power':
    sizes.append(arguments.get('exponent', 0))
  return any(isinstance(s, int | float) and abs(s) > _MOST for s in sizes)


def _text(given: Any) -> str:
  if isinstance(given, str):
    return given
  if isinstance(given, dict):
    try:
      return json.dumps(given)
    except TypeError:
      pass  # it holds an object of the package
  return str(given)


def _public(api: Any) -> dict[str, Any]:
  return {k: v for k, v in vars(api).items() if not k.startswith('_')}
