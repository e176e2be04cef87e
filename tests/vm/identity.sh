#!/bin/sh
# The card without a driver: one kernel tells as much as four.
#: guests 2
#: seconds 60
#: daily 6.12
dev=$(dirname "$(grep -l 0x1cad /sys/bus/pci/devices/*/vendor)")
echo 1 >"$dev/enable" && identity "$dev" "$vm_node"
