#!/bin/sh
# Attacks on the calls of the device, and who may do what.
#: modules extoll
#: turn 0 6.1 debug
#: seconds 90
set -e
insmod /extoll.ko
abi
rights
rmmod extoll
insmod /extoll.ko trusted=1 mmio_modules=extol,extoll,e
rights trusted
