#!/bin/sh
# The library's device hw: kernels on the CPU executor, windows of GPU memory, interrupts, system calls.
#: modules extoll gpumap
#: gpu 64
#: kernels 6.12
#: programs hw-suite
#: seconds 90
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
hw-suite --more
rmmod gpumap
rmmod extoll
echo "hw_more: ok"
