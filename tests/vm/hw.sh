#!/bin/sh
# The library's device hw, with itself.
#: modules extoll
#: programs hw-suite
#: seconds 240
set -e
insmod /extoll.ko
hw-suite
rmmod extoll
echo "hw: ok"
