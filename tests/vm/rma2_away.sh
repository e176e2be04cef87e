#!/bin/sh
# A writer that loses its CPU between the words of a descriptor, for longer than the card waits.
#: modules extoll
#: programs rma2-velo_away
#: kernels 6.12
#: seconds 120
set -e
export EXTOLL_DEVICE=hw EXTOLL_POST_TIMEOUT=60
insmod /extoll.ko
rma2-velo_away
