#!/bin/sh
# A port that talks to itself: every command, and sleeping in the kernel.
#: modules extoll
#: turn 0 6.1 debug
#: seconds 90
insmod /extoll.ko && transfer
