#!/bin/sh
# System notifications: all sources, storms, a full queue, strange entries.
#: modules extoll
#: seconds 90
insmod /extoll.ko && events
