#!/bin/sh
# Full queues, taken away while in use, off the bus, mute, answering nonsense.
#: modules extoll
#: trouble 1
#: kernels 6.12 debug
#: turn 1
#: seconds 180
set -e
insmod /extoll.ko
# Whoever has the device open keeps the module.
exec 3</dev/extoll0
rmmod extoll && exit 1
exec 3<&-
robust
