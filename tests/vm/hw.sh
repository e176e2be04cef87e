#!/bin/sh
# The library's device hw, with itself.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel: on 6.1 this is for when there is time.
#: modules extoll
#: programs hw-suite
#: seconds 240
#: daily 6.12 7.2 debug
set -e
insmod /extoll.ko
hw-suite
rmmod extoll
echo "hw: ok"
