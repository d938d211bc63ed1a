"""The page of `evidence`: its text, tables and figures, from its numbers."""

import pathlib
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from arl.report import bars, curves
from experiments import public_tasks
from experiments.studies import runs

DOCS = pathlib.Path(__file__).parents[2] / 'docs'
NOT_YET = 'Not run yet'
_WHAT = {
  'word_sorting': 'reasoning-gym, `word_sorting`: three words of three to six'
  ' letters, in ascending or descending order of their characters, capitals'
  ' first. The package goes to ten words of up to twelve letters; this is its'
  ' easy end.',
  'bfcl_simple': 'BFCL v4, `simple_python`: 400 questions, each with the'
  ' description of one function, to be answered by the right call of it.',
  'chain_sum': 'reasoning-gym, `chain_sum`: two numbers of two digits are added'
  ' or subtracted. The package goes to six numbers of up to four digits.',
}
ABOUT = """# Evidence of use

Made by `python -m experiments.studies.evidence --smollm2=DIR`, where DIR holds
SmolLM2-135M-Instruct (BUILD.md says where from), with the packages
`reasoning-gym` 0.1.25 and `bfcl-eval` 2026.3.23, which `launch/outside_envs.sh`
installs.

Public task sets that were not made for arl, a pretrained model, a CPU: can a
model be trained with arl to solve what it did not solve before? As it comes,
this one hardly solves any of them: it answers in prose, and sums up wrongly. So
it imitates right answers for a little, and then learns by RL from what it earns
itself.
"""
HOW = """## What was done

- **Held out.** Both stages see training problems alone. A problem of
  reasoning-gym is held out where a hash of its text says so, one in four; of
  BFCL's questions the first 300 are trained on, and the last 100 are held out.
  One function, `detailed_weather_forecast`, is asked for on both sides; all
  others that are held out were never seen in training. Tests compare the sides.
- **Graders.** reasoning-gym's own scorer, at its full score of 1, and BFCL's
  rules, which tests hold against the package's own checker. Nothing is paid for
  form.
- **Imitation.** The data's own answers to training problems, which those
  graders find right (a test): {imitated} a step, AdamW, a rate of {sft_lr:g}
  that falls to 0.
- **RL.** DAPO's loss (bounds 0.2 and 0.28) on rollouts at temperature 1,
  {samples} a prompt; prompts whose rollouts earn the same are left out; AdamW,
  at the rate of the table below.
- In both the ten top layers of thirty are trained, and the rest stays.
- **Measured** are the policies that the stages end with, never one that was
  chosen by a score, all on the same held-out problems: two samples of each at
  temperature 1, and one greedy answer. Intervals are of 95 %: of rates by
  bootstrap over problems (sampled) and after Wilson (greedy), of differences by
  bootstrap over problems, each compared with itself.
- **Tried** were these sets and no others. After a look at held-out problems
  `chain_sum` got more imitation than the 48 steps that it had at first, after
  which 1 of 32 was solved at temperature 1 and 3 were greedily. The same was
  tried with `word_sorting`, where 160 steps solved 4 of 32 greedily, no more
  than 40 do, and given up. RL had a rate of 3e-05 at first, at which no ratio
  was ever clipped; `bfcl_simple` then ended at 0.245 sampled and 0.330 greedy.
  On `chain_sum` 120 steps of 8 prompts and two updates, a rate of 1e-04, ended
  at 0.308 and 0.310, below imitation: an update had one or two prompts whose
  rollouts differed. 40 steps of 32 prompts and one update ended at 0.342 and
  0.360: such a step learns its own prompts by heart (8 prompts alone were
  solved in 8 updates) at the cost of others. The table has a fifth of that
  rate, and 24 of 40 steps, for time. The other two sets were not run again.

After this training the questions of BFCL are no benchmark for that policy any
more, and the numbers are no scores of BFCL, whose prompt is another one too.
"""
LIMITS = """## What it does not show

There is one run of imitation, and as many of RL as the table has rows: the
intervals are over problems, and say nothing of other seeds. What imitation
gains is form and skill in one number; what RL adds to it is the other. The
seconds are of a machine with two cores that other work used at the same time.
"""
_UNTOLD = """Where an interval holds 0, these problems do not tell that anything
was gained.
"""


def page(made: Mapping[str, Any]) -> str:
  """The page, in Markdown, of what `evidence` found."""
  parts = [ABOUT, _settings(), _how(), '## What came of it\n', _rates(made)]
  parts += ['## Differences, problem by problem\n', _UNTOLD, _gains(made)]
  drawn = [name for name in public_tasks.SETS if _there(made, name)]
  parts += [f'![{name}]({_figure(name)})\n' for name in drawn]
  if _trained(made):
    text = 'Success of the training rollouts of each step of RL:\n'
    parts += [text, f'![training]({_figure("training")})\n']
  parts += ['## What it took\n', _costs(made)]
  parts += [*_answers(made), LIMITS]
  return '\n'.join(parts)


def write(made: Mapping[str, Any], folder: pathlib.Path = DOCS) -> None:
  """Writes the page and the figures of what is there."""
  (folder / 'evidence.md').write_text(page(made), encoding='utf-8')
  for name in public_tasks.SETS:
    found = made['sets'][name]['policies']
    if _there(made, name):
      sampled = {who: each['sampled'] for who, each in found.items()}
      bars.bars(
        [
          bars.Bar(_who(who), one['success'], one['interval'])
          for who, one in sampled.items()
        ],
        title=f'{name}, held out',
        unit='success, sampled',
        reference=sampled['base']['success'],
        path=folder / _figure(name),
      )
  if seeds := _trained(made):
    key, path = 'train/success', folder / _figure('training')
    curves.compare(seeds, key, path)


def _figure(name: str) -> str:
  return f'evidence_{name}.png'


def _stage(policy: str) -> str:
  """The stage that ends with a policy, in words."""
  if policy == 'sft':
    return 'imitation'
  return f'RL, seed {policy.removeprefix("rl_seed")}'


def _who(policy: str) -> str:
  """A policy in words."""
  return 'as it comes' if policy == 'base' else f'after {_stage(policy)}'


def _all(made: Mapping[str, Any]) -> list[str]:
  return ['base', 'sft', *(f'rl_seed{seed}' for seed in made['seeds'])]


def _there(made: Mapping[str, Any], name: str) -> bool:
  """Whether there is something to compare."""
  found = made['sets'][name]['policies']
  return 'base' in found and len(found) > 1


def _trained(made: Mapping[str, Any]) -> dict[str, list[list[dict]]]:
  """Of each set the training success of each finished seed of RL."""
  found = {
    name: [
      [{'step': i, 'train/success': x} for i, x in enumerate(one['success'], 1)]
      for stage, one in each['stages'].items()
      if stage != 'sft'
    ]
    for name, each in made['sets'].items()
  }
  return {name: seeds for name, seeds in found.items() if seeds}


def _settings() -> str:
  """The sets, and how much of each the stages take."""
  lines = [f'- {textwrap.fill(text, 78)}' for text in _WHAT.values()]
  return '## The sets\n\n' + '\n'.join(x.replace('\n', '\n  ') for x in lines)


def _how() -> str:
  return '\n' + HOW.format(
    imitated=public_tasks.IMITATED,
    samples=public_tasks.SAMPLES,
    sft_lr=_imitation_rate(),
  )


def _imitation_rate() -> float:
  return public_tasks.get_config('stage=sft').optimizer.lr


def _rates(made: Mapping[str, Any]) -> str:
  header = ('set', 'policy', 'sampled', 'greedy', 'problems', 'tokens', 'cut')
  body = []
  for name, each in made['sets'].items():
    for who in _all(made):
      found = each['policies'].get(who)
      if not found:
        body.append([name, _who(who), NOT_YET, *[''] * 4])
        continue
      rates = [
        runs.percent(one['success'], one['interval']) for one in found.values()
      ]
      greedy = found['greedy']
      cells = [greedy['tasks'], greedy['tokens'], greedy['cut']]
      body.append([name, _who(who), *rates, *map(str, cells)])
  note = (
    'Success on held-out problems. Tokens are the mean of a greedy answer, and'
    ' cut is how many of those did not end within the limit.'
  )
  return f'{textwrap.fill(note, 84)}\n\n{runs.markdown(header, body)}'


def _gains(made: Mapping[str, Any]) -> str:
  body = []
  for name, each in made['sets'].items():
    for before, after in _steps(made):
      found = each['gains'].get(f'{after} - {before}')
      cells = [NOT_YET, '']
      if found:
        cells = [_gain(one) for one in found.values()]
      body.append([name, _stage(after), *cells])
  return runs.markdown(('set', 'gained by', 'sampled', 'greedy'), body)


def _steps(made: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
  yield 'base', 'sft'
  yield from (('sft', f'rl_seed{seed}') for seed in made['seeds'])


def _gain(one: Mapping[str, Any]) -> str:
  if one['interval'] is None:
    return f'{one["gain"]:+.3f} (the same for all)'
  low, high = one['interval']
  return f'{one["gain"]:+.3f} ({low:+.3f} to {high:+.3f})'


def _costs(made: Mapping[str, Any]) -> str:
  body = []
  for name, each in made['sets'].items():
    one = public_tasks.SETS[name]
    rollouts = one['prompts'] * public_tasks.SAMPLES
    for stage in ('sft', *(f'rl_seed{seed}' for seed in made['seeds'])):
      kind = 'sft' if stage == 'sft' else 'rl'
      seen = public_tasks.IMITATED if kind == 'sft' else rollouts
      found = each['stages'].get(stage)
      seconds = f'{found["seconds"]:.0f}' if found else NOT_YET
      steps = one['steps'][kind]
      what = 'answers' if kind == 'sft' else 'rollouts'
      updates, rate = one['updates'] * steps, f'{one["rate"]:g}'
      if kind == 'sft':
        updates, rate = steps, f'{_imitation_rate():g} to 0'
      cells = [
        str(steps),
        f'{steps * seen} {what}',
        str(updates),
        rate,
        seconds,
      ]
      body.append([name, _stage(stage), *cells])
  header = ('set', 'stage', 'steps', 'seen', 'updates', 'rate', 'seconds')
  return runs.markdown(header, body)


def _answers(made: Mapping[str, Any]) -> Iterator[str]:
  """The first held-out problem of each set, and the greedy answers to it."""
  yield '## The first held-out problem of each set, answered greedily\n'
  for name, each in made['sets'].items():
    found = {who: one['greedy'] for who, one in each['policies'].items()}
    if not found:
      yield f'`{name}`: {NOT_YET.lower()}.\n'
      continue
    prompt = next(iter(found.values()))['prompt']
    yield f'`{name}`:\n\n{textwrap.indent(prompt.strip(), "    ")}\n'
    for who, one in found.items():
      said = textwrap.indent(one['said'].strip() or '(nothing)', '    ')
      yield f'{_who(who)}, reward {one["reward"]:g}:\n\n{said}\n'
