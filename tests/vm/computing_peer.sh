#!/bin/sh
# Kernels of two machines compute together, and one machine is switched off under them.
#: guests 2
#: leaves 1
#: waits 1
#: modules extoll
#: programs hw-suite
#: kernels 6.12
#: seconds 90
set -e
insmod /extoll.ko
if [ "$vm_node" = 0 ]; then
	computing peer
else
	computing until
	# As the first program says it, which does not get to it.
	echo "guest: computing_peer done with 0 after $(cut -d' ' -f1 /proc/uptime) s"
	poweroff -f
fi
