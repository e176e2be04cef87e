#!/bin/sh
# GPU memory that goes in the worst moments: while it is being pinned, put back, mapped and touched; a GPU driver that does
# not take it back; a user that takes all files.
#: modules extoll gpumap
#: gpu 64
#: processors 2
#: kernels 6.12 debug
#: turn 0
#: seconds 90
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
attack_gpu
