#!/bin/sh
# The library's device hw: kernels on the CPU executor, windows of GPU memory, interrupts, system calls.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel.
#: kernels 6.1 6.12 7.2
#: modules extoll gpumap
#: gpu 64
#: programs hw-suite
#: seconds 90
#: daily 6.12 7.2
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
hw-suite --more
rmmod gpumap
rmmod extoll
echo "hw_more: ok"
