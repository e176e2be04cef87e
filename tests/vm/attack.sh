#!/bin/sh
# What a user could reach that is not theirs: memory between the parts of a window, buffers that they may only read.
#: modules extoll gpumap
#: gpu 64
#: trouble 1
#: kernels 6.12 debug
#: turn 1
#: seconds 60
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
attack
