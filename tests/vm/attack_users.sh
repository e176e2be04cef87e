#!/bin/sh
# Two guests: users who know each other's VPIDs and NLAs reach nothing of each other, on one node and from another.
#: guests 2
#: modules extoll
#: kernels 6.12 debug
#: seconds 90
insmod /extoll.ko && attack_users "$vm_peer"
