r"""What a step costs on a TPU, found by compiling it: python -m launch.aot.

  python -m launch.aot [--quick] [--workdir=runs/aot] [--full]
  python -m launch.aot --programs=train --models=8B --target=v5p --chips=64 \
    --mesh=fsdp=16,context=4 --rows=1 --length=8192

Compiles the training and the sampling step for named TPU topologies, from
abstract arguments and without a TPU, where `libtpu` is installed; else for fake
CPU devices, and says so. Prints one JSON object a case: FLOPs, bytes to and
from HBM, bytes of collectives by kind, memory, what the vendor's figures make
of them, and how all that compares with formulas. Without flags that name a case
it makes the report: the cases of docs/scaling.md, which it rewrites.

Each program is compiled in a process of its own and kept in the workdir, so
that the command can be given again: only what is missing is compiled. Layers
are alike, so each case is drawn from programs of 1 and 3 layers; --full
compiles all layers instead, which takes hours for the larger models.
"""

import json
import pathlib

from absl import app, flags

from arl import command
from arl.train import progress
from arl.train.aot import cases, chips, figures, grid, page, results

DOCS = pathlib.Path(__file__).parents[1] / 'docs'
_NAMING = ('programs', 'models', 'target', 'chips', 'mesh', 'rows', 'length')


def define() -> None:
  """Defines the flags."""
  flags.DEFINE_bool('quick', False, 'A minute: tiny shapes, the same lines.')
  flags.DEFINE_bool('full', False, 'Compile all layers, not 1 and 3.')
  flags.DEFINE_string('workdir', 'runs/aot', 'Where what is compiled is kept.')
  flags.DEFINE_bool('finished', False, 'Compile nothing: tell what is there.')
  flags.DEFINE_float('limit', 900.0, 'Seconds for each program.', 1.0)
  flags.DEFINE_integer('at_once', 2, 'How many are compiled at a time.', 1)
  flags.DEFINE_list('programs', [cases.TRAIN], 'Of train, decode.')
  flags.DEFINE_list('models', list(grid.HOMES), 'Of the models to compile.')
  flags.DEFINE_string(
    'target', None, "A chip, or 'cpu'; each model's own chip if not given."
  )
  flags.DEFINE_list('chips', ['64'], 'How many; one case each.')
  flags.DEFINE_string(
    'mesh', None, 'Devices along axes, as fsdp=8,tensor=8; else the usual.'
  )
  flags.DEFINE_integer('rows', None, 'Rows of a device in a microbatch.', 1)
  flags.DEFINE_integer('length', grid.LENGTH, 'Tokens of a row.', 2)


def named() -> list[cases.Case]:
  """The cases that flags name.

  Raises:
    ValueError: they cannot be compiled.
  """
  given = flags.FLAGS
  made = []
  for program in given.programs:
    for model in given.models:
      for n in map(int, given.chips):
        if model not in cases.MODELS:
          raise ValueError(
            f'aot: {model!r} is no model; take of {", ".join(cases.MODELS)}.'
          )
        made.append(_case(program, model, n))
        cases.check(made[-1])
  return made


def _case(program: str, model: str, n: int) -> cases.Case:
  given, tpu = flags.FLAGS, results.have_libtpu()
  home = grid.HOMES.get(model, 'v5e') if tpu else chips.CPU
  mesh = cases.usual_mesh(program, model, n)
  if given.mesh:
    pairs = (part.split('=') for part in given.mesh.split(','))
    mesh = cases.mesh(**{name: int(size) for name, size in pairs})
  made = cases.Case(
    program, model, given.target or home, mesh,
    given.rows or grid.ROWS, given.length,
    2 if program == cases.TRAIN else 1,
  )  # fmt: skip
  if made.chips != n:
    raise ValueError(f'aot: --mesh has {made.chips} devices, --chips says {n}.')
  if made.target != chips.CPU:
    chips.topology(made.target, n)
  return made


def compile_all(
  wanted: list[cases.Case], folder: pathlib.Path
) -> dict[cases.Case, results.Result]:
  """The results by case; each is printed as it is there."""
  given = flags.FLAGS
  with progress.track(len(wanted), 'Programs compiled') as report:

    def told(i: int, one: results.Result) -> None:
      report(i, {'cpu-s': one.seconds})
      report.note(json.dumps(page.numbers(one)))

    return results.results(
      wanted,
      folder,
      at_once=given.at_once,
      told=told,
      full=given.full,
      limit=0.0 if given.finished else given.limit,
    )


def draw(
  made: grid.Grid, found: dict[cases.Case, results.Result], folder: pathlib.Path
) -> None:
  """The figures of the report."""
  by_model = {
    f'{model} on {target}': [
      (c.chips, found[c]) for c in made.scaling if c.model == model
    ]
    for model, target in grid.HOMES.items()
  }
  figures.draw(by_model, 'chips', folder / 'scaling_chips.png')
  title = f'{made.lengths[0].model} on {made.lengths[0].chips} chips'
  lengths = {title: [(c.length, found[c]) for c in made.lengths]}
  figures.draw(lengths, 'tokens of a row', folder / 'scaling_length.png')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given, tpu = flags.FLAGS, results.have_libtpu()
  if not tpu:
    print(
      'libtpu is not installed: compiling for fake CPU devices instead, which'
      ' shows what a layout sends and holds but no times of a TPU.'
    )
  folder = pathlib.Path(given.workdir)
  if any(given[name].present for name in _NAMING):
    compile_all(named(), folder)
    return
  made = grid.quick(tpu) if given.quick else grid.full(tpu)
  found = compile_all(made.every(), folder)
  home = folder if given.quick else DOCS
  draw(made, found, home)
  print(f'wrote {page.write(made, found, home)}')


if __name__ == '__main__':
  command.run(main, define)
