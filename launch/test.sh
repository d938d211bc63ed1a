#!/usr/bin/env bash
# Lints, type-checks and tests the project, from nothing: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/test.sh [ARGUMENTS OF PYTEST]

Sets up a virtual environment with everything that development needs, checks
style and types, and runs the tests with the coverage of kernels and methods,
which has to be complete. To run only some tests, switch that off:

  launch/test.sh --no-cov tests/kernels

  --slow     also run the tests that take minutes or need a pretrained model
  -n 0       in one process, as a debugger needs; otherwise up to four

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
say "pytest"
exec python -m pytest -n auto --maxprocesses=4 --dist=loadfile \
  --cov=arl/kernels --cov=arl/methods \
  --cov-report=term-missing:skip-covered --cov-fail-under=100 "$@"
