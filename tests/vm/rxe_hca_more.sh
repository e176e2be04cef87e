#!/bin/sh
# rdma_rxe in the guest against our software HCA: 102,400 messages with one packet in a hundred lost, none of which may be
# lost, doubled or wrong.
#: cards 0
#: stock crc32_generic virtio_pci virtio_net ib_uverbs rdma_rxe
#: wire hca --lose 100
#: programs rdma rxe-verbs
#: kernels 6.1 6.12
#: daily
#: seconds 600
set -e
. /rxe-up
for seed in 1 2 3 4 5 6 7 8; do
	rxe-verbs -s $seed -r 100 10.0.0.1
done
echo "rxe_hca_more: ok"
