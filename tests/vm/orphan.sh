#!/bin/sh
# The card's server ends in the middle: processes are told, the module can be unloaded, the machine goes on.
#: kernels 6.12 debug
#: modules extoll
#: orphan 1
#: waits 1
#: turn 0
#: seconds 90
set -e
insmod /extoll.ko
orphan
rmmod extoll
[ ! -e /dev/extoll0 ]
# Nobody answers any more: a new driver says so, and leaves it.
insmod /extoll.ko
[ ! -e /dev/extoll0 ]
