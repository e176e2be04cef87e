#!/bin/sh
# Memory of another driver as a dma-buf: registered, used, withdrawn under the card.
#: modules extoll gpumap
#: gpu 64
#: turn 0 6.1 debug
#: seconds 60
set -e
insmod /extoll.ko
insmod /gpustub.ko
insmod /gpumap.ko
dmabuf
