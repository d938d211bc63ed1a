#!/usr/bin/env bash
# Installs this repository on every host of a Cloud TPU and runs a command there.

set -euo pipefail

usage() {
  cat <<'END'
usage: launch/tpu_pod.sh NAME ZONE COMMAND...

Copies what is committed to every host of the TPU VM or slice NAME, sets it up
with JAX for TPUs, and runs COMMAND in the repository on all hosts at once, as
JAX expects it:

  launch/tpu_pod.sh my-v5e us-west4-a launch/quickstart.sh
  launch/tpu_pod.sh my-v5e us-west4-a python -m launch.train \
    --config=experiments/quickstart.py:model=DIR --config.mesh.data=8 \
    --workdir=runs/tpu

A slice of several hosts trains as one with --coordinator=auto, a mesh of all
its chips and a --workdir that all hosts see, here SHARED/runs/tpu:

  launch/tpu_pod.sh my-v5p us-east5-a python -m launch.train \
    --config=experiments/quickstart.py:model=DIR --config.mesh.fsdp=16 \
    --workdir=SHARED/runs/tpu --coordinator=auto

It needs gcloud, logged in to the project of the TPU. The environment is kept
on the hosts, so that later calls start at once. A run goes on after the
connection broke only inside tmux or the like: let COMMAND start it.

ARL_GCLOUD   the gcloud to use (default: that on PATH)
END
}

if (($# < 3)); then
  usage >&2
  exit 1
fi
name=$1 zone=$2
shift 2
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
gcloud=${ARL_GCLOUD:-gcloud}
archive=$(mktemp --suffix=.tar.gz)
trap 'rm -f -- "$archive"' EXIT
git -C "$root" archive --format=tar.gz --output="$archive" HEAD

on_all() {
  "$gcloud" compute tpus tpu-vm ssh "$name" --zone="$zone" --worker=all \
    --command="$1"
}

"$gcloud" compute tpus tpu-vm scp "$archive" "$name:arl.tar.gz" \
  --zone="$zone" --worker=all
on_all "mkdir -p arl && tar -xzf arl.tar.gz -C arl && cd arl &&
  { [ -x .venv/bin/python ] || python3 -m venv .venv; } &&
  .venv/bin/pip install --quiet -e '.[tpu]'"
printf -v command '%q ' "$@"
on_all "cd arl && . .venv/bin/activate && JAX_PLATFORMS=tpu $command"
