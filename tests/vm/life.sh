#!/bin/sh
# Killed, forked, passed on, taken away: nothing is left, nothing is used after its end.
#: modules extoll
#: seconds 90
insmod /extoll.ko && life
