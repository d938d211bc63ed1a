"""The order in which to look, with what samples add."""

import pytest

from arl.evaluate import checklist, findings
from experiments import common

ROW = {
  'train/reward': 0.4, 'train/success': 0.4, 'train/reward_error': 0,
  'train/entropy': 0.5, 'groups/mixed': 0.6, 'groups/solved': 0.2,
  'groups/unsolved': 0.2, 'groups/varied': 0.6, 'groups/std': 0.4,
  'length/tokens_p95': 40, 'length/turns_p95': 4, 'length/truncated': 0.0,
  'calls/invalid': 0.0, 'loops/share': 0.0, 'loops/distinct': 1.0,
  'audit/unsampled': 0, 'policy/clip_fraction': 0.0, 'policy/kl': 1e-4,
  'mismatch/mean': 1e-7, 'mismatch/max': 1e-6, 'mismatch/correlation': 1.0,
  'mismatch/probability': 1.0,
}  # fmt: skip


def sample(actions, masked=None, reward=1.0, cut=False):
  """A prompt, and actions with their answers; masked: which pieces are on."""
  pieces, mask, turn = ['b?'], [0], [0]
  for i, (action, answer) in enumerate(actions):
    pieces += [action, '<|end|>', answer]
    mask += [1, 1, 0]
    turn += [i, i, i]
  return {
    'step': 1,
    'task': 'a',
    'status': 'finished',
    'reward': reward,
    'cut': cut,
    'exchanges': [
      {'action': a, 'answer': b, 'reward': 0.0, 'valid': True}
      for a, b in actions
    ],
    'pieces': pieces,
    'mask': mask if masked is None else masked,
    'turn': turn,
    'logp': [0.0] * len(mask),
    'old_logp': [0.0] * len(mask),
  }


GOOD = sample([('get(b)', '417'), ('=417', '')])


def run(samples=(), **changed):
  row = {**ROW, **changed}
  rows = [{'step': i, **row} for i in range(1, 10)]
  return findings.Run(rows, common.base().to_dict(), samples)


def item(number, given):
  return checklist.go_through(given)[number]


def test_a_good_run_passes_all_eight():
  found = checklist.go_through(run([GOOD]))
  assert len(found) == 8
  assert {each.state for each in found} == {findings.QUIET}
  assert len({each.name for each in found}) == 8


@pytest.mark.parametrize(
  'number, changed',
  [
    (0, {'mismatch/correlation': 0.9, 'mismatch/max': 1.0}),
    (1, {'train/reward': 0.0}),
    (1, {'train/reward_error': 2}),
    (2, {'length/truncated': 0.5}),
    (3, {'audit/unsampled': 1}),
    (4, {'policy/clip_fraction': 0.5}),
    (5, {'groups/mixed': 0.1, 'groups/varied': 0.1}),
    (6, {'loops/share': 0.5}),
    (6, {'calls/invalid': 0.5}),
    (7, {'groups/varied': 0.1}),
  ],
)
def test_an_item_trips_on_what_it_is_for(number, changed):
  assert item(number, run([GOOD], **changed)).state == findings.TRIPS


def test_masks_are_read_by_decoding_them():
  found = item(3, run([GOOD]))
  assert found.sample == ('b?[[get(b)<|end|>]]417[[=417<|end|>]]')
  leaky = sample(
    [('get(b)', '417'), ('=417', '')], masked=[0, 1, 1, 1, 1, 1, 0]
  )
  found = item(3, run([GOOD, leaky]))
  assert found.state == findings.TRIPS
  assert '1 of 2 samples' in found.evidence and '417[[' not in found.sample


def test_tokens_that_are_not_the_action_do_not_spell_it():
  other = {**GOOD, 'pieces': [*GOOD['pieces'][:4], '=528', '<|end|>', '']}
  assert checklist.spoken(GOOD) and not checklist.spoken(other)
  assert checklist.spoken({**other, 'cut': True})


@pytest.mark.parametrize('actions', [
  [('get(417)', '417'), ('=417', '')],  # the action holds the answer itself
  [('x', '7'), ('=7', '')],  # too short to be told from chance
  [('é', 'été'), ('=é', '')],  # no ASCII: pieces may not spell it
])  # fmt: skip
def test_what_cannot_be_told_apart_is_not_held_against_a_run(actions):
  assert checklist.spoken(sample(actions))


def test_rewards_are_counted_by_value_or_by_range():
  few = [sample([('=1', '')], reward=x) for x in (0.0, 1.0, 1.0)]
  assert '0: 1, 1: 2' in item(1, run(few)).evidence
  many = [sample([('=1', '')], reward=x / 20) for x in range(21)]
  text = item(1, run(many)).evidence
  assert 'from 0: 2' in text and 'from 0.9: 3' in text


def test_calls_are_counted_by_name():
  calls = [sample([('get(b)', '1'), ('calc(2)', '2'), ('get(c)', '3')])]
  assert 'get 2, calc 1' in item(6, run(calls)).evidence


def test_nothing_logged_is_no_verdict():
  found = checklist.go_through(findings.Run([], common.base().to_dict(), []))
  assert {each.state for each in found} == {findings.UNKNOWN}
