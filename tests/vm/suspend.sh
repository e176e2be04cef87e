#!/bin/sh
# The machine goes to sleep while the card is used, and wakes: devices only, which keep their power, to idle and to disk,
# and to memory.
#: modules extoll
#: trouble 1
#: kernels 6.12
#: sleeps 1
#: seconds 90
set -e
insmod /extoll.ko
echo 0 >/sys/module/suspend/parameters/pm_test_delay
echo devices >/sys/power/pm_test
suspend freeze
suspend disk
echo none >/sys/power/pm_test
# The firmware does not put ACPI's registers back where the kernel expects them: no power-off without.
lpc=/sys/bus/pci/devices/0000:00:1f.0/config
dd if=$lpc of=/tmp/lpc bs=1 skip=64 count=8
suspend mem
dd if=/tmp/lpc of=$lpc bs=1 seek=64 conv=notrunc
