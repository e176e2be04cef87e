#!/bin/sh
# The same between two machines: a kernel on each, and loads and stores.
#: guests 2
#: modules extoll gpumap
#: gpu 64
#: kernels 6.12
#: programs hw-suite
#: seconds 90
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
hw-suite --more "$vm_peer"
rmmod gpumap
rmmod extoll
echo "hw_pair_more: ok"
