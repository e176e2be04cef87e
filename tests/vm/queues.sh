#!/bin/sh
# Queues that blocks share, between two cards of a machine: kernels on the CPU executor post by the cards' requester pages.
#: modules extoll
#: cards 2
#: programs ggas
#: kernels 6.12
#: seconds 120
set -e
insmod /extoll.ko

bench() {
	rm -f /tmp/result
	ggas bench queues --via hw --device cpu --timeout 60 --json /tmp/result "$@" 2>/tmp/said || {
		cat /tmp/said
		exit 1
	}
	grep -q '"verified": true' /tmp/result
	! grep -q '"verified": false' /tmp/result
}

# One card has one node id, and queues join nodes.
if ggas bench queues --via hw --device cpu >/tmp/said 2>&1; then
	echo "one card is not refused"
	exit 1
fi
grep -q "name two cards in EXTOLL_CARD" /tmp/said || {
	cat /tmp/said
	exit 1
}
export EXTOLL_CARD=/dev/extoll0,/dev/extoll1
bench --method bare-put --sizes 8,4096 --iterations 20
bench --method queue-put --sizes 8,4096 --iterations 20
bench --method rate-device --sizes 8,1000 --iterations 2 --blocks 4
echo "queues: ok"
