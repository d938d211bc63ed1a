"""Compiling cases in processes of their own, and what a whole model costs.

Layers are alike, so that a program's costs are a line in their number: two
small programs of each case give it, where the whole would compile for hours.
"""

import concurrent.futures
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from arl.train.aot import cases, chips, counting, model

# How hard the compiler tries: at -1 it is twenty times quicker, and what a
# device computes, sends and holds is the same but for details of fusion.
# Products that are cut up to be done while matrices arrive would hide the
# gathers that they are made of.
OPTIONS = {
  'exec_time_optimization_effort': -1.0,
  'xla_jf_spmd_threshold_for_windowed_einsum_mib': '1000000',
}
_NUMBERS = (
  'flops', 'bytes', 'chain', 'arguments', 'outputs', 'temporaries',
)  # fmt: skip


class Result(NamedTuple):
  """What a case costs a device.

  Attributes:
    case: with all layers of the model.
    flops: of products.
    bytes: to and from HBM.
    sent: bytes of collectives, by kind.
    chain: products and collectives one after another.
    memory: bytes of arguments, outputs and temporaries.
    compiled: the numbers of layers of the programs it is drawn from.
    seconds: of the processor, that compiling them took.
    error: why there are no numbers; '' where there are.
  """

  case: cases.Case
  flops: float = 0.0
  bytes: float = 0.0
  sent: Mapping[str, float] = {}
  chain: float = 0.0
  memory: Mapping[str, float] = {}
  compiled: tuple[int, ...] = ()
  seconds: float = 0.0
  error: str = ''

  @property
  def held(self) -> float:
    """Bytes of memory at the worst moment."""
    return sum(self.memory.values())


def have_libtpu() -> bool:
  """Whether programs can be compiled for TPUs here."""
  return importlib.util.find_spec('libtpu') is not None


def layers_of(case: cases.Case, full: bool) -> tuple[int, ...]:
  """How many layers to compile: all at once, or few, and more."""
  whole = cases.MODELS[case.model]().layers
  return (whole,) if full or whole < 4 else (1, 3)


def extrapolated(
  few: Mapping[str, Any],
  more: Mapping[str, Any],
  at: tuple[int, int, int],
  each: float,
) -> dict[str, Any]:
  """The numbers of a program with more layers than two that were compiled.

  Temporaries are a line only where a layer must keep something: with few layers
  the head decides, and how its buffers happen to be packed.

  Args:
    few: costs with at[0] layers, as `worker.costs` gives them.
    more: with at[1].
    at: layers of the two, and those of the result.
    each: bytes of temporaries that a further layer takes at least.
  """
  low, high, wanted = at
  far = (wanted - low) / (high - low)
  line = lambda a, b: a + (b - a) * far
  made = {name: line(few[name], more[name]) for name in _NUMBERS}
  made['temporaries'] = more['temporaries'] + (wanted - high) * max(
    (more['temporaries'] - few['temporaries']) / (high - low), each
  )
  kinds = set(few['sent']) | set(more['sent'])
  sent = {
    k: line(few['sent'].get(k, 0.0), more['sent'].get(k, 0.0)) for k in kinds
  }
  return {**made, 'sent': {k: sent[k] for k in counting.KINDS if sent.get(k)}}


def result(
  case: cases.Case, folder: pathlib.Path, *, full: bool, limit: float
) -> Result:
  """Compiles what a case needs, in processes of their own, where not known.

  Args:
    case: what is asked for.
    folder: where what was compiled is kept.
    full: whether all layers are compiled at once.
    limit: seconds for each program; 0 compiles none.
  """
  whole = case._replace(layers=0)
  layers = layers_of(case, full)
  parts = [_costs(case._replace(layers=n), folder, limit) for n in layers]
  spent = sum(p.get('cpu_seconds', 0.0) for p in parts)
  wrong = next((p['error'] for p in parts if 'error' in p), '')
  if wrong:
    return Result(whole, compiled=layers, seconds=spent, error=wrong)
  made = parts[0]
  if len(parts) == 2:
    low, high = layers
    at = low, high, whole.size.layers
    made = extrapolated(parts[0], parts[1], at, model.kept(whole))
  memory = {k: made[k] for k in ('arguments', 'outputs', 'temporaries')}
  return Result(
    whole, made['flops'], made['bytes'], made['sent'], made['chain'], memory,
    layers, spent,
  )  # fmt: skip


def _costs(
  case: cases.Case, folder: pathlib.Path, limit: float
) -> dict[str, Any]:
  """The costs of one program; a failure is kept by its message as well."""
  options = {} if case.target == chips.CPU else OPTIONS
  key = json.dumps([case, options, sources()])
  digest = hashlib.sha256(key.encode()).hexdigest()[:16]
  path = folder / f'{case.program}-{case.model}-{case.target}-{digest}.json'
  if path.exists():
    return json.loads(path.read_text())
  if not limit:
    return {'error': 'not yet'}
  folder.mkdir(parents=True, exist_ok=True)
  command = [
    sys.executable, '-m', 'arl.train.aot.worker', json.dumps(case), str(path),
    str(folder / 'programs'), json.dumps(options),
  ]  # fmt: skip
  log = path.with_suffix('.log')
  with log.open('w') as out:
    try:
      done = subprocess.run(
        command, stdout=out, stderr=out, env=environment(case), timeout=limit
      )
    except subprocess.TimeoutExpired:
      return {'error': f'not compiled within {limit:.0f} s'}
  if done.returncode:
    lines = log.read_text().strip().splitlines()
    said = [line for line in lines if 'Error' in line] or lines or ['nothing']
    return {'error': said[-1][:300]}
  return json.loads(path.read_text())


def environment(case: cases.Case) -> dict[str, str]:
  """The environment that a case is compiled in.

  libtpu asks for the machine it is on unless it is told.
  """
  flags = os.environ.get('XLA_FLAGS', '')
  if case.target == chips.CPU:
    flags += f' --xla_force_host_platform_device_count={case.chips}'
  return {
    **os.environ,
    'JAX_PLATFORMS': 'cpu',
    'XLA_FLAGS': flags,
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
    'TPU_SKIP_MDS_QUERY': '1',
    'TPU_ACCELERATOR_TYPE': 'v5e-8',
    'TPU_WORKER_HOSTNAMES': 'localhost',
  }


def sources() -> str:
  """A digest of the sources that programs are made from."""
  root = pathlib.Path(__file__).parents[2]
  digest = hashlib.sha256()
  for name in ('kernels', 'methods', 'models', 'train', 'rollout'):
    for path in sorted((root / name).rglob('*.py')):
      digest.update(path.read_bytes())
  return digest.hexdigest()


def results(
  wanted: list[cases.Case],
  folder: pathlib.Path,
  *,
  at_once: int,
  told: Callable[[int, Result], None],
  **how: Any,
) -> dict[cases.Case, Result]:
  """The results of cases; each is told, with its number, once it is there.

  Args:
    wanted: the cases, in the order in which they are begun.
    folder: where what was compiled is kept.
    at_once: how many are compiled at a time.
    told: (how many there are, the newest).
    **how: what `result` is told further.
  """
  made = {}
  with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
    waiting = {
      pool.submit(result, case, folder, **how): case for case in wanted
    }
    for i, future in enumerate(concurrent.futures.as_completed(waiting), 1):
      made[waiting[future]] = future.result()
      told(i, future.result())
  return {case: made[case] for case in wanted}
