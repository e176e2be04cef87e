#!/bin/sh
# Two guests: puts, gets, locks, VELO messages, and loads and stores through the window.
#: guests 2
#: modules extoll
#: seconds 120
insmod /extoll.ko && pair "$vm_peer"
