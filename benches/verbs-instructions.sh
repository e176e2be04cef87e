#!/usr/bin/env bash
# Instructions, and accesses to memory of any kind, of a post and of a poll of verbs by the steps of thesis Table 5.4, and of the RMA
# unit's beside them: verbs.cuh and rma.cuh compiled for the CPU by g++ -O2, one thread (of 64: thread 0 of a block), counted by
# callgrind. No adapter, no card and no GPU is in it. Writes benches/results/cpu/verbs-instructions.json. Needs g++, valgrind and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in g++ valgrind python3; do
  command -v $tool >/dev/null || { echo "$0: install $tool first" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
g++ -std=c++20 -O2 -g -fno-ipa-icf -Ikernels/include -Ikmod/uapi benches/instructions/verbs_calls.cpp -o "$work/verbs_calls"
valgrind --tool=callgrind --cache-sim=yes --callgrind-out-file="$work/out" "$work/verbs_calls" 2>"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
callgrind_annotate --inclusive=yes --threshold=100 "$work/out" >"$work/table"
python3 - "$work/table" "$(git describe --always --tags --dirty)" "$(g++ -dumpversion)" <<'PYTHON' |
import json, re, sys

calls, found = 100, {}
name = re.compile(r":(?:int )?(?:verbs_(post|poll)<(\d), \(ggas_scope\)(\d)>|rma_(post|poll)\b)")
methods = ["port", "shared", "static", "unstamped", "bare"]
for line in open(sys.argv[1]):
    match = name.search(line)
    # Percentages stand in brackets behind each number.
    numbers = [int(number.replace(",", "")) for number in re.findall(r"(?<![\d.,])(\d[\d,]*) \(", line)]
    if match and len(numbers) >= 3:
        key = (methods[int(match[2])] if match[2] else "rma", 1 if match[3] in (None, "0") else 64, match[1] or match[4])
        # Parts that came from other files stand by themselves, too; the whole is the most.
        found[key] = max(found.get(key, []), numbers[:3])
columns = ["instructions", "reads", "writes"]
rows = [{"method": method, "threads": threads, "call": call, "calls": calls, **dict(zip(columns, numbers))} for (method, threads, call), numbers in found.items()]
order = methods + ["rma"]
rows.sort(key=lambda row: (order.index(row["method"]), row["threads"], row["call"] == "poll"))
whole = len(rows) == 22
print(json.dumps({"schema": 1, "bench": "verbs-instructions", "verified": whole, "source": sys.argv[2],
                  "compiler": "g++ " + sys.argv[3] + " -O2", "rows": rows}, indent=2))
sys.exit(not whole)
PYTHON
  tee benches/results/cpu/verbs-instructions.json
