#!/bin/sh
# A port that talks to itself: every command, and sleeping in the kernel.
#: modules extoll
#: seconds 90
insmod /extoll.ko && transfer
