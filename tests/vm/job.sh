#!/bin/sh
# Programs that do not say on which device: here there is a card, so they take it. A job's processes share it.
#: modules extoll
#: programs ggas ring own-kernel
#: memory 1024
#: kernels 6.12
#: seconds 120
set -e
export GGAS_RUNTIME_DIR=/tmp/ggas

says() {
	wanted=$1
	shift
	"$@" >/tmp/said 2>&1 || {
		cat /tmp/said
		exit 1
	}
	grep -q -e "$wanted" /tmp/said || {
		cat /tmp/said
		exit 1
	}
}

says "chosen  *sim: there is no card" ggas info
insmod /extoll.ko
says "chosen  *hw: there is a card, /dev/extoll0" ggas info
says "rank 0 of 1 on node $vm_node: 65536 bytes from node $vm_node" ring
says "rank 1 of 2 on node $vm_node: 65536 bytes from node $vm_node" ggas run -n 2 -- ring
says "came back squared; the kernels ran on cpu" own-kernel
says "came back squared; the kernels ran on cpu" ggas run -n 2 -- own-kernel
says "via hw" ggas bench rma-pingpong --device cpu --method host-driven --sizes 8 --iterations 20
# The model is there all the same.
GGAS_DEVICE=sim says "rank 1 of 2 on node 1: 65536 bytes from node 0" ggas run -n 2 -- ring
EXTOLL_DEVICE=sim says "rank 0 of 1 on node 0" ring
# A card that is there and cannot be used is no reason to take the model.
rmmod extoll
if EXTOLL_CARD=/dev/extoll0 ring >/tmp/said 2>&1; then
	echo "no card, and it runs"
	exit 1
fi
grep -q "no hw device here: no /dev/extoll0" /tmp/said
echo "job: ok"
