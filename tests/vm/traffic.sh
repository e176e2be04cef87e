#!/bin/sh
# What the driver writes to registers, and when: nothing that the specification does not explain.
#: modules extoll
#: kernels 6.12 debug
#: daily 6.12
#: seconds 60
set -e
insmod /extoll.ko dyndbg=+p
traffic
