#!/usr/bin/env bash
# Counts the instructions of a put with callgrind and writes benches/results/put-instructions.txt.
# Needs valgrind. The program runs each way of putting twice, with different numbers of puts; the difference,
# divided by the difference of the numbers, is the cost of one put, without set-up and clean-up.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "$0: install valgrind first (apt-get install valgrind)" >&2; exit 2; }
# Line tables are enough; debug information changes no instruction.
cargo build --quiet --release --package ggas-benches --bin put-instructions
program=target/release/put-instructions
few=1000
many=11000

instructions() {
  local log
  log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1) ||
    { echo "$log" >&2; exit 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' <<<"$log"
}

{
  echo "# Instructions per 8-byte put on the model: one thread, inline progress, release build (callgrind)."
  echo "# $(valgrind --version), $(rustc --version), $(uname -m), source $(git describe --always --tags)"
  echo "# way: instructions per put"
  for way in $("$program" list); do
    a=$(instructions "$way" $few)
    b=$(instructions "$way" $many)
    awk -v way="$way" -v n=$((b - a)) -v puts=$((many - few)) 'BEGIN { printf "%-22s %8.1f\n", way, n / puts }'
  done
} | tee benches/results/put-instructions.txt
