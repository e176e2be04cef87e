#!/bin/sh
# What one user, or a card that was left behind in a bad state, could do to those who come later or are beside it.
#: modules extoll
#: trouble 1
#: kernels 6.12 debug
#: turn 1
#: seconds 120
set -e
insmod /extoll.ko
attack_life
