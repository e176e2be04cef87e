#!/bin/sh
# The library's device hw on a card of which no page is mapped: what it costs on a bus to post, poll and free.
#: modules extoll
#: trap 1
#: kernels 6.12
#: programs hw-suite
#: seconds 90
set -e
insmod /extoll.ko
hw-suite --traps
rmmod extoll
echo "traps: ok"
