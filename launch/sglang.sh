#!/usr/bin/env bash
# Serves a model with SGLang, as arl wants it: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/sglang.sh MODEL [--port N] [--cpu] [FLAGS OF SGLANG]

Serves a model folder on http://127.0.0.1:N with the flags that reinforcement
learning needs: a seed for each request is obeyed, and the weights it starts
with are version 0. Any flag of sglang.launch_server may follow, and wins:

  --enable-return-routed-experts   for a mixture of experts
  --tp-size N                      a model over N GPUs
  --host 0.0.0.0                   for trainers on other machines

  --port N   where it listens (default 30000)
  --cpu      without a GPU, in float32: to try the protocol and for tests, not
             for speed; it takes about a minute to start

ARL_PYTHON        the Python to use (default: the first >= 3.11 on PATH)
ARL_SGLANG_VENV   folder of SGLang's virtual environment, made where missing
                  (default: .venv-sglang, with --cpu .venv-sglang-cpu)
OMP_NUM_THREADS   with --cpu, threads of a server (default: 1)
END
}

# shellcheck source=launch/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

model='' port=30000 cpu='' flags=()
while (($#)); do
  case $1 in
    --port)
      [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--port takes a number, got '${2:-}'"
      port=$2
      shift
      ;;
    --cpu) cpu=cpu ;;
    -h | --help)
      usage
      exit
      ;;
    -*) flags+=("$1") ;;
    *) if [[ -z $model ]]; then model=$1; else flags+=("$1"); fi ;;
  esac
  shift
done
if [[ ! -e $model/config.json ]]; then
  usage >&2
  fail "the first argument is the folder of a Hugging Face model, got '$model'"
fi

common=(
  --model-path "$model" --host 127.0.0.1 --port "$port" --weight-version 0
  --enable-deterministic-inference --skip-server-warmup
)
if [[ -z $cpu ]]; then
  export ARL_VENV=${ARL_SGLANG_VENV:-$root/.venv-sglang}
  set_up .venv-sglang '[sglang]'
  exec python -m sglang.launch_server "${common[@]}" "${flags[@]}"
fi
venv=${ARL_SGLANG_VENV:-$root/.venv-sglang-cpu}
"$root/launch/sglang_cpu/install.sh" "$venv"
export SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1
# Threads that wait for a core that others use make small models crawl.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# --sleep-on-idle: the scheduler would otherwise keep a core busy waiting.
exec "$venv/bin/python" "$root/launch/sglang_cpu/serve.py" "${common[@]}" \
  --device cpu --dtype float32 --attention-backend torch_native \
  --sampling-backend pytorch --grammar-backend none --disable-overlap-schedule \
  --cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled \
  --max-total-tokens 8192 --max-running-requests 8 --mem-fraction-static 0.1 \
  --sleep-on-idle "${flags[@]}"
