/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of the rma2 device (spec 9.2). GET stores 8 bytes at the argument, although the size in the number says
 * 4; SET takes the value in the argument itself.
 */
#ifndef RMA2_IOCTL_H
#define RMA2_IOCTL_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <stdint.h>
#include <sys/ioctl.h>
#endif

#define RMA2_IOCTL_MAGIC 'k'

#define RMA2_IOCTL_GET_NOTIQ_SIZE _IOR(RMA2_IOCTL_MAGIC, 0, uint32_t)
#define RMA2_IOCTL_SET_NOTIQ_SIZE _IOW(RMA2_IOCTL_MAGIC, 1, uint32_t)
#define RMA2_IOCTL_SET_NOTIQ_SEGMENT_SIZE _IOW(RMA2_IOCTL_MAGIC, 2, uint32_t)
#define RMA2_IOCTL_GET_NOTIQ_SEGMENT_SIZE _IOR(RMA2_IOCTL_MAGIC, 3, uint32_t)
#define RMA2_IOCTL_SET_NOTIQ_WP _IOW(RMA2_IOCTL_MAGIC, 4, uint32_t)
#define RMA2_IOCTL_SET_NOTIQ_RP _IOW(RMA2_IOCTL_MAGIC, 5, uint32_t)
#define RMA2_IOCTL_GET_NOTIQ_WP _IOR(RMA2_IOCTL_MAGIC, 6, uint32_t)
#define RMA2_IOCTL_GET_NOTIQ_RP _IOR(RMA2_IOCTL_MAGIC, 7, uint32_t)
#define RMA2_IOCTL_GET_NODEID _IOR(RMA2_IOCTL_MAGIC, 8, uint32_t)
#define RMA2_IOCTL_GET_VPID _IOR(RMA2_IOCTL_MAGIC, 9, uint32_t)
/* The argument points to a region of 80 bytes: start and size in, nla out. */
#define RMA2_IOCTL_REGISTER_REGION _IOW(RMA2_IOCTL_MAGIC, 10, uint64_t)
#define RMA2_IOCTL_UNREGISTER_REGION _IOW(RMA2_IOCTL_MAGIC, 11, uint64_t)
#define RMA2_IOCTL_GET_MAXNODEID _IOR(RMA2_IOCTL_MAGIC, 12, uint32_t)
#define RMA2_IOCTL_GET_MAXVPID _IOR(RMA2_IOCTL_MAGIC, 13, uint32_t)
/* Completer in bits 31:0, responder in 63:32. */
#define RMA2_IOCTL_SET_TUS _IOW(RMA2_IOCTL_MAGIC, 14, uint32_t)
#define RMA2_IOCTL_GET_TUS _IOR(RMA2_IOCTL_MAGIC, 15, uint32_t)
#define RMA2_IOCTL_SET_EXCELL _IOW(RMA2_IOCTL_MAGIC, 16, uint32_t)
#define RMA2_IOCTL_GET_EXCELL _IOR(RMA2_IOCTL_MAGIC, 17, uint32_t)
/* Traffic classes 0 to 3, a byte each. */
#define RMA2_IOCTL_SET_TCS _IOW(RMA2_IOCTL_MAGIC, 18, uint32_t)
#define RMA2_IOCTL_GET_TCS _IOR(RMA2_IOCTL_MAGIC, 19, uint32_t)
#define RMA2_IOCTL_SET_PROTDESC _IOW(RMA2_IOCTL_MAGIC, 20, uint32_t)
#define RMA2_IOCTL_GET_PROTDESC _IOR(RMA2_IOCTL_MAGIC, 21, uint32_t)
/* Steering tag in bits 7:0, TPH in 9:8, TH in 10. */
#define RMA2_IOCTL_SET_TPHBITS _IOW(RMA2_IOCTL_MAGIC, 22, uint32_t)
#define RMA2_IOCTL_GET_TPHBITS _IOR(RMA2_IOCTL_MAGIC, 23, uint32_t)
/* Bits 0 to 2: requester, responder, completer. */
#define RMA2_IOCTL_SET_HISTMODE _IOW(RMA2_IOCTL_MAGIC, 24, uint32_t)
#define RMA2_IOCTL_GET_HISTMODE _IOR(RMA2_IOCTL_MAGIC, 25, uint32_t)

#endif /* RMA2_IOCTL_H */
