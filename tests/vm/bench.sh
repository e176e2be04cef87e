#!/bin/sh
# Benchmarks between two ports of a card, by the host and by kernels; what a card cannot do is refused by name.
#: modules extoll
#: programs ggas
#: kernels 6.12
#: daily
#: seconds 120
set -e
insmod /extoll.ko

bench() {
	rm -f /tmp/result
	ggas bench "$@" --via hw --device cpu --timeout 60 --json /tmp/result 2>/tmp/said || {
		cat /tmp/said
		exit 1
	}
	grep -q '"verified": true' /tmp/result
	! grep -q '"verified": false' /tmp/result
}

refused() {
	wanted=$1
	shift
	if ggas bench "$@" --via hw --device cpu >/tmp/said 2>&1; then
		echo "ggas bench $* is not refused"
		exit 1
	fi
	grep -q -e "$wanted" /tmp/said || {
		cat /tmp/said
		exit 1
	}
}

refused "by a card go: rma-pingpong" barrier
refused "use: notification, host-assisted, host-driven" rma-bandwidth --method host-driven-private
refused "a card has requester pages" rma-pingpong --path slots
refused "a card drives itself" rma-pingpong --progress threads
refused "there are two ends" rma-pingpong --nodes 3
refused "name the other one's node id" rma-pingpong --machine "$vm_node"
bench rma-pingpong --sizes 8,4K,64K --iterations 20
bench rma-bandwidth --sizes 4K,64K --iterations 32
bench rma-rate --iterations 2048
bench rma-roundtrip --sizes 8,4K,64K --iterations 20
bench velo-pingpong --iterations 80
echo "bench: ok"
