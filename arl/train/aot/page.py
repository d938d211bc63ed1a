"""The report as Markdown: tables of what was compiled."""

import pathlib
from collections.abc import Sequence
from importlib import metadata

from arl.train.aot import cases, chips, grid, model, results
from arl.train.aot.results import Result

_HERE = pathlib.Path(__file__).parent
_KINDS = {
  'all-gather': 'gather',
  'reduce-scatter': 'scatter',
  'all-reduce': 'reduce',
  'all-to-all': 'to all',
  'collective-permute': 'permute',
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """A table in Markdown."""
  lines = [header, ['---'] * len(header), *rows]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def short(x: float) -> str:
  """Three digits, or a whole number where that says more."""
  return f'{x:,.0f}' if abs(x) >= 999.5 else f'{x:.3g}'


def times(one: Result) -> chips.Roofline | None:
  """What the chip's figures say of a result; None on a CPU."""
  if one.case.target == chips.CPU or one.error:
    return None
  chip = chips.CHIPS[one.case.target]
  return chips.roofline(chip, one.flops, one.bytes, sum(one.sent.values()))


def numbers(one: Result) -> dict[str, float | str | bool]:
  """A result as one flat object, for a line of JSON."""
  case, found = one.case, times(one)
  made: dict[str, float | str | bool] = {
    'name': case.name,
    'layers': case.size.layers,
    'compiled_layers': ','.join(map(str, one.compiled)),
    'compile_cpu_seconds': round(one.seconds, 1),
  }
  if one.error:
    return {**made, 'error': one.error}
  want = model.expected(case)
  made |= {
    'flops': one.flops,
    'hbm_bytes': one.bytes,
    'sent_bytes': sum(one.sent.values()),
    **{f'sent_{k.replace("-", "_")}': x for k, x in one.sent.items()},
    'chain': one.chain,
    **{f'memory_{k}': x for k, x in one.memory.items()},
    **{f'{k}_to_model': x for k, x in ratios(one).items() if x},
  }
  if found:
    chip = chips.CHIPS[case.target]
    each = case.tokens / case.chips
    made |= {
      'fits': one.held <= chip.hbm,
      'seconds_least': found.least,
      'seconds_most': found.most,
      'limit': found.limit,
      'tokens_per_chip_second_most': each / found.least,
      'tokens_per_chip_second_least': each / found.most,
      'mfu_most': want.useful / chip.flops / found.least,
      'mfu_least': want.useful / chip.flops / found.most,
    }
  return made


def ratios(one: Result) -> dict[str, float | None]:
  """Compiled numbers over those of the formulas; None over nothing."""
  want = model.expected(one.case)
  over = lambda a, b: a / b if b else None
  return {
    'flops': over(one.flops, want.flops),
    'bytes': over(one.bytes, want.bytes),
    'sent': over(sum(one.sent.values()), sum(want.sent.values())),
    'chain': over(one.chain, want.chain),
    'memory': over(one.held, sum(want.memory.values())),
  }


def costs(found: Sequence[Result]) -> str:
  """What each case costs a device, and what the chip's figures make of it."""
  header = [
    'model', 'chips', 'layout', 'rows', 'TFLOP', 'HBM GB', 'sent GB',
    'memory GiB', 'fits', 'ms', 'bound', 'tokens/s/chip', 'MFU',
  ]  # fmt: skip
  return table(header, [_costs(one) for one in found])


def _costs(one: Result) -> list[str]:
  case = one.case
  head = [
    case.model
    if case.program == cases.TRAIN
    else f'{case.model} {case.program}',
    f'{case.target}-{case.chips}',
    layout(case),
    f'{case.rows} x {case.length}',
  ]
  if one.error:
    return [*head, one.error[:60], *[''] * 8]
  body = [
    short(one.flops / 1e12),
    short(one.bytes / 1e9),
    short(sum(one.sent.values()) / 1e9),
    short(one.held / 2**30),
  ]
  found = times(one)
  if not found:
    return [*head, *body, *['no figures'] * 5]
  chip = chips.CHIPS[case.target]
  each, useful = case.tokens / case.chips, model.expected(case).useful
  span = lambda f, form: f'{f(found.most):{form}} to {f(found.least):{form}}'
  return [
    *head,
    *body,
    'yes' if one.held <= chip.hbm else f'no, {chip.hbm / 2**30:.0f}',
    f'{short(found.least * 1e3)} to {short(found.most * 1e3)}',
    found.limit,
    span(lambda s: each / s, ',.0f'),
    span(lambda s: useful / chip.flops / s, '.2f'),
  ]


def layout(case: cases.Case) -> str:
  """The axes of a mesh that split something."""
  named = [f'{name} {n}' for name, n in case.axes.items() if n > 1]
  return ', '.join(named) or 'one device'


def sent(found: Sequence[Result]) -> str:
  """Bytes of collectives by kind, compiled and by the formulas, in GB."""
  header = ['model', 'chips', 'layout', *_KINDS.values(), 'chain']
  rows = []
  for one in found:
    if one.error:
      continue
    want = model.expected(one.case)
    pair = lambda a, b: (
      f'{short(a / 1e9)} / {short(b / 1e9)}' if a or b else '0'
    )
    rows.append([
      one.case.model,
      f'{one.case.target}-{one.case.chips}',
      layout(one.case),
      *(pair(one.sent.get(k, 0), want.sent.get(k, 0)) for k in _KINDS),
      f'{one.chain:,.0f} / {want.chain:,.0f}',
    ])  # fmt: skip
  return table(header, rows)


def compared(found: Sequence[Result]) -> str:
  """Compiled numbers over those of the formulas."""
  header = ['case', 'FLOPs', 'HBM bytes', 'sent', 'chain', 'memory']
  rows = [
    [one.case.name, *(f'{x:.2f}' if x else '–' for x in ratios(one).values())]
    for one in found
    if not one.error
  ]
  return table(header, rows)


def write(
  made: grid.Grid, found: dict[cases.Case, Result], folder: pathlib.Path
) -> pathlib.Path:
  """Writes scaling.md from the text beside this module; figures are drawn."""
  text = (_HERE / 'scaling.md').read_text(encoding='utf-8')
  of = lambda cs: [found[c] for c in cs if c in found]
  every = list(found.values())
  filled = {
    'scaling': costs(of(made.scaling)),
    'sent': sent(of(made.scaling)),
    'layouts': costs(of(made.layouts)),
    'layouts_sent': sent(of(made.layouts)),
    'lengths': costs(of(made.lengths)),
    'sampling': costs(of(made.sampling)),
    'compared': compared(every),
    'chips': constants(),
    'options': ', '.join(f'`{k}={v}`' for k, v in results.OPTIONS.items()),
    'compiled': provenance(every),
  }
  for name, body in filled.items():
    text = text.replace(f'<!-- {name} -->', body)
  path = folder / 'scaling.md'
  path.write_text(text, encoding='utf-8')
  return path


def constants() -> str:
  """The figures of the chips."""
  return table(
    ['chip', 'bfloat16 TFLOP/s', 'HBM GiB', 'HBM GB/s', 'links GB/s, one way'],
    [
      [
        name, f'{c.flops / 1e12:.0f}', f'{c.hbm / 2**30:.0f}',
        f'{c.hbm_rate / 1e9:,.0f}', f'{c.link_rate / 1e9:.0f}',
      ]
      for name, c in chips.CHIPS.items()
    ],
  )  # fmt: skip


def versions() -> list[str]:
  """What compiles here, with versions."""
  names = ['jax', *(['libtpu'] if results.have_libtpu() else [])]
  return [f'{name} {metadata.version(name)}' for name in names]


def provenance(found: Sequence[Result]) -> str:
  """From what the numbers are drawn, in a sentence or two."""
  there = [one for one in found if not one.error]
  cpu = any(one.case.target == chips.CPU for one in there)
  drawn = sum(len(one.compiled) == 2 for one in there)
  said = (
    f'{len(there)} of {len(found)} cases were compiled, in'
    f' {sum(one.seconds for one in there):,.0f} processor-seconds; of {drawn}'
    ' the whole is extrapolated from programs of 1 and 3 layers, by'
    f' {" and ".join(versions())}.'
  )
  if cpu:
    said += (
      ' libtpu was not there: the programs are for fake CPU devices, whose'
      ' collectives are those of the layout, but which say nothing of a TPU.'
    )
  return said
