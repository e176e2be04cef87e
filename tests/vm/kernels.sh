#!/bin/sh
# Kernels of two machines in one window of their cards.
#: guests 2
#: modules extoll
#: programs hw-suite
#: seconds 120
set -e
insmod /extoll.ko
hw-suite --nodes "$vm_nodes"
rmmod extoll
echo "kernels: ok"
