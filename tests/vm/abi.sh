#!/bin/sh
# Attacks on the calls of the device, and who may do what.
#: modules extoll
#: seconds 90
insmod /extoll.ko && abi && rights
