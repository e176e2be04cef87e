#!/bin/sh
# C programs of librma2 for two processes, each on the card of a machine: full queues, messages, every command, physical
# buffers.
#: guests 2
#: modules extoll
#: programs rma2-full rma2-velo_pair rma2-pair rma2-pair_physical
#: kernels 6.12
#: seconds 240
set -e
export EXTOLL_DEVICE=hw EXTOLL_POST_TIMEOUT=60 GGAS_SIZE=2 GGAS_PER_NODE=1
insmod /extoll.ko
# The last has to find nothing of a next one.
for program in full "velo_pair 128" pair_physical pair; do
	rma2-$program
	echo "rma2-$program: ok, $(cut -d' ' -f1 /proc/uptime)"
done
