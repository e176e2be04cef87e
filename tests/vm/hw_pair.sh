#!/bin/sh
# The library's device hw, between two machines.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel.
#: guests 2
#: modules extoll
#: programs hw-suite
#: seconds 180
#: daily 6.12
set -e
insmod /extoll.ko
hw-suite "$vm_peer"
rmmod extoll
echo "hw_pair: ok"
