#!/bin/sh
# rdma_rxe between two guests: the judge is judged. Without loss, which rdma_rxe alone does not survive (tests/vm/README.md).
#: guests 2
#: cards 0
#: stock crc32_generic virtio_pci virtio_net ib_uverbs rdma_rxe
#: wire relay
#: programs rdma rxe-verbs
#: kernels 6.1 6.12
#: daily 6.12
#: seconds 60
set -e
. /rxe-up
case $vm_node in
0) peer=listen ;;
1) peer=10.0.0.2 ;;
esac
rxe-verbs -s "10$vm_node" -r 16 $peer
echo "rxe_pair: ok"
