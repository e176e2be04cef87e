#!/bin/sh
# The library's device hw, between two machines.
#: guests 2
#: modules extoll
#: programs hw-suite
#: seconds 180
set -e
insmod /extoll.ko
hw-suite "$vm_peer"
rmmod extoll
echo "hw_pair: ok"
