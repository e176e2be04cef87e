#!/bin/sh
# On two processors: several processes make the same translation table; the card is taken away while processes map it, in
# the middle of their calls.
#: kernels 6.12
#: modules extoll gpumap
#: gpu 64
#: processors 2
#: seconds 120
set -e
insmod /extoll.ko
insmod /gpustub.ko
makers 40
echo full >/sys/kernel/debug/sched/preempt
race "${vm_rounds:-10}"
