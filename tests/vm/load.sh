#!/bin/sh
# The module comes and goes: loaded, unloaded, unbound, reset, bound, three times over.
#: modules extoll
set -e
dev=$(dirname "$(grep -l 0x1cad /sys/bus/pci/devices/*/vendor)")
name=$(basename "$dev")
for round in 1 2 3; do
	insmod /extoll.ko
	[ -c /dev/extoll0 ]
	[ "$(basename "$(readlink "$dev/driver")")" = extoll ]
	ls "$dev/extoll" >/dev/null
	echo "$name" >"$dev/driver/unbind"
	[ ! -e /dev/extoll0 ]
	echo 1 >"$dev/reset"
	echo "$name" >/sys/bus/pci/drivers/extoll/bind
	[ -c /dev/extoll0 ]
	rmmod extoll
	[ ! -e /dev/extoll0 ]
done
echo "load: ok"
