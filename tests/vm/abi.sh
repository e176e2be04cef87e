#!/bin/sh
# Attacks on the calls of the device.
#: modules extoll
#: seconds 90
insmod /extoll.ko && abi
