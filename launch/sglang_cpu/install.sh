#!/usr/bin/env bash
# Makes a virtual environment that serves with SGLang on a CPU: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/sglang_cpu/install.sh FOLDER

Installs the versions in requirements.txt, one of sglang among them, into a new
virtual environment: about 1.7 GB, in two minutes. One that is finished is left
as it is. It is apart from arl's own, which never imports sglang or torch.

ARL_PYTHON      the Python to use (default: the first >= 3.11 on PATH)
END
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=launch/setup.sh
source "$here/../setup.sh"

if [[ $# != 1 || $1 == -* ]]; then
  usage >&2
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit
  exit 2
fi

venv=$1 began=$SECONDS
wanted=$(cksum <"$here/requirements.txt")
if [[ -e $venv/sglang-installed && $(<"$venv/sglang-installed") == "$wanted" ]]
then
  say "SGLang in $venv, installed before"
  exit
fi
make_venv "$venv"
say 'torch and sglang for a CPU (about 500 MB to download)'
pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"
}
pip install --no-compile --no-deps torch==2.13.0 uv
"$venv/bin/python" -m uv pip install --quiet --python "$venv/bin/python" \
  --no-deps --only-binary :all: -r "$here/requirements.txt"
# Three processes import all of this at each start; compile it once.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
(
  cd -- "$site"
  "$venv/bin/python" -m compileall -q -j 2 sglang/{srt,kernels,lang,cli} \
    transformers torch fastapi pydantic starlette numpy scipy torchvision \
    openai mistral_common compressed_tensors huggingface_hub sympy
) >/dev/null 2>&1 || true  # some files are for other versions of Python
printf '%s\n' "$wanted" >"$venv/sglang-installed"
say "SGLang installed in $((SECONDS - began)) s"
