#!/bin/sh
# Benchmarks between the cards of two machines. They meet at the start of each: nothing else may use the cards then.
#: guests 2
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
	# The first machine reports what both did.
	[ "$vm_node" = 1 ] || grep -q '"verified": true' /tmp/result
	! grep -q '"verified": false' /tmp/result
}

bench rma-pingpong --sizes 8,4K,64K --iterations 20 --machine "$vm_peer"
bench rma-bandwidth --sizes 4K,64K --iterations 32 --machine "$vm_peer"
bench rma-rate --iterations 2048 --machine "$vm_peer"
bench rma-roundtrip --sizes 8,4K,64K --iterations 20 --machine "$vm_peer"
bench velo-pingpong --iterations 80 --machine "$vm_peer"
echo "bench_pair: ok"
