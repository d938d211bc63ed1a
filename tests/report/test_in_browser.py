"""The report of a real run, in a real browser: on a desk and on a phone.

Pictures are kept in the test's folder, `report_1280.png` and so on, to be
looked at.
"""

import pathlib

import browser
import pytest
import tiny

from arl.train import loop

PROGRAM = browser.find()
DESK, PHONE = (1280, 800), (390, 844)
needs_browser = pytest.mark.skipif(
  PROGRAM is None,
  reason='NO BROWSER: install chromium (apt install chromium) to look at pages',
)
# What sticks out on the right, but for what scrolls by itself.
_STICKS_OUT = """
[...document.body.querySelectorAll('*')].filter(e => {
  for (let p = e; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX === 'auto') return false;
  const wide = document.documentElement.clientWidth;
  return e.getBoundingClientRect().right > wide + 0.5;
}).map(e => e.tagName + '.' + e.getAttribute('class'))
"""
_SMALLEST = """
Math.min(...[...document.body.querySelectorAll('*')]
  .filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()))
  .map(e => parseFloat(getComputedStyle(e).fontSize)))
"""
_CONTRAST = """
(() => {
  const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const lum = c => rgb(c).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const paper = lum(getComputedStyle(document.body).backgroundColor);
  return Math.min(...['body', '.soft', 'dt', 'summary'].map(s => {
    const ink = lum(getComputedStyle(document.querySelector(s)).color);
    return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  }));
})()
"""
ASKED = {
  'width': 'document.documentElement.scrollWidth',
  'window': 'document.documentElement.clientWidth',
  'sticks_out': _STICKS_OUT,
  'images': '[...document.images].map(i => [i.complete, i.naturalWidth])',
  'shown': '[...document.images].map(i => i.getBoundingClientRect().width)',
  'smallest': _SMALLEST,
  'contrast': _CONTRAST,
  'hidden': '(e => e.scrollWidth - e.clientWidth)'
  "(document.querySelector('.wide'))",
  'tokens': "document.querySelectorAll('.tokens span[title]').length",
  'heading': "document.querySelector('h1').innerText",
  'numbers': "document.querySelector('tbody').innerText",
}


@pytest.fixture(scope='module')
def report(tmp_path_factory, compiled_once):
  """The folder of a finished run."""
  del compiled_once
  folder = tmp_path_factory.mktemp('report')
  tiny.write_model(folder / 'model')
  loop.train(tiny.config(folder / 'model'), str(folder / 'run'))
  return folder / 'run'


@pytest.fixture(scope='module')
def opened(tmp_path_factory):
  """A browser that runs."""
  with browser.running(PROGRAM, tmp_path_factory.mktemp('profile')) as one:
    yield one


@needs_browser
@pytest.mark.parametrize('dark', [False, True])
@pytest.mark.parametrize('size', [DESK, PHONE])
def test_the_report_is_legible(report, opened, size, dark):
  width, height = size
  page = opened.look(
    (report / 'report.html').as_uri(),
    ASKED,
    width=width,
    height=height,
    dark=dark,
  )
  name = f'report_{width}{"_dark" * dark}.png'
  (pathlib.Path(report) / name).write_bytes(page.picture)
  seen = page.values
  assert page.errors == []
  assert seen['window'] == width and seen['width'] <= width
  assert seen['sticks_out'] == []
  ((complete, natural),) = seen['images']
  assert complete and natural > 0
  assert seen['shown'][0] >= 900  # as small as its letters can be read
  assert seen['hidden'] == 0  # of the table of results
  assert seen['smallest'] >= 12
  assert seen['contrast'] >= 4.5  # of WCAG AA
  assert seen['tokens'] > 30
  assert 'grpo.dapo' in seen['heading'] and '0.' in seen['numbers']


@needs_browser
def test_a_page_that_is_too_wide_is_noticed(opened, tmp_path):
  page = tmp_path / 'wide.html'
  page.write_text(
    '<meta name="viewport" content="width=device-width">'
    '<h1 class="soft">x</h1><dt>y</dt><summary>z</summary><tbody></tbody>'
    '<div style="width:900px;font-size:9px">wide</div>'
    '<img src="none.png"><script>lost()</script>'
  )
  asked = {k: ASKED[k] for k in ('sticks_out', 'smallest', 'images', 'width')}
  seen = opened.look(page.as_uri(), asked, width=390, height=844)
  assert (
    seen.values['sticks_out'] == ['DIV.null'] and seen.values['width'] > 390
  )
  assert seen.values['smallest'] == 9 and seen.values['images'][0][1] == 0
  told = {one['method'] for one in seen.errors}
  assert {'Runtime.exceptionThrown', 'Network.loadingFailed'} <= told
