#!/bin/sh
# rdma_rxe within one guest, by a program on libibverbs: what judges our HCA is judged first.
#: cards 0
#: stock crc32_generic virtio_pci virtio_net ib_uverbs rdma_rxe
#: wire relay
#: programs rdma ibv_devinfo rxe-verbs
#: kernels 6.1 6.12
#: daily 6.12
#: seconds 60
set -e
. /rxe-up
ibv_devinfo -v | grep -e hca_id -e transport -e active_mtu -e state -e GID
rxe-verbs -r 8 self
echo "rxe_self: ok"
