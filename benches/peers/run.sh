#!/usr/bin/env bash
# Runs the peers whose packages this machine has and prints a line of JSON per figure (README.md):
#
#   benches/peers/run.sh [benchmark [GPUs]]
#   ggas bench put-signal --device gpu --via nvlink --gpus 2 --peer benches/peers/run.sh
#
# Programs are compiled by nvcc into $PEERS_BUILD (default: ~/.cache/ggas-peers) unless they are there already. NVSHMEM is
# looked for in $NVSHMEM_HOME, then in the Python package nvidia-nvshmem-cu13; NCCL where the loader finds it, then in
# nvidia-nccl-cu13. What is missing is named on standard error, and left out.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bench=${1:-}
gpus=${2:-2}
build=${PEERS_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/ggas-peers}
# NVLink multicast stays off: it can take a shared host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1

say() { echo "peers: $*" >&2; }
# The folder of a package of NVIDIA's for Python.
package() { python3 -c "import nvidia.$1 as m; print(list(m.__path__)[0])" 2>/dev/null; }
# compile <program> <options>: unless it is newer than all sources.
compile() {
  local program=$1
  shift
  [ -e "$build/$program" ] && [ -z "$(find "$here" -name '*.cu*' -newer "$build/$program")" ] && return
  command -v nvcc >/dev/null || { say "$program: nvcc is not in PATH"; return 1; }
  mkdir -p "$build" && nvcc -O3 -std=c++17 -w "$here/$program.cu" -o "$build/$program" "$@" >&2
}

run_nccl() { # <program>
  local lib
  lib=$(package nccl)/lib
  compile "$1" -ldl || return
  CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((gpus - 1))) LD_LIBRARY_PATH=$lib:${LD_LIBRARY_PATH:-} \
    timeout 120 "$build/$1" $bench | grep '^{'
}

run_nvshmem() {
  local home meet ranks=() rank failed=0
  home=${NVSHMEM_HOME:-$(package nvshmem)}
  [ -d "$home/lib" ] || { say "NVSHMEM is not installed: pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME"; return 1; }
  compile nvshmem -arch=native -rdc=true -I"$home/include" -L"$home/lib" -l:libnvshmem_host.so.3 -lnvshmem_device -lcuda ||
    return
  export LD_LIBRARY_PATH=$home/lib:${LD_LIBRARY_PATH:-} NVSHMEM_BOOTSTRAP=UID NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo \
    NVSHMEM_SYMMETRIC_SIZE=2G NVSHMEM_REMOTE_TRANSPORT=none
  meet=$(mktemp -d)
  for rank in $(seq 1 $((gpus - 1))); do
    RANK=$rank SIZE=$gpus NVSHMEM_ID=$meet/id timeout 120 "$build/nvshmem" $bench >/dev/null &
    ranks+=($!)
  done
  RANK=0 SIZE=$gpus NVSHMEM_ID=$meet/id timeout 120 "$build/nvshmem" $bench | grep '^{' || failed=1
  for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
  rm -r "$meet"
  return $failed
}

case $bench in
  "" | allreduce | allreduce-stream | global-reduction) run_nccl nccl_allreduce || say "no figures of NCCL" ;;
esac
case $bench in
  "" | randomaccess) run_nccl nccl_random || say "no figures of NCCL for randomaccess" ;;
esac
case $bench in
  allreduce-stream | global-reduction) ;;
  *) run_nvshmem || say "no figures of NVSHMEM" ;;
esac
exit 0
