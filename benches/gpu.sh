#!/usr/bin/env bash
# Runs all benchmarks on a machine with NVIDIA GPUs and a prebuilt ggas-suite: no Rust, no CUDA toolkit there.
#
#   benches/gpu.sh <ggas-suite> <folder> [process]
#
# Uses one GPU, and two where there are two; with `process`, two and four, with a process for each GPU. Each benchmark
# has its own process and time limit; one that fails is named at the end and the others still run. The folder gets one
# JSON and one table per run, summary.txt, and everything once more as results.tar.gz. Exit status: 0 if all data were
# right.
set -uo pipefail

if [ $# -lt 2 ] || [ $# -gt 3 ] || [ "${3:-process}" != process ]; then
  echo "usage: $0 <ggas-suite> <folder> [process]" >&2
  exit 2
fi
suite=$1
folder=$2
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
if [ "$gpus" -eq 0 ]; then
  echo "$0: nvidia-smi lists no GPU here; for the CPU executor run: $suite <folder> --device cpu" >&2
  exit 2
fi
if [ $# -eq 3 ]; then
  if [ "$gpus" -lt 2 ]; then
    echo "$0: one process per GPU needs at least two GPUs, nvidia-smi lists $gpus" >&2
    exit 2
  fi
  limit=230
  options=(--fabric process --gpus "$((gpus < 4 ? 2 : 4))")
else
  limit=290
  options=(--gpus "$((gpus < 2 ? gpus : 2))")
fi
mkdir -p "$folder"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv >"$folder/gpus.csv"
timeout "$limit" "$suite" "$folder" --device gpu "${options[@]}"
status=$?
[ $status -eq 124 ] && echo "the whole suite was stopped after $limit s" >&2
archive=$(mktemp) # not in the folder that it packs: tar would see the folder change
tar -C "$folder" --exclude=results.tar.gz -czf "$archive" . && mv "$archive" "$folder/results.tar.gz"
exit $status
