#!/bin/sh
# Interrupts by MSI-X, which the card offers besides MSI.
#: modules extoll
#: msix 1
#: seconds 90
#: kernels 6.12
set -e
dev=$(dirname "$(grep -l 0x1cad /sys/bus/pci/devices/*/vendor)")
insmod /extoll.ko
[ "$(cat "$dev"/msi_irqs/*)" = msix ]
transfer
