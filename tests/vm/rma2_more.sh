#!/bin/sh
# Those that take longer, or need what small kernels lack.
#: modules extoll
#: memory 1024
#: programs rma2-commands rma2-noalloc rma2-memory rma2-cache rma2-fork rma2-signals rma2-closed_files rma2-openclose rma2-velo_openclose rma2-threads rma2-velo_messages rma2-velo_bad_input rma2-physical
#: kernels 6.12
#: seconds 240
set -e
export EXTOLL_DEVICE=hw EXTOLL_POST_TIMEOUT=60
insmod /extoll.ko
# For a child that is a user.
chmod 666 /dev/extoll0
for program in commands noalloc memory cache fork signals closed_files physical threads velo_messages velo_bad_input; do
	rma2-$program
	echo "rma2-$program: ok, $(cut -d' ' -f1 /proc/uptime)"
done
rma2-openclose 50
rma2-velo_openclose 50
