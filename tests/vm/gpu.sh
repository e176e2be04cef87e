#!/bin/sh
# GPU memory: pinned, mapped, registered as device memory, target and source of puts, and taken back.
#: modules extoll gpumap
#: gpu 64
#: seconds 90
insmod /extoll.ko && insmod /gpustub.ko && insmod /gpumap.ko && gpu
