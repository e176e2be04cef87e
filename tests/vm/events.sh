#!/bin/sh
# System notifications: all sources, storms, a full queue, strange entries.
#: modules extoll
#: kernels 6.12
#: seconds 90
insmod /extoll.ko && events
