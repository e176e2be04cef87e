#!/bin/sh
# Cards behind an IOMMU: what was mapped for them they reach, in one machine and from another, and nothing else.
#: guests 2
#: kernels 6.12 debug
#: turn 0
#: modules extoll
#: iommu 1
#: seconds 180
set -e
insmod /extoll.ko
dev=$(readlink -f /sys/class/extoll/extoll0/device)
case "$(cat "$dev/iommu_group/type")" in
DMA*) ;;
*)
	echo "the card is not behind the IOMMU"
	exit 1
	;;
esac
pair "$vm_peer"
iommu
