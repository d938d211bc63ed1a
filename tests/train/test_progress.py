import contextlib
import io
import re

import pytest

from arl.train import progress

ESCAPE = '\x1b'


class Terminal(io.StringIO):
  def isatty(self):
    return True


@pytest.fixture
def clock(monkeypatch):
  """Time that passes only when told."""
  now = [1000.0]
  monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])

  def passes(seconds):
    now[0] += seconds

  return passes


@pytest.fixture
def environment(monkeypatch):
  """The environment variables of a plain color terminal."""
  for name in ('NO_COLOR', 'FORCE_COLOR', 'TTY_COMPATIBLE', 'COLUMNS'):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setenv('TERM', 'xterm-256color')
  return monkeypatch


def on_terminal(total, title, start, step, values, note):
  """What a terminal receives of one step and one note."""
  with contextlib.ExitStack() as stack:
    screen = stack.enter_context(contextlib.redirect_stdout(Terminal()))
    report = stack.enter_context(progress.track(total, title, start))
    report(step, values)
    report.note(note)
  return screen.getvalue()


def test_plain_lines(capsys, clock):
  with progress.track(60, 'gsm, grpo', start=10) as report:
    clock(30)
    report(11, {'success': 0.53, 'kl': 0.00123456, 'tokens/s': 12345.6})
    report.note('saved [bold]step 11[/bold]')
    clock(3.1)
    report(12, {'success': float('nan')})
    clock(3)
    report(13, {})
  assert capsys.readouterr().out.splitlines() == [
    'gsm, grpo: step 10 of 60',
    'step 11/60 success 0.53 kl 0.00123 tokens/s 12,346 30.0 s left 24:30',
    'saved [bold]step 11[/bold]',
    # From here on the first step, which compiles, says nothing of the rest.
    'step 12/60 success nan 3.1 s left 02:29',
    'step 13/60 3.0 s left 02:23',
  ]


def test_plain_has_no_control_codes_and_does_not_wrap(capsys, monkeypatch):
  monkeypatch.setenv('COLUMNS', '40')
  with progress.track(2, 'run') as report:
    report(1, {f'metric{index}': 0.123 for index in range(20)})
  out = capsys.readouterr().out
  assert ESCAPE not in out and '\r' not in out
  assert len(out.splitlines()) == 2 and 'metric19 0.123' in out


def test_steps_may_be_skipped(capsys, clock):
  with progress.track(100, 'run') as report:
    clock(20)
    report(10, {})
    clock(5)
    report(20, {})
  last = capsys.readouterr().out.splitlines()[-1]
  assert last == 'step 20/100 0.5 s left 00:40'


def test_time_left_goes_by_the_last_steps(capsys, clock):
  with progress.track(5000, 'run') as report:
    for step in range(1, 41):
      clock(1 if step < 21 else 2)
      report(step, {})
  last = capsys.readouterr().out.splitlines()[-1]
  assert last == 'step 40/5000 2.0 s left 2:45:20'


@pytest.mark.usefixtures('environment')
def test_terminal_shows_a_bar_and_metrics():
  shown = on_terminal(4, 'run [1]', 1, 3, {'success': 0.53}, 'saved [step 3]')
  assert ESCAPE in shown
  text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', shown)
  assert 'run [1]' in text and '3/4' in text and '━' in text
  assert 'success 0.53' in text and re.search(r'left \d\d:\d\d', text)
  assert 'saved [step 3]' in text


def test_no_color_leaves_no_color(environment):
  def colors(shown):
    codes = ';'.join(re.findall(r'\x1b\[([0-9;]*)m', shown)).split(';')
    return [code for code in codes if re.fullmatch(r'[349]\d', code)]

  assert colors(on_terminal(2, 'run', 0, 1, {}, ''))
  environment.setenv('NO_COLOR', '1')
  shown = on_terminal(2, 'run', 0, 1, {}, '')
  assert colors(shown) == []
  assert '1/2' in shown and '━' in shown


def test_dumb_terminal_gets_lines(environment):
  environment.setenv('TERM', 'dumb')
  shown = on_terminal(2, 'run', 0, 1, {'kl': 0.5}, 'saved')
  assert shown.splitlines() == [
    'run: step 0 of 2',
    'step 1/2 kl 0.5 0.0 s left 00:00',
    'saved',
  ]


def test_an_error_inside_comes_out(capsys):
  with pytest.raises(KeyError), progress.track(2, 'run'):
    raise KeyError('inside')
  assert capsys.readouterr().out == 'run: step 0 of 2\n'


@pytest.mark.parametrize('total, start', [(0, 0), (5, 6), (5, -1)])
def test_refuses_ranges(total, start):
  shown = progress.track(total, 'run', start)
  with pytest.raises(ValueError, match='0 <= start <= total'), shown:
    raise KeyError('not reached')


@pytest.mark.parametrize('step', [0, 2, 6])
def test_refuses_steps(step):
  with progress.track(5, 'run') as report:
    report(2, {})
    with pytest.raises(ValueError, match=f'step {step} after step 2 of 5'):
      report(step, {})
