#!/usr/bin/env bash
# What 100 ping-pongs of 1 KiB cost a kernel, by the GPU's own counters: instructions, and accesses to memory of the host and of
# the GPU (thesis Table 5.5).
#
#   benches/pingpong-counters.sh <ggas> [folder]
#
# Needs two NVIDIA GPUs joined by NVLink, Nsight Compute (ncu) and python3; the folder, if given, gets ncu's tables and
# counters.json. Two processes play; the first one's kernel is counted. Each counter has a run of its own: a kernel that waits for
# another process cannot be replayed. Accesses are sectors of 32 bytes at the L2 cache, the polls of waits among them.
set -uo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 <ggas> [folder]" >&2
  exit 2
fi
if [ -n "${PINGPONG_CSV:-}" ]; then # one process of a run
  # shellcheck disable=SC2086
  if [ "${GGAS_RANK:?}" = 0 ]; then
    exec ncu --clock-control none --cache-control none --csv --page raw --print-units base --kernel-name 'regex:bench_' \
      --log-file "$PINGPONG_CSV" --metrics "$PINGPONG_METRIC" "$1" bench $PINGPONG_BENCH
  fi
  # shellcheck disable=SC2086
  exec "$1" bench $PINGPONG_BENCH
fi
ggas=$1
folder=${2:-$(mktemp -d)}
rounds=91 # timed ones; nine before
command -v ncu >/dev/null || { echo "$0: ncu is not in PATH; it comes with the CUDA toolkit (nsight-compute)" >&2; exit 1; }
mkdir -p "$folder"
# What each way is called, and the benchmark that goes it.
declare -A ways=(
  [notifications]="rma-pingpong --method notification --via sim"
  [polling]="rma-pingpong --method poll --via sim"
  [put-signal]="put-signal --method thread --via nvlink"
)
declare -A counters=(
  [instructions]=smsp__inst_executed.sum
  [host_reads]=lts__t_sectors_aperture_sysmem_op_read.sum
  [host_writes]=lts__t_sectors_aperture_sysmem_op_write.sum
  [device_reads]=lts__t_sectors_aperture_device_op_read.sum
  [device_writes]=lts__t_sectors_aperture_device_op_write.sum
  [peer_writes]=lts__t_sectors_aperture_peer_op_write.sum
)
failed=0
for way in "${!ways[@]}"; do
  for counter in "${!counters[@]}"; do
    export PINGPONG_BENCH="${ways[$way]} --device gpu --gpus 2 --sizes 1024 --iterations $rounds"
    export PINGPONG_CSV="$folder/$way-$counter.csv" PINGPONG_METRIC=${counters[$counter]}
    timeout 40 "$ggas" run -n 2 -- "$0" "$ggas" >"$folder/$way-$counter.out" 2>"$folder/$way-$counter.err" ||
      { echo "$way, $counter: $(tail -n 1 "$folder/$way-$counter.err" "$PINGPONG_CSV" 2>/dev/null | tail -n 1)" >&2; failed=1; }
  done
done
python3 - "$folder" <<'PYTHON' || failed=1
import csv, glob, json, os, sys

folder, rows = sys.argv[1], {}
for path in sorted(glob.glob(os.path.join(folder, "*-*.csv"))):
    way, counter = os.path.basename(path)[:-4].rsplit("-", 1)
    lines = [line for line in open(path) if line.startswith('"')]
    for row in csv.DictReader(lines):
        if (row.get("ID") or "").strip():  # not the row of units
            # ncu always adds how long the kernel took.
            name = next((column for column in row if column.endswith(".sum") and not column.startswith("gpu__time")), "")
            rows.setdefault(way, {})[counter] = int(float((row.get(name) or "nan").replace(",", "")))
counters = ["instructions", "host_reads", "host_writes", "device_reads", "device_writes", "peer_writes"]
print("100 ping-pongs of 1 KiB\n" + f"{'':16}" + "".join(f"{name.replace('_', ' '):>15}" for name in counters))
for way, row in rows.items():
    print(f"{way:16}" + "".join(f"{row.get(name, '-'):>15}" for name in counters))
whole = bool(rows) and all(len(row) == len(counters) for row in rows.values())
result = {"schema": 1, "bench": "pingpong-counters", "verified": whole,
          "rows": [{"method": way, **row} for way, row in rows.items()]}
with open(os.path.join(folder, "counters.json"), "w") as file:
    json.dump(result, file, indent=2)
    file.write("\n")
sys.exit(0 if whole else 1)
PYTHON
exit $failed
