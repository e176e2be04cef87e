#!/bin/sh
# The card is in a network of the host: programs of the host come, go and are killed, and the guest is switched off.
#: host across
#: modules extoll
#: kernels 6.12
#: seconds 60
insmod /extoll.ko && across
