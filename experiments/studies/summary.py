"""RESULTS.md from the tables that the studies write.

Every study rewrites it when it ends; `python -m experiments.results --finished`
does nothing else where there are no runs.
"""

from experiments.studies import runs, sections

_PAGE = runs.RESULTS.parent / 'RESULTS.md'


def write() -> None:
  """Rewrites RESULTS.md from what is in results/."""
  parts = ['# Results\n\nGenerated: `python -m experiments.results`.']
  for name, title, command, text in sections.SECTIONS:
    table = runs.RESULTS / f'{name}.md'
    if not table.exists():
      continue
    parts += [f'## {title}', text, table.read_text('utf-8').rstrip()]
    for figure in (
      *runs.RESULTS.glob(f'{name}.png'),
      *sorted(runs.RESULTS.glob(f'{name}_*.png')),
    ):
      what = figure.stem.removeprefix(name).replace('_', ': ', 1)
      parts.append(f'![{title}{what}](results/{figure.name})')
    parts.append(f'Remade by `{command}`.')
  _PAGE.write_text('\n\n'.join(parts) + '\n', encoding='utf-8')
