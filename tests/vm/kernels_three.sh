#!/bin/sh
# Kernels of three machines in one window of their cards, whose links lose, repeat and reorder packets.
#: guests 3
#: modules extoll
#: programs hw-suite
#: faults 1
#: kernels 6.12
#: seconds 120
set -e
insmod /extoll.ko
hw-suite --nodes "$vm_nodes"
rmmod extoll
echo "kernels_three: ok"
