#!/bin/sh
# A GPU that the card cannot reach: there is no bridge in common, and nobody says that the root complex passes accesses on.
#: modules extoll gpumap
#: gpu 64
#: apart 1
#: kernels 7.2
#: seconds 30
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
apart
