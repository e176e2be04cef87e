#!/bin/sh
# What the driver writes to registers, and when: nothing that the specification does not explain.
#: modules extoll
#: kernels 6.12 debug
#: seconds 60
set -e
insmod /extoll.ko dyndbg=+p
traffic
