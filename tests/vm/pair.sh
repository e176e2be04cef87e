#!/bin/sh
# Two guests: puts, gets, locks, VELO messages, and loads and stores through the window.
#: guests 2
#: modules extoll
#: turn 1 6.1 debug
#: seconds 120
insmod /extoll.ko && pair "$vm_peer"
