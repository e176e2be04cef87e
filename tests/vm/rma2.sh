#!/bin/sh
# C programs of librma2 on the card.
#: modules extoll
#: programs rma2-connect rma2-transfer rma2-lock rma2-notify
#: seconds 180
set -e
export EXTOLL_DEVICE=hw
insmod /extoll.ko
for program in connect transfer lock notify; do
	rma2-$program
	echo "rma2-$program: ok"
done
