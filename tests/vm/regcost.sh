#!/bin/sh
# Registering 1 GiB beside pinning it alone: in instructions, so what the host does meanwhile does not show.
#: modules extoll
#: memory 2048
#: icount 1
#: kernels 6.12
#: seconds 300
set -e
insmod /extoll.ko
regcost 1024
