#!/usr/bin/env bash
# What accesses put on NVLink, by the GPU's own counters: consecutive and strided stores and loads, also of every second
# value of 4 bytes (thesis 6.6.3, Table 6.1), and long puts by stores and by the copy engines.
#
#   benches/coalescing.sh <ggas> [bytes [folder]]
#
# Needs two NVIDIA GPUs joined by NVLink, Nsight Compute (ncu) and python3; the folder, if given, gets ncu's own tables.
# The counters count in units of 16 bytes: `user` is payload, `protocol` headers and what fills packets.
set -uo pipefail

if [ $# -lt 1 ] || [ $# -gt 3 ]; then
  echo "usage: $0 <ggas> [bytes [folder]]" >&2
  exit 2
fi
ggas=$1
bytes=${2:-16777216}
folder=${3:-$(mktemp -d)}
rounds=11 # ten timed ones and one before
command -v ncu >/dev/null || { echo "$0: ncu is not in PATH; it comes with the CUDA toolkit (nsight-compute)" >&2; exit 1; }
mkdir -p "$folder"
links=$(printf 'nvl%s__bytes_data_%s.sum,' tx user tx protocol rx user rx protocol)
sectors=smsp__sass_average_data_bytes_per_sector_mem_global_op_
failed=0
for run in ggas-bandwidth:store ggas-bandwidth:store-strided ggas-bandwidth:load ggas-bandwidth:load-strided \
  ggas-coalescing:store ggas-coalescing:store-second ggas-coalescing:load ggas-coalescing:load-second \
  put-bandwidth:store put-bandwidth:bulk; do
  # Each pass of counters runs the program anew: replaying a kernel alone would not put back the other GPU's memory.
  timeout 120 ncu --clock-control none --replay-mode application --csv --page raw --print-units base \
    --kernel-name 'regex:bench_(ggas_(store|load)|put_stream)' --metrics "${links}${sectors}st.pct,${sectors}ld.pct" \
    "$ggas" bench "${run%:*}" --device gpu --via nvlink --gpus 2 --method "${run#*:}" --sizes "$bytes" --iterations 10 \
    >"$folder/${run/:/-}.csv" 2>"$folder/${run/:/-}.err" || { echo "$run: ncu failed: $(tail -n 1 "$folder/${run/:/-}.err")" >&2; failed=1; }
done
python3 - "$folder" $((bytes * rounds)) <<'PYTHON' || failed=1
import csv, glob, os, sys

folder, payload = sys.argv[1], int(sys.argv[2])
names = ["nvltx__bytes_data_user", "nvltx__bytes_data_protocol", "nvlrx__bytes_data_user", "nvlrx__bytes_data_protocol"]
print(f"per byte of payload ({payload} bytes)\n{'':29}{'sent':>22}{'received':>22}  bytes of a sector used, %")
print(f"{'':29}{'user':>11}{'protocol':>11}{'user':>11}{'protocol':>11}{'stores':>8}{'loads':>7}")
for path in sorted(glob.glob(os.path.join(folder, "*.csv"))):
    lines = [line for line in open(path) if line.startswith('"')]
    for row in csv.DictReader(lines):
        if not (row.get("ID") or "").strip():
            continue  # the row of units
        number = lambda column: float((row.get(column) or "nan").replace(",", ""))
        links = "".join(f"{number(name + '.sum') / payload:11.3f}" for name in names)
        sectors = [number(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct") for op in ("st", "ld")]
        print(f"{os.path.basename(path)[:-4]:29}{links}{sectors[0]:8.1f}{sectors[1]:7.1f}")
PYTHON
exit $failed
