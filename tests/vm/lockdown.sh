#!/bin/sh
# A Linux kernel that is locked down: root gets at no register and no physical address, and ports work as ever.
#: modules extoll
#: alone 1
#: kernels 6.12
#: seconds 40
set -e
# First: a kernel that is locked down takes no module that nobody signed. As many rights as there are.
insmod /extoll.ko trusted=1
mount -t securityfs none /sys/kernel/security
lockdown integrity
lockdown confidentiality
