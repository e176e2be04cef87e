#!/usr/bin/env bash
# Counts the instructions of a put with callgrind and writes benches/results/cpu/put-instructions.txt.
# Needs valgrind. The program runs each way of putting twice, with different numbers of puts; the difference,
# divided by the difference of the numbers, is the cost of one put, without set-up and clean-up. A second pair of
# runs leaves out what the device (the model) does in the calls of a post and a poll: the rest is the library's.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "$0: install valgrind first (apt-get install valgrind)" >&2; exit 2; }
cargo build --quiet --release --package ggas-benches --bin put-instructions
program=target/release/put-instructions
source=$(git describe --always --tags --dirty)
few=1000
many=11000
device='*SimPort as ggas_device::device::PortDevice>::'

# instructions <way> <puts> [options of callgrind]
instructions() {
  local way=$1 puts=$2 log
  shift 2
  log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" "$program" "$way" "$puts" 2>&1) ||
    { echo "$log" >&2; exit 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' <<<"$log"
}

# per_put <way> [options of callgrind]
per_put() {
  local way=$1 a b
  shift
  a=$(instructions "$way" $few "$@")
  b=$(instructions "$way" $many "$@")
  echo $(((b - a + (many - few) / 2) / (many - few)))
}

{
  echo "# Instructions per 8-byte put on the model: one thread, inline progress, release build (callgrind)."
  echo "# $(valgrind --version), $(rustc --version), $(uname -m), source $source"
  echo "# post only: the library's part; end to end: with the model's, until the data have arrived. The ways ending"
  echo "# in -notified also consume a completer notification per put."
  printf '%-16s %10s %12s\n' way "post only" "end to end"
  for way in $("$program" list); do
    all=$(per_put "$way")
    library=$(per_put "$way" --toggle-collect="${device}kick" --toggle-collect="${device}requester_store" \
      --collect-atstart=yes)
    ((library * 2 < all)) || { echo "$0: no functions of the device are called $device... any more" >&2; exit 1; }
    printf '%-16s %10d %12d\n' "$way" "$library" "$all"
  done
} | tee benches/results/cpu/put-instructions.txt
