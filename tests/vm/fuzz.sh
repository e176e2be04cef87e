#!/bin/sh
# Random calls: half a minute on the kernel that watches, then nothing is left.
# Its limit is what guests are shared out by, and it takes longer than the others: with the usual 90 s robust came to the same guest.
#: modules extoll gpumap
#: gpu 64
#: seconds 180
#: kernels debug
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
chmod 0666 /dev/extoll0 /dev/gpumap /dev/gpustub
fuzz "${vm_seed:-0x5eed}" "${vm_steps:-1000000000}" "${vm_seconds:-30}"
[ "$(cat /sys/class/extoll/extoll0/ports)" = 0 ]
[ "$(cat /sys/class/extoll/extoll0/state)" = live ]
echo "fuzz: ok"
