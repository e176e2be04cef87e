#!/bin/sh
# Those that take longer, or need what small kernels lack.
#: modules extoll
#: programs rma2-commands rma2-noalloc rma2-memory rma2-cache rma2-fork rma2-signals rma2-closed_files rma2-openclose rma2-velo_openclose rma2-threads rma2-velo_messages
#: kernels 6.12
#: seconds 240
set -e
export EXTOLL_DEVICE=hw
insmod /extoll.ko
for program in commands noalloc memory cache fork signals closed_files threads velo_messages; do
	rma2-$program
	echo "rma2-$program: ok"
done
rma2-openclose 50
rma2-velo_openclose 50
