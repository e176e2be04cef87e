#!/bin/sh
# Two cards in one machine, and a port on each at the same time.
#: modules extoll
#: cards 2
#: kernels 6.12
#: seconds 90
set -e
insmod /extoll.ko
[ "$(cat /sys/class/extoll/extoll0/node)" != "$(cat /sys/class/extoll/extoll1/node)" ]
transfer &
VM_DEVICE=/dev/extoll1 transfer
wait $!
