"""Every sign trips on metrics that show it, on no others, and says so once."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from arl.evaluate import doctor, findings, limits
from experiments import common

STEPS = 12
QUIET = {
  'audit/unsampled': 0,
  'train/reward': 0.4,
  'train/success': 0.4,
  'train/entropy': 0.5,
  'groups/mixed': 0.6,
  'groups/solved': 0.2,
  'groups/unsolved': 0.2,
  'groups/varied': 0.6,
  'groups/std': 0.4,
  'length/tokens_p95': 40,
  'length/turns_p95': 4,
  'length/truncated': 0.02,
  'calls/invalid': 0.01,
  'loops/share': 0.0,
  'loops/distinct': 1.0,
  'actions/information': 1.5,
  'policy/clip_fraction': 0.01,
  'mismatch/mean': 1e-7,
  'mismatch/max': 1e-6,
  'mismatch/correlation': 1.0,
  'mismatch/probability': 1.0,
}
# Sign -> metrics in the second half of a run that show it.
SHOWN = {
  'masks': {'audit/unsampled': 3},
  'length': {'length/tokens_p95': 81},
  'truncation': {'length/truncated': 0.11},
  'calls': {'calls/invalid': 0.06},
  'loops': {'loops/share': 0.11, 'loops/distinct': 0.8},
  'groups': {
    'groups/mixed': 0.19, 'groups/varied': 0.19, 'groups/unsolved': 0.61,
  },
  'entropy': {'train/entropy': 0.09},
  'spread': {'groups/std': 0.039},
  'template': {'actions/information': 0.29},
  'drift': {'policy/clip_fraction': 0.31},
  'engine': {'mismatch/max': 0.5, 'mismatch/correlation': 0.98},
}  # fmt: skip


def config(**changes):
  made = common.base()
  made.update_from_flattened_dict(changes)
  return made.to_dict()


def rows(shown, steps=STEPS):
  """A quiet first half, and then what is shown; evaluated every third step."""
  made = []
  for step in range(1, steps + 1):
    row = {'step': step, **QUIET}
    if step > steps // 2:
      row |= shown
    if step % 3 == 0:
      row |= {'eval/sampled': 0.4, 'eval/sampled_high': 0.45}
    made.append(row)
  return made


def run(shown, **changes):
  return findings.Run(rows(shown), config(**changes))


def trips(given):
  found = doctor.diagnose(given)
  return {each.name for each in found if each.state == findings.TRIPS}


def test_a_quiet_run_is_quiet():
  found = doctor.diagnose(run({}))
  assert [each.name for each in found] == list(doctor.SIGNS)
  assert {each.state for each in found} == {findings.QUIET}


@pytest.mark.parametrize('name', SHOWN)
def test_a_sign_trips_on_what_shows_it_alone(name):
  assert trips(run(SHOWN[name])) == {name}


@pytest.mark.parametrize('name', SHOWN)
def test_what_trips_says_numbers_steps_and_settings_there_are(name):
  (found,) = [
    x for x in doctor.diagnose(run(SHOWN[name])) if x.state == findings.TRIPS
  ]
  assert any(c.isdigit() for c in found.evidence)
  assert 1 <= found.steps[0] <= found.steps[1] <= STEPS
  blocks = common.base()
  for setting in found.settings:
    place = blocks
    for part in setting.split(' (')[0].split('.'):
      assert part in place, setting
      place = place[part]
  assert found.name in doctor.sentence(found)


def test_all_signs_are_shown_here_or_below():
  assert doctor.SIGNS.keys() == SHOWN.keys() | {'hacking'}


def test_what_is_explained_is_of_signs_and_no_circle():
  for what, cause in doctor.FOLLOWS:
    assert {what, cause} <= doctor.SIGNS.keys()
  before = {}
  for what, cause in doctor.FOLLOWS:
    before.setdefault(what, set()).add(cause)

  def reaches(name, seen):
    assert name not in seen, f'{name} explains itself'
    for cause in before.get(name, ()):
      reaches(cause, seen | {name})

  for name in before:
    reaches(name, frozenset())


def test_a_finding_says_what_it_follows_from():
  both = {**SHOWN['masks'], **SHOWN['engine']}
  found = {x.name: x for x in doctor.diagnose(run(both))}
  assert found['engine'].because == 'masks' and found['masks'].because == ''
  assert 'follows from masks' in doctor.sentence(found['engine'])


# --- One by one ---------------------------------------------------------------


def hacked(gaps, high=0.05):
  made = []
  for step in range(1, 3 * len(gaps) + 1):
    gap = gaps[(step - 1) // 3]
    row = {'step': step, **QUIET, 'train/reward': 0.4 + gap}
    if step % 3 == 0:
      row |= {'eval/sampled': 0.4, 'eval/sampled_high': 0.4 + high}
    made.append(row)
  return findings.Run(made, config())


@pytest.mark.parametrize(
  'gaps, expected',
  [
    ([0.0, 0.1, 0.2], True),
    ([0.0, 0.1, 0.2, 0.2], True),  # it rose, and has stayed
    ([0.0, 0.1, 0.2, 0.1], False),  # it was, and is over
    ([0.2, 0.2, 0.2], False),  # it has always been
    ([0.0, 0.1], False),
    ([0.0, 0.05, 0.1], False),
  ],
)
def test_hacking_is_a_gap_that_rose_for_three_evaluations(gaps, expected):
  assert ('hacking' in trips(hacked(gaps))) is expected


def test_a_gap_within_the_doubt_of_an_evaluation_is_none():
  assert 'hacking' not in trips(hacked([0.0, 0.1, 0.2], high=0.25))


def test_terms_that_are_most_of_the_reward_are_a_sign():
  terms = lambda x: run({'reward/added': x, 'train/reward': 0.1})
  assert 'hacking' in trips(terms(0.2))
  assert 'hacking' not in trips(terms(0.05))
  assert 'hacking' not in trips(terms(-0.3))  # penalties are no temptation


@pytest.mark.parametrize('name', ['groups', 'entropy', 'spread'])
def test_sameness_is_fine_where_nearly_all_succeeds(name):
  good = {**SHOWN[name], 'train/success': 0.95}
  assert trips(run(good)) == set()


def test_groups_that_differ_in_part_of_a_reward_are_alive():
  assert trips(run({**SHOWN['groups'], 'groups/varied': 0.5})) == set()


def test_turns_count_as_length_too():
  assert trips(run({'length/turns_p95': 8})) == {'length'}


def test_wrong_calls_at_the_start_are_no_sign():
  early = [{**row, 'calls/invalid': 0.2} for row in rows({}, 5)]
  assert 'calls' not in trips(findings.Run(early, config()))


def test_a_policy_that_never_told_its_task_cannot_lose_that():
  low = [{**row, 'actions/information': 0.3} for row in rows({}, 6)]
  last = [{**row, 'step': row['step'] + 6} for row in rows({}, 6)]
  last = [{**row, 'actions/information': 0.0} for row in last]
  assert 'template' not in trips(findings.Run([*low, *last], config()))


def test_answers_scored_behind_other_prompts_count_where_they_are():
  key = 'templates/information'
  had, has = ({**row, key: x} for x, row in ((0.8, {}), (0.1, {})))
  made = [{**row, **had} for row in rows({}, 6)]
  made += [{**row, **has, 'step': row['step'] + 6} for row in rows({}, 6)]
  assert trips(findings.Run(made, config())) == {'template'}
  little = [{**row, key: row[key] / 10} for row in made]
  assert trips(findings.Run(little, config())) == set()


def test_old_rollouts_are_drift_and_no_mismatch():
  moved = {
    'mismatch/mean': 0.06, 'mismatch/max': 2.0, 'mismatch/correlation': 0.9,
  }  # fmt: skip
  assert trips(run(moved, **{'rollout.lag': 2})) == {'drift'}
  assert trips(run(moved, **{'prompts.max_age': 2})) == {'drift'}
  assert trips(run(moved)) == {'engine'}


def test_one_precision_has_to_agree_nearly_exactly():
  near = {'mismatch/max': 2e-3}
  assert trips(run(near)) == {'engine'}
  assert trips(run(near, **{'engine.dtype': 'bfloat16'})) == set()
  assert trips(run(near, **{'engine.urls': 'http://there'})) == set()
  far = {**near, 'mismatch/probability': 0.98}
  assert trips(run(far, **{'engine.dtype': 'bfloat16'})) == {'engine'}


def test_without_metrics_nothing_is_known_and_nothing_trips():
  for known in ([], [{'step': 1, 'train/reward': 0.5}]):
    found = doctor.diagnose(findings.Run(known, config()))
    assert {each.state for each in found} == {findings.UNKNOWN}


@hypothesis.given(
  st.lists(
    st.dictionaries(
      st.sampled_from([*QUIET, 'eval/sampled', 'reward/added']),
      st.floats(-1, 100) | st.just(math.nan),
    ),
    max_size=10,
  )
)
def test_whatever_was_logged_there_is_a_finding_a_sign(logged):
  made = [{'step': i + 1, **row} for i, row in enumerate(logged)]
  for row in made:
    if {'mismatch/correlation', 'mismatch/max'} - row.keys():
      row.pop('mismatch/correlation', None)
  found = doctor.diagnose(findings.Run(made, config()))
  assert [each.name for each in found] == list(doctor.SIGNS)


# --- What changes -------------------------------------------------------------


def noted(known):
  """(step, name, state) of all that is told as a run goes on."""
  names, told = set(), []
  for end in range(1, len(known.rows) + 1):
    so_far = known._replace(rows=known.rows[:end])
    for each in doctor.changed(names, so_far):
      told.append((end, each.name, each.state))
      names ^= {each.name}
  return told


def test_a_warning_is_told_once():
  told = noted(run(SHOWN['truncation']))
  assert [(name, state) for _, name, state in told] == [
    ('truncation', findings.TRIPS)
  ]


def test_what_comes_and_goes_within_a_window_is_told_once():
  flickering = rows({})
  for i, row in enumerate(flickering):
    row['length/truncated'] = 0.11 if i % 2 else 0.1
  (told,) = noted(findings.Run(flickering, config()))
  assert told[1:] == ('truncation', findings.TRIPS)


def test_what_is_over_is_told_after_a_window():
  window = int(limits.limit('window'))
  made = rows(SHOWN['truncation'], 12)
  made += [{'step': 13 + i, **QUIET} for i in range(8)]
  told = noted(findings.Run(made, config()))
  assert [x[1:] for x in told] == [
    ('truncation', findings.TRIPS), ('truncation', findings.QUIET),
  ]  # fmt: skip
  # Means of three steps are over .1 while one of them is of before.
  assert told[1][0] >= 12 + window
  last = findings.Finding('truncation', findings.QUIET, 'x', (1, 2))
  assert 'over' in doctor.sentence(last)


def test_what_still_trips_is_read_off_what_was_told():
  tell = lambda name, state: findings.Finding(name, state, '')
  told = [
    tell('a', findings.TRIPS), tell('b', findings.TRIPS),
    tell('a', findings.QUIET),
  ]  # fmt: skip
  assert doctor.still(told) == {'b'}


def test_limits_have_a_source_and_no_other_name_is_read():
  for each in limits.LIMITS.values():
    assert each.source and each.meaning and each.value >= 0
  with pytest.raises(KeyError):
    limits.limit('none')
