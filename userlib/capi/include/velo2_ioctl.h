/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requests of the velo2 device (spec 7, 10.4b). GET stores 8 bytes at the argument, SET takes the value in it. */
#ifndef VELO2_IOCTL_H
#define VELO2_IOCTL_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/types.h>
#else
#include <stdint.h>
#include <sys/ioctl.h>
#endif

#define VELO2_IOCTL_MAGIC 'k'

#define VELO2_IOCG_GET_RP _IOR(VELO2_IOCTL_MAGIC, 0, uint32_t)
#define VELO2_IOCT_SET_RP _IOW(VELO2_IOCTL_MAGIC, 1, uint32_t)
#define VELO2_IOCG_GET_WP _IOR(VELO2_IOCTL_MAGIC, 2, uint32_t)
#define VELO2_IOCT_SET_WP _IOW(VELO2_IOCTL_MAGIC, 3, uint32_t)
#define VELO2_IOCG_GET_VPID _IOR(VELO2_IOCTL_MAGIC, 4, uint64_t)
#define VELO2_IOCG_GET_MBOX_SIZE _IOR(VELO2_IOCTL_MAGIC, 5, uint64_t)
#define VELO2_IOCG_SET_MBOX_SIZE _IOW(VELO2_IOCTL_MAGIC, 6, uint64_t)
#define VELO2_IOCG_GET_SEGMENT_SIZE _IOR(VELO2_IOCTL_MAGIC, 7, uint64_t)
#define VELO2_IOCG_SET_SEGMENT_SIZE _IOW(VELO2_IOCTL_MAGIC, 8, uint64_t)
/* These three are accepted and ignored. */
#define VELO2_IOCT_SET_ASYNC _IOW(VELO2_IOCTL_MAGIC, 9, uint32_t)
#define VELO2_IOCT_SET_POLLTIMES _IOW(VELO2_IOCTL_MAGIC, 10, uint32_t)
#define VELO2_IOCT_SET_POLLFLAG _IOW(VELO2_IOCTL_MAGIC, 11, uint32_t)
#define VELO2_IOCG_GET_NODEID _IOR(VELO2_IOCTL_MAGIC, 12, uint64_t)
#define VELO2_IOCG_SET_TX_PROTDESC _IOW(VELO2_IOCTL_MAGIC, 13, uint64_t)
#define VELO2_IOCG_GET_TX_PROTDESC _IOR(VELO2_IOCTL_MAGIC, 14, uint64_t)
#define VELO2_IOCG_SET_RX_PROTDESC _IOW(VELO2_IOCTL_MAGIC, 15, uint64_t)
#define VELO2_IOCG_GET_RX_PROTDESC _IOR(VELO2_IOCTL_MAGIC, 16, uint64_t)
/* node | vpid << 16 */
#define VELO2_IOCG_SET_TX_ID _IOW(VELO2_IOCTL_MAGIC, 17, uint64_t)
#define VELO2_IOCG_GET_TX_ID _IOR(VELO2_IOCTL_MAGIC, 18, uint64_t)
#define VELO2_IOCG_GET_PROCNUM _IOR(VELO2_IOCTL_MAGIC, 19, uint32_t)
#define VELO2_IOCG_GET_NODENUM _IOR(VELO2_IOCTL_MAGIC, 20, uint32_t)
#define VELO2_IOCG_GET_SLOT_SIZE _IOR(VELO2_IOCTL_MAGIC, 21, uint32_t)

#endif /* VELO2_IOCTL_H */
