#!/bin/sh
# Registering 1 GiB beside pinning it alone.
#: modules extoll
#: memory 2048
#: kernels 6.12
#: seconds 300
set -e
insmod /extoll.ko
regcost 1024
