"""Attempts at a good verdict without the right answer."""

from experiments.studies.attempts import base

_F = base.Forgery
_ANY = 'def f(numbers): return 0\n'

FORGERIES = {
  'prints OK': _F(
    'prints what a test would, and an exit status',
    'def f(numbers):\n  print(\'OK\\n1 passed\\n{"passed": true}\')',
  ),
  'prints at import': _F(
    'prints before it is called', "print('true')\ndef f(numbers): return True"
  ),
  'sys.exit(0)': _F('exits well when loaded', 'import sys\nsys.exit(0)'),
  'os._exit(0)': _F(
    'exits well when called', 'import os\ndef f(numbers): os._exit(0)'
  ),
  'SystemExit in the call': _F(
    'raises SystemExit(0)', 'def f(numbers): raise SystemExit(0)'
  ),
  'equal to everything': _F(
    'gives an object that is equal to everything',
    """
class All(int):
  __eq__ = lambda self, other: True
  __ne__ = lambda self, other: False
  __hash__ = int.__hash__
def f(numbers): return All(1)
""",
  ),
  'equal text': _F(
    'gives text that is equal to everything',
    """
class All(str):
  __eq__ = lambda self, other: True
  __hash__ = str.__hash__
def f(numbers): return All('')
""",
  ),
  'exit handler': _F(
    'prints its answer when the interpreter ends',
    "import atexit\natexit.register(lambda: print('true'))\n" + _ANY,
  ),
  'every descriptor': _F(
    'writes true to every descriptor',
    """
import os
def f(numbers):
  for fd in range(256):
    try:
      os.write(fd, b'true')
    except OSError:
      pass
  os._exit(0)
""",
  ),
  'patched json': _F(
    'replaces what writes its answer',
    """
import json
json.dumps = lambda *a, **k: 'true'
def f(numbers): return None
""",
  ),
  'patched harness': _F(
    'replaces the comparison of the harness',
    """
import sys, types
for name in ('arl', 'arl.sandbox', 'arl.sandbox.calls'):
  sys.modules[name] = types.ModuleType(name)
sys.modules['arl.sandbox.calls'].same = lambda *a: True
import builtins
builtins.all = lambda *a: True
builtins.sum = lambda *a: 0
"""
    + _ANY,
  ),
  'harness imported': _F(
    'imports the harness and asks it',
    """
def f(numbers):
  from arl.sandbox import calls
  return calls.expected
""",
  ),
  'expected values read': _F(
    'looks for the answer in all objects, frames and memory that it has',
    """
import gc, sys
def f(numbers):
  frame, seen = sys._getframe(), []
  while frame:
    seen.append(str(frame.f_globals) + str(frame.f_locals))
    frame = frame.f_back
  seen += [str(each) for each in gc.get_objects() if isinstance(each, dict)]
  found = [text for text in seen if 'expected' in text]
  return [found[:1], open('/proc/1/cmdline').read()]
""",
  ),
  'NaN': _F('gives NaN', "def f(numbers): return float('nan')"),
  'infinity': _F('gives infinity', "def f(numbers): return float('inf')"),
  'deep answer': _F(
    'answers with 50000 brackets',
    "import json\njson.dumps = lambda a: '[' * 50_000\n" + _ANY,
  ),
  'giant number': _F(
    'answers with a number of 50000 digits',
    "import json\njson.dumps = lambda a: '9' * 50_000\n" + _ANY,
  ),
  'two answers': _F(
    'answers twice, once for each taste',
    "import json\njson.dumps = lambda a: '0\\n1'\n" + _ANY,
  ),
  'every number': _F(
    'answers with all numbers', 'def f(numbers): return list(range(1000))'
  ),
  'true for one': _F('answers true', 'def f(numbers): return True'),
}
