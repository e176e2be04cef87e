#!/bin/sh
# The library's device hw, with itself.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel.
#: modules extoll
#: programs hw-suite
#: seconds 240
#: daily 6.12
set -e
insmod /extoll.ko
hw-suite
rmmod extoll
echo "hw: ok"
