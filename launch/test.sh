#!/usr/bin/env bash
# Lints, type-checks and tests the project, from nothing: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/test.sh [ARGUMENTS OF PYTEST]

Sets up a virtual environment with everything that development needs, checks
style and types, and runs the tests. Without arguments it also looks whether the
tests of kernels and methods cover every line of them.

  launch/test.sh tests/kernels   only some tests
  launch/test.sh --slow          also those that take minutes or need a
                                 pretrained model
  launch/test.sh --explore       property tests draw examples anew
  launch/test.sh -n 0            in one process, as a debugger needs; otherwise
                                 up to four

ARL_PYTHON      the Python to use (default: the first >= 3.11 on PATH)
ARL_VENV        folder of the virtual environment (default: .venv-test)
END
}

# shellcheck source=launch/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  usage
  exit
fi

set_up .venv-test '[test]'
cd -- "$root"

run() {
  local began=$SECONDS
  say "$*"
  "$@" || fail "$1 is not content, see above"
  say "$1 took $((SECONDS - began)) s"
}

run ruff check .
run ruff format --check .
run mypy arl
# With arguments pytest gets them; without, what the kernels and methods promise
# has to cover every line of them, and the rest runs without being watched.
watched=(
  tests/kernels tests/methods tests/test_hyperparameters.py tests/test_laws*.py
)
workers=(-n auto --maxprocesses=4 --dist=loadfile --durations=15)
if (($#)); then
  say "pytest $*"
  exec python -m pytest "${workers[@]}" "$@"
fi
run python -m pytest "${workers[@]}" "${watched[@]}" \
  --cov=arl/kernels --cov=arl/methods \
  --cov-report=term-missing:skip-covered --cov-fail-under=100
run python -m pytest "${workers[@]}" tests "${watched[@]/#/--ignore=}"
