"""Commands that reach out, and those that only look like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import guards


@pytest.mark.parametrize(
  'script',
  [
    'curl http://x',
    'cd /tmp && wget -q x',
    'git clone https://x',
    'git -C repo fetch origin',
    'git --no-pager log -p',
    'git remote -v',
    '/usr/bin/git pull',
    'sudo -E curl x',
    'A=1 B=2 curl x',
    'env A=1 curl x',
    'timeout 5 curl x',
    'pip download torch',
    'python -m pip install x',
    'python3.11 -m pip install x',
    'pip3 install x',
    'bash -c "curl x"',
    "sh -c 'cd a; git fetch'",
    'echo $(curl x)',
    'echo "$(curl x)"',
    'x=`wget x`',
    'true\ncurl x',
    'true | curl x',
    'true;curl x',
    'true||curl x',
    'true &curl x',
    '(curl x)',
    'if true; then curl x; fi',
    'cu\\\nrl x',
    'c"u"rl x',
    'ls | xargs curl',
    'curl "unclosed',
    'eval "curl x"',
  ],
)
def test_what_is_refused(script):
  assert len(guards.violations(script)) == 1


@pytest.mark.parametrize(
  'script',
  [
    '',
    'ls',
    'echo curl',
    'grep -r "git fetch" .',
    'cat wget',
    'python curl.py',
    'git status',
    'git diff HEAD',
    'git add remote',
    'git commit -m "pull the fetch"',
    'git checkout log',
    'pip list',
    'python -m pytest tests/curl',
    'my-curl x',
    'echo "a; curl x"',
    "echo 'git clone'",
    './curl_test',
    'A=curl',
  ],
)
def test_what_is_allowed(script):
  assert guards.violations(script) == []


def test_every_command_counts():
  found = guards.violations('curl a; ls; git fetch b && wget c')
  assert [each.command for each in found] == ['curl a', 'git fetch b', 'wget c']
  assert found[1].why == 'git fetch is not allowed'
  assert 'not allowed here: curl a' in guards.REFUSAL.format(found[0].command)


@given(st.text())
def test_any_text_is_read(script):
  guards.violations(script)


def test_deep_nesting_ends():
  guards.violations('bash -c "' * 1000)
  guards.violations('$(' * 10_000)


def test_tampering():
  assert guards.after_tampering(1, ['a.py'], ['test_a.py']) == 1
  changed = ['test_a.py', 'test_b.py']
  assert guards.after_tampering(1, changed, changed) == -0.5
