#!/bin/sh
# Kernels of two machines in one window of their cards.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel.
#: guests 2
#: modules extoll
#: programs hw-suite
#: seconds 120
#: daily 6.12
set -e
insmod /extoll.ko
hw-suite --nodes "$vm_nodes"
rmmod extoll
echo "kernels: ok"
