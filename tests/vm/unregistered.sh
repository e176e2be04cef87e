#!/bin/sh
# No cost for memory that is not registered: in instructions, so what the host does meanwhile does not show.
#: modules extoll gpumap
#: gpu 64
#: icount 1
#: kernels 6.12
#: seconds 90
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
unregistered
