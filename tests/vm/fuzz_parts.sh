#!/bin/sh
# A million random calls under KASAN, in parts from seeds of their own; each part says how many it made.
# What looks at locks and for leaks halves the rate, so it looks in `fuzz` only, which is a minute with all of it.
#: modules extoll gpumap
#: gpu 64
#: alone 1
#: seconds 1800
#: kernels debug
#: daily
set -e
echo 0 >/proc/sys/kernel/prove_locking
echo off >/sys/kernel/debug/kmemleak
touch /tmp/no-leaks
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
chmod 0666 /dev/extoll0 /dev/gpumap /dev/gpustub
made=0
part=0
while [ "$made" -lt "${vm_calls:-1000000}" ]; do
	part=$((part + 1))
	fuzz $((${vm_seed:-0x5eed} + part)) 1000000000 "${vm_seconds:-120}" >/tmp/part || {
		cat /tmp/part
		exit 1
	}
	calls=$(sed -n 's/^fuzz: seed [^,]*, \([0-9]*\) calls.*/\1/p' /tmp/part)
	made=$((made + calls))
	[ "$(cat /sys/class/extoll/extoll0/ports)" = 0 ]
	[ "$(cat /sys/class/extoll/extoll0/state)" = live ]
	echo "fuzz_parts: part $part: $(sed -n 's/^fuzz: //p' /tmp/part); $made in all"
done
echo "fuzz_parts: ok"
