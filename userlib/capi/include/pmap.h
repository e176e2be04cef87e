/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of /dev/extoll/pmap: buffers of physically contiguous memory (spec 9.3). GET stores 8 bytes at the
 * argument, SET takes the value in it; FREE takes a key in it, although its number is that of a read. To get a buffer:
 * SET_TYPE 0, SET_SIZE, mmap at offset 0, GET_PADDR.
 *
 * A program that is linked with librma2 gets such buffers from the model too: see the user's page.
 */
#ifndef PMAP_H
#define PMAP_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <stdint.h>
#include <sys/ioctl.h>
#endif

#define PMAP_DEVICE "/dev/extoll/pmap"
#define PMAP_IOCTL_MAGIC 'k'

/* Types: memory that the driver allocates, an address of the caller's, nothing. */
#define PMAP_TYPE_ALLOC 0
#define PMAP_TYPE_PHYSICAL 1
#define PMAP_TYPE_EMPTY 2

#define PMAP_IOCTL_SET_TYPE _IOW(PMAP_IOCTL_MAGIC, 0, uint32_t)
#define PMAP_IOCTL_GET_TYPE _IOR(PMAP_IOCTL_MAGIC, 1, uint32_t)
#define PMAP_IOCTL_SET_HADDR _IOW(PMAP_IOCTL_MAGIC, 2, uint32_t)
#define PMAP_IOCTL_GET_HADDR _IOR(PMAP_IOCTL_MAGIC, 3, uint32_t)
#define PMAP_IOCTL_SET_SIZE _IOW(PMAP_IOCTL_MAGIC, 4, uint32_t)
#define PMAP_IOCTL_GET_SIZE _IOR(PMAP_IOCTL_MAGIC, 5, uint32_t)
#define PMAP_IOCTL_GET_PADDR _IOR(PMAP_IOCTL_MAGIC, 6, uint32_t)
#define PMAP_IOCTL_CREATE _IOR(PMAP_IOCTL_MAGIC, 7, uint32_t)
#define PMAP_IOCTL_FREE _IOR(PMAP_IOCTL_MAGIC, 8, uint32_t)
#define PMAP_IOCTL_SET_CURRENT _IOW(PMAP_IOCTL_MAGIC, 9, uint32_t)

#endif /* PMAP_H */
