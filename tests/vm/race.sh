#!/bin/sh
# The card is taken away while processes map it, on two processors, in the middle of their calls.
#: kernels 6.12
#: modules extoll
#: processors 2
#: seconds 120
set -e
insmod /extoll.ko
echo full >/sys/kernel/debug/sched/preempt
race "${vm_rounds:-10}"
