#!/usr/bin/env bash
# Trains the quickstart agent on a CPU, from nothing: see usage below.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/quickstart.sh [--seed N] [--quick]

Sets up a virtual environment, trains a small agent to imitate a noisy
demonstrator, improves it by reinforcement learning, and prints its success on
held-out tasks before and after. Run it again to resume what was interrupted.

  --seed N   seed of the reinforcement learning (default 0)
  --quick    a smoke run of about a minute, which learns nothing

ARL_PYTHON      the Python to use (default: the first >= 3.11 on PATH)
ARL_VENV        folder of the virtual environment (default: .venv)
JAX_PLATFORMS   where to compute (default: cpu)
END
}

# shellcheck source=launch/setup.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

seed=0 folder=runs/quickstart quick=''
while (($#)); do
  case $1 in
    --seed)
      [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--seed takes a whole number, got '${2:-}'"
      seed=$2
      shift
      ;;
    --quick) folder=runs/quickstart-quick quick=quick ;;
    -h | --help)
      usage
      exit
      ;;
    *)
      usage >&2
      fail "unknown argument '$1'"
      ;;
  esac
  shift
done

set_up .venv ''
cd -- "$root"
export JAX_PLATFORMS=${JAX_PLATFORMS:-cpu}

# train WORKDIR MODULE FLAGS...: unless it is finished; results.json comes last.
train() {
  local workdir=$1 module=$2
  shift 2
  if [[ -e $workdir/results.json ]]; then
    say "$workdir is finished; remove the folder to run it anew"
    return
  fi
  say "python -m $module $* --workdir=$workdir"
  python -m "$module" "$@" --workdir="$workdir"
  if [[ ! -e $workdir/results.json ]]; then  # Ctrl-C: saved, and left in peace
    say "interrupted; to go on, run the same command again"
    exit 130
  fi
}

warm=$folder/sft run=$folder/grpo
((seed == 0)) || run=$folder/grpo-seed-$seed

say '1 of 2: imitate a demonstrator that often guesses'
train "$warm" launch.sft "--config=experiments/quickstart_sft.py${quick:+:quick}"
say '2 of 2: reinforcement learning from there'
train "$run" launch.train \
  "--config=experiments/quickstart.py:model=$warm/final${quick:+,quick}" \
  "--config.seed=$seed"
python -m launch.show "$warm" "$run"
