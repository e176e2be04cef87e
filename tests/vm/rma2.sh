#!/bin/sh
# C programs of librma2 on the card.
# What the library asks of the driver, abi, life, gpu, transfer and pair ask on every kernel.
#: modules extoll
#: programs rma2-connect rma2-illegal rma2-bad_input rma2-lock rma2-notify rma2-transfer
#: seconds 180
#: daily 6.12
set -e
export EXTOLL_DEVICE=hw EXTOLL_POST_TIMEOUT=60
insmod /extoll.ko
for program in connect illegal bad_input lock notify transfer; do
	rma2-$program
	echo "rma2-$program: ok"
done
