"""The worked examples of the rewards' definitions, and who computes each.

As in `worked_tables`: computed from the published formulas alone, without arl,
to six decimals.
"""

import json
import pathlib
import re

import check
import numpy as np
import pytest

from arl.rewards import (
  composite,
  consensus,
  ensembles,
  forms,
  judge,
  learning,
  lengths,
  outcomes,
  patches,
  progress,
  reasoning,
  rubrics,
  search,
  steps,
  tool_calls,
  verdict,
)

FOLDER = pathlib.Path(__file__).parent
NUMBERS = json.loads((FOLDER / 'worked_rewards.json').read_text())
POLICY = json.loads((FOLDER / 'worked_policy.json').read_text())

MODELS = np.array([[1.2], [0.8], [1.0], [0.2]])
PASSED = [outcomes.PASSED] * 3 + [outcomes.FAILED]
OURS = {'a.py': '- return a\n+ return a - b'}
RIGHT = {'a.py': '- return a\n+ return a + b'}
SEARCHED = tool_calls.Call('search', {'q': 'x', 'k': 3})
OTHER = tool_calls.Call('search', {'q': 'x', 'k': 5})
PLAIN = tool_calls.Call('search', {'q': 'x'})
SCORES = (0.8, -0.2, 0.5)
OUTCOMES, CHECKED = (1, 0, 1, 0), (0.8, 0.5, 0.4, 0.1)
TERMS = {'format': 1, 'tool_efficiency': 1}
BELIEFS = (0.1, 0.3, 0.25, 0.9)


def _right(*calls):
  return tool_calls.correctness(calls, [SEARCHED])


def _shaped():
  calls = [PLAIN, PLAIN, PLAIN, None]
  return tool_calls.shaping(calls, ['search'], 'search')


def _scores(*values):
  return [verdict.scored(value) for value in values]


TABLE = {
  'ens': lambda: [
    ensembles.mean(MODELS)[0],
    ensembles.worst(MODELS)[0],
    ensembles.less_variance(MODELS)[0],
    ensembles.less_deviation(MODELS)[0],
  ],
  'em': lambda: search.exact_match('The Eiffel Tower!', ['eiffel tower']),
  'f1': lambda: search.f1('the tall Eiffel Tower', ['Eiffel Tower']),
  'code_frac': lambda: [
    outcomes.fraction(PASSED).score,
    outcomes.all_passed(PASSED).score,
  ],
  'swe': lambda: patches.similarity(OURS, RIGHT),
  'swe_two': lambda: patches.similarity({**OURS, 'b.py': '+ 1'}, RIGHT),
  'toolrl_c': lambda: _right(OTHER),
  'toolrl_extra': lambda: tool_calls.correctness(
    [PLAIN, tool_calls.Call('other', {})], [PLAIN]
  ),
  'toolrl_wrong': lambda: _right(tool_calls.Call('other', {'q': 'x'})),
  'lin': lambda: lengths.linear(1, 1300, 1000),
  'sigl': lambda: lengths.sigmoid(1, 1300, 1000),
  'overlong': lambda: [
    lengths.overlong(length, longest=20480, buffer=4096)
    for length in (16000, 18432, 20480, 21000)
  ],
  'kimi': lambda: lengths.in_group((100, 200, 400), (True, False, True)),
  'sar': lambda: steps.self_aligned(0, [-0.9], [-0.6], coef=1),
  'sar_tot': lambda: steps.self_aligned(1, [-0.9, -0.9], [-0.7, -0.5]),
  'corew_ema': lambda: [
    consensus.reference_rate(step, 100) for step in (0, 50, 100)
  ],
  'pure_w': lambda: steps.min_form(SCORES) / SCORES,
  'pure_r': lambda: steps.min_form(SCORES),
  'pure_sum': lambda: steps.min_form(SCORES).sum(),
  'pure_T1': lambda: steps.min_form(SCORES, temperature=1).sum(),
  'pure_ret': lambda: steps.to_go(steps.min_form(SCORES)),
  'drqa': lambda: [
    reasoning.drqa(said, label) for said, label in zip('ABC', 'ABA')
  ],
  'a2d': lambda: [
    progress.guided_pass(0.25, 4),
    progress.dense((True, True, False), 0, share=1),
  ],
  'sure': lambda: [
    reasoning.sure(abstained, rest)
    for abstained, rest in ((True, 0.3), (True, 0.9), (False, None))
  ],
  'tcr': lambda: rubrics.tcr(OUTCOMES, CHECKED, 0.5),
  'tcr_reg': lambda: rubrics.tcr_regressed(
    OUTCOMES, CHECKED, rubrics.observed(OUTCOMES, CHECKED)
  ),
  'vrub': lambda: rubrics.v_rubrics(1, (1, 0, 1), (3, 2, 1)),
  'trca': lambda: rubrics.trca([0.5 - 0.25], ['ab'], 'abcd')[0],
  'draco_a': lambda: rubrics.draco(1, (1, 1), (2, 4)),
  'draco_b': lambda: rubrics.draco(1, (0.5, 1), (2, 4)),
  'draco_c': lambda: rubrics.draco(-1, (0.5, 1), (2, 4)),
  'draco_R': lambda: rubrics.draco_reward(2, 3),
  'vps': lambda: steps.belief_shifts(BELIEFS),
  'vps_sum': lambda: steps.belief_shifts(BELIEFS).sum(),
  'spade': lambda: [
    learning.spade(hinted, plain)
    for hinted, plain in ((0.55, 0.45), (0.2, 0.3), (0.95, 0.95))
  ],
  'rzero': lambda: [learning.r_zero(rate) for rate in (0, 0.3, 0.5, 1)],
  'rzero_paper': lambda: [
    learning.r_zero_paper(rate) for rate in (0, 0.3, 0.5, 1)
  ],
  'azr': lambda: [learning.absolute_zero(rate) for rate in (0, 0.25, 0.75, 1)],
  'comp': lambda: [
    composite.capped(1, {**TERMS, 'length': 2}).total,
    composite.capped(0, TERMS).total,
    composite.capped(0, {'format': 1, 'tool_efficiency': 9}).total,
  ],
  'fmt_seed': lambda: forms.survey(True, 2, 1, True),
  'shape_seed': _shaped,
  'judge': lambda: [
    judge.median(_scores(0.2, 0.9, 0.8)).score,
    judge.majority(_scores(1, 1, 0)).score,
  ],
  'truth': lambda: [
    reasoning.ternary(*each)
    for each in ((True, False), (False, True), (False, False))
  ],
}


def _numbers(text):
  found = [float(x) for x in re.findall(r'-?\d+\.\d+', text)]
  return np.asarray(found[0] if len(found) == 1 else found)


def test_every_number_has_a_row():
  assert TABLE.keys() == NUMBERS.keys()


@pytest.mark.parametrize('key', TABLE)
def test_worked_example(key):
  pair = np.asarray(TABLE[key](), float), _numbers(NUMBERS[key])
  assert check.error([pair]) <= check.ROUNDED


def test_similarity_of_patches():
  ours = patches.similarity({'a': 'return a + b'}, {'a': 'return a - b'})
  theirs = _numbers(POLICY['swerl.sim'])
  assert check.error([(np.asarray(ours), theirs)]) <= check.ROUNDED
