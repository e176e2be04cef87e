#!/bin/sh
# Two guests: users who know each other's VPIDs and NLAs reach nothing of each other, on one node and from another; nor do
# cgroups on one node.
#: guests 2
#: modules extoll
#: daily 6.12 debug
#: turn 1
#: seconds 90
set -e
insmod /extoll.ko
attack_users "$vm_peer"
attack_cgroups
