#!/bin/sh
# Kernels of two cards post, poll, load and store while one of the cards is taken away: unbound, reset.
#: modules extoll
#: cards 2
#: memory 1024
#: processors 2
#: waits 1
#: programs hw-suite
#: kernels 6.12
#: seconds 120
set -e
insmod /extoll.ko
computing cards
