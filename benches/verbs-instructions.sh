#!/usr/bin/env bash
# Instructions of a post and of a poll of verbs by the steps of thesis Table 5.4 in both formats, and of the RMA unit's beside them: verbs.cuh
# and rma.cuh compiled by nvcc to PTX for sm_90, which instructions/ptx.py runs for one thread (of 64: thread 0 of a block) and compares
# with the same calls on the CPU. No adapter, no card and no GPU is in it. Writes benches/results/cpu/verbs-instructions.json. Needs
# g++, python3, and nvcc in the PATH or by `cargo xtask setup`.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/build/cuda/nvidia/cu13/bin
for tool in g++ nvcc python3; do
  command -v $tool >/dev/null || { echo "$0: install $tool first" >&2; exit 2; }
done
# Before the result's file is written anew.
source=$(git describe --always --tags --dirty)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
calls=benches/instructions/verbs_calls
g++ -std=c++20 -O2 -Ikernels/include -Ikmod/uapi $calls.cpp -o "$work/verbs_calls"
"$work/verbs_calls" >"$work/images"
nvcc -std=c++20 -arch=sm_90 -ptx -Ikernels/include -Ikmod/uapi $calls.cu -o "$work/calls.ptx"
python3 benches/instructions/ptx.py "$work/calls.ptx" "$work/images" >"$work/counts"
compiler=$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1, PTX of sm_90/p')
python3 - "$work/counts" "$source" "$compiler" <<'PYTHON' |
import json, sys

steps = ["port", "shared", "static", "unstamped", "bare"]
rows = []
for line in open(sys.argv[1]):
    name, instructions, reads, writes = line.split()
    call, *rest = name.split("_")
    method, threads = "rma", 1
    if len(rest) == 3:
        step, scope, mlx = rest
        if mlx == "mlx5" and step == "3":
            # mlx5 has no stamps: its third step is its second.
            continue
        method, threads = ("mlx5-" if mlx == "mlx5" else "") + steps[int(step)], 64 if scope == "block" else 1
    rows.append({"method": method, "threads": threads, "call": call, "instructions": int(instructions),
                 "reads": int(reads), "writes": int(writes)})
whole = len(rows) == 38
print(json.dumps({"schema": 1, "bench": "verbs-instructions", "verified": whole, "source": sys.argv[2],
                  "compiler": sys.argv[3], "rows": rows}, indent=2))
sys.exit(not whole)
PYTHON
  tee benches/results/cpu/verbs-instructions.json
