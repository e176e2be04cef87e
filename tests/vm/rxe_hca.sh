#!/bin/sh
# rdma_rxe in the guest against our software HCA on the host, with one packet in a hundred lost: messages, memory and atomic
# operations both ways, and ibv_rc_pingpong of rdma-core with either side as the client.
#: cards 0
#: stock crc32_generic virtio_pci virtio_net ib_uverbs rdma_rxe
#: wire hca --lose 100
#: programs rdma ibv_rc_pingpong rxe-verbs
#: kernels 6.1 6.12
#: seconds 60
set -e
. /rxe-up
# It says what it finds in the data, and ends well all the same.
pingpong() {
	timeout 120 ibv_rc_pingpong -d rxe0 -g 1 -e -c "$@" >/tmp/said 2>&1 || status=$?
	cat /tmp/said
	[ -z "$status" ] && ! grep invalid /tmp/said
}
rxe-verbs -s 1 -r 16 10.0.0.1
pingpong 10.0.0.1
nc 10.0.0.1 18517 </dev/null &
pingpong
echo "rxe_hca: ok"
