#!/bin/sh
# Registers in sysfs: everybody reads, root writes what is management's; what ports need stays.
#: modules extoll
#: trouble 1
#: kernels 6.12 debug
#: daily 6.12
#: seconds 60
set -e
insmod /extoll.ko
registers
