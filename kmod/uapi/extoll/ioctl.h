/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/extollN: the kernel's interface to a card (kmod/extoll).
 *
 * Life. Opening the device gives a file with nothing on it. EXTOLL_IOC_PORT_OPEN puts one port (a VPID with its
 * queues) on it, once; a program that wants several ports opens the device several times. Whatever a file holds
 * lives until its last descriptor is closed and its last mapping is gone, however the process ends; then the
 * driver disables the VPID, waits until the card has finished with its memory, and frees all of it. Descriptors
 * may be passed on and inherited: all holders share the port.
 *
 * Calls. Every argument is one structure without padding or pointers of its own width; its size is in the call's
 * number. The kernel takes shorter structures of older programs (missing members are 0) and longer ones of newer
 * programs if what it does not know is 0 (else E2BIG). Members marked `out` are written on success only, and need
 * not be set. Unknown flags, and reserved members that are not 0, give EINVAL.
 *
 * Errors of every call: ENOTTY (no such call), EINVAL (structure shorter than its first version), E2BIG, EFAULT,
 * ENODEV (the card was removed), EIO (the card failed: it stopped answering, and was cut off from memory).
 */
#ifndef EXTOLL_IOCTL_H
#define EXTOLL_IOCTL_H

#include "base.h"

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/ioctl.h>
#include <linux/stddef.h>
#else
#include <stddef.h>
#include <sys/ioctl.h>
#endif

#define EXTOLL_ABI_VERSION	1	/* grows when calls, flags or members are added; old programs go on working */

#define EXTOLL_IOC_MAGIC	0xe7

/*
 * Offsets for mmap. Mappings must be shared (MAP_SHARED). What needs a port gives ENXIO before there is one; lengths
 * and offsets that do not fit give EINVAL, pages that the file may not have EPERM.
 *
 * Page faults fill mappings, many pages at a time; afterwards accesses take none. madvise(MADV_WILLNEED) fills them at
 * once, for who looks for the pages in page tables (a GPU's driver, cuMemHostRegister with IOMEMORY) and may not touch
 * them: requester pages, and windows, where each access is one of the card's.
 *
 * REQUESTER + option * 4096: option pages of the port (spec 2.1), one or several in a row; write-combining,
 *   write-only. Which options the file may map is in extoll_port_open.options.
 * WCB, RP: write-combining buffer state (spec 2.4) and read pointer (spec 3.2); one page each, uncached.
 * QUEUE: the notification queue from its start, segments in a row; cached.
 * VELO_*: the same for VELO (spec 7): REQUESTER + class * 4096; MAILBOX is the message queue.
 * WINDOW + offset: the SMFU window that EXTOLL_IOC_WINDOW_OPEN gave; write-combining, or uncached if asked for.
 * TARGET: host memory where the window's arriving stores go; cached.
 * BUFFER + address of EXTOLL_IOC_BUFFER_ALLOC: physically contiguous buffers; cached.
 */
#define EXTOLL_MAP_REQUESTER		0x000000000ull
#define EXTOLL_MAP_WCB			0x000100000ull
#define EXTOLL_MAP_RP			0x000200000ull
#define EXTOLL_MAP_VELO_REQUESTER	0x000300000ull
#define EXTOLL_MAP_VELO_WCB		0x000400000ull
#define EXTOLL_MAP_VELO_RP		0x000500000ull
#define EXTOLL_MAP_QUEUE		0x100000000ull
#define EXTOLL_MAP_VELO_MAILBOX		0x200000000ull
#define EXTOLL_MAP_TARGET		0x300000000ull
#define EXTOLL_MAP_BUFFER		0x400000000ull
#define EXTOLL_MAP_WINDOW		0x10000000000ull

/* What the card and the driver are. All members are out. */
struct extoll_info {
	__u32 abi_version;		/* EXTOLL_ABI_VERSION of the driver */
	__u32 flags;			/* EXTOLL_INFO_* */
	__u32 node;			/* node id; meaningful when network_state is EXTOLL_NETWORK_CONFIGURED */
	__u32 network_state;		/* EXTOLL_NETWORK_* (spec 8.2) */
	__u32 ports;			/* VPIDs that applications may open */
	__u32 fragment_bytes;		/* payload of a network packet (spec 2.3) */
	__u32 command_bytes;		/* most bytes of one put or get (spec 2.2) */
	__u32 window_intervals;		/* nodes that a window may have, each with an interval */
	__u64 window_bytes;		/* size of the SMFU window that applications may use */
	__u64 target_bytes;		/* most host memory behind it on one node */
};
EXTOLL_ASSERT(sizeof(struct extoll_info) == 48, "extoll_info");

#define EXTOLL_INFO_PRIVILEGED	1u	/* this file may do what needs CAP_SYS_RAWIO */

/*
 * Open a port on the lowest free VPID (spec 9.2) that has rested: one that was given back is given to nobody for a
 * while (parameter `vpid_rest_ms`), since answers to its last owner may still be on the way. The call waits when only
 * such are left.
 *
 * Queues: a multiple of the page size, in physically contiguous segments (a multiple of the page size, at most
 * EXTOLL_SEGMENT_MAX, at most 512 of them; spec 3.2); 0: the defaults. Memory is zeroed. One slot always stays free.
 *
 * EBUSY: the file has a port; ENOSPC: no free VPID; EDQUOT: the user, without CAP_SYS_RESOURCE, has as many ports or
 * bytes of queues on the card as the parameters `user_ports` and `user_queue_mib` allow; EAGAIN: the network is not
 * configured (spec 9.2); EINVAL: shape of a queue, no unit; ENOMEM; EINTR.
 */
struct extoll_port_open {
	__u32 units;			/* EXTOLL_UNIT_*: at least one */
	__u32 flags;			/* 0 */
	__u32 queue_bytes;		/* RMA notification queue; default 256 KiB */
	__u32 segment_bytes;		/* default 64 KiB */
	__u32 mailbox_bytes;		/* VELO mailbox; default 256 KiB */
	__u32 mailbox_segment_bytes;	/* default 64 KiB */
	__u32 node;			/* out */
	__u32 vpid;			/* out */
	__u32 options;			/* out: bit i: option page i may be mapped (spec 2.1) */
	__u32 slot_bytes;		/* out: bytes of a VELO mailbox slot */
	__u32 queue_bytes_out;		/* out: as opened */
	__u32 mailbox_bytes_out;	/* out: as opened */
};
EXTOLL_ASSERT(sizeof(struct extoll_port_open) == 48, "extoll_port_open");

#define EXTOLL_UNIT_RMA		1u
#define EXTOLL_UNIT_VELO	2u
#define EXTOLL_SEGMENT_MAX	0x100000u	/* 65,536 slots of 16 bytes */

/*
 * Let the card reach memory under the port's VPID; `nla` is the network logical address of the first byte (spec 4).
 * Whole pages are translated, so the rest of the first and last page is reachable too.
 *
 * EXTOLL_REGION_USER: memory of the calling process. Pages are pinned and charged to RLIMIT_MEMLOCK, unless the
 *   process has CAP_IPC_LOCK: those of the process, and those of the port, whoever registered them.
 * EXTOLL_REGION_MMIO: a mapping of another device's memory, made by gpumap or a module named in the parameter
 *   `mmio_modules` (else EPERM). When the mapping changes or goes, the card's access ends; the region remains, dead,
 *   until it is unregistered. EREMOTEIO, with the reason in the kernel's log: no way between the card and that device
 *   is known to work (asked only of kernels with CONFIG_PCI_P2PDMA).
 * EXTOLL_REGION_DMABUF: `length` bytes from `address` of the dma-buf `fd`. The exporter may revoke it, likewise. EACCES:
 *   the buffer was exported for reading only, and access asks for more.
 *   Of both, the pages that their translations fill (8 bytes for 4 KiB) are charged as pinned ones are.
 *
 * ENXIO: no RMA port; EINVAL: length 0, wrap-around, no access, kind; EFAULT: not mapped, or not with this access;
 * EPERM; ENOMEM: no memory, RLIMIT_MEMLOCK, or the memory cgroup's limit; ENOSPC: no free range of logical addresses;
 * EINTR: a signal, and nothing was registered; EAGAIN: the mapping of device memory keeps changing; EBADF, ETIMEDOUT
 * or the exporter's own (dma-buf); EOPNOTSUPP: a kernel without MMU notifiers.
 */
struct extoll_register {
	__u32 kind;			/* EXTOLL_REGION_* */
	__u32 access;			/* EXTOLL_ACCESS_*: what others may do */
	__u64 address;
	__u64 length;
	__s32 fd;			/* dma-buf; else 0 */
	__u32 flags;			/* 0 */
	__u64 nla;			/* out */
};
EXTOLL_ASSERT(sizeof(struct extoll_register) == 40, "extoll_register");

#define EXTOLL_REGION_USER	0u
#define EXTOLL_REGION_MMIO	1u
#define EXTOLL_REGION_DMABUF	2u

#define EXTOLL_ACCESS_READ	1u
#define EXTOLL_ACCESS_WRITE	2u

/*
 * End a region that starts at `nla`, and wait until the card has finished with it: afterwards nothing reaches the
 * pages. ENOENT: this port has no region that starts there.
 */
struct extoll_unregister {
	__u64 nla;
	__u32 flags;			/* 0 */
	__u32 state;			/* out: EXTOLL_REGION_WAS_REVOKED or 0 */
};
EXTOLL_ASSERT(sizeof(struct extoll_unregister) == 16, "extoll_unregister");

#define EXTOLL_REGION_WAS_REVOKED	1u

/*
 * Sleep until a slot of a queue holds something new, at most `timeout_ns` (~0: no limit). The call writes the queue's
 * read pointer register with `index`, re-arming the interrupt (spec 3.2), so it is for the one who consumes.
 *
 * Only notifications of commands posted with EXTOLL_OPTION_IRQ (VELO: with the header's interrupt bit) raise the
 * interrupt that ends the sleep at once. The others are found too, within a millisecond or so, if
 * EXTOLL_WAIT_TIMER is set: the driver then looks from time to time.
 *
 * ETIMEDOUT; EINTR: a signal, or the machine went to sleep; ENXIO: no such queue; EINVAL: index outside the queue. EIO
 * within a few seconds after the card stopped answering, however it went.
 *
 * poll and epoll report POLLIN while the slot that the read pointer register names holds something, POLLERR and
 * POLLHUP once the card is gone. They arm the interrupt too, by writing the register again as it is: do not free slots
 * meanwhile.
 */
struct extoll_wait {
	__u32 unit;			/* EXTOLL_UNIT_RMA or EXTOLL_UNIT_VELO */
	__u32 flags;			/* EXTOLL_WAIT_* */
	__u32 index;			/* next unread slot */
	__u32 reserved;			/* 0 */
	__u64 timeout_ns;
};
EXTOLL_ASSERT(sizeof(struct extoll_wait) == 24, "extoll_wait");

#define EXTOLL_WAIT_TIMER	1u

/*
 * Rights of a port that only the privileged may change (CAP_SYS_RAWIO, or the module parameter `trusted`): EPERM.
 * `mask` says which members are taken. Without this call a port has the protection id that the module parameter
 * `protection` gives the user who opened the device, or the cgroup that the opener was in, and the id counts for RMA and
 * VELO. ENXIO: no port, or traffic classes or Excellerate of a port without RMA; EINVAL.
 */
struct extoll_port_rights {
	__u32 mask;			/* EXTOLL_RIGHT_* */
	__u32 protection;		/* protection id: packets with another one are dropped; 16 bits (spec 7, 8.3) */
	__u32 traffic_classes;		/* tc0 to tc3, two bits each (spec 8.3) */
	__u32 excellerate;		/* 0 or 1: modifiers ERA and EWA (spec 2.2) */
};
EXTOLL_ASSERT(sizeof(struct extoll_port_rights) == 16, "extoll_port_rights");

#define EXTOLL_RIGHT_PROTECTION		1u
#define EXTOLL_RIGHT_TRAFFIC_CLASSES	2u
#define EXTOLL_RIGHT_EXCELLERATE	4u

/*
 * Read or write a register of this card, or of another node's through the SMFU (spec 6.4). Privileged.
 * EPERM; EINVAL: offset not a multiple of 8 or outside the register file; EIO: no answer of the other node (all ones);
 * EOPNOTSUPP: the card has no window.
 */
struct extoll_rf_access {
	__u64 offset;			/* byte offset in BAR 0, below 32 MiB */
	__u64 value;			/* to write; out when reading */
	__u32 flags;			/* EXTOLL_RF_* */
	__u32 node;			/* with EXTOLL_RF_REMOTE */
};
EXTOLL_ASSERT(sizeof(struct extoll_rf_access) == 24, "extoll_rf_access");

#define EXTOLL_RF_WRITE		1u
#define EXTOLL_RF_REMOTE	2u

/*
 * Take the SMFU for a global address window (spec 6, thesis 6.5): part i, from i * stride on, is memory of node
 * nodes[i]. There is one window on a card at a time. What lies between parts can be mapped with them; accesses to it
 * are SIGBUS.
 *
 * This node's part is where arriving loads and stores go: host memory of the driver (target_address 0; map it at
 * EXTOLL_MAP_TARGET), at most extoll_info.target_bytes; or a physically contiguous mapping of device memory, under
 * the rules of EXTOLL_REGION_MMIO.
 *
 * What arrives is bounded by the sender's part_bytes only. So unless the file is privileged, part_bytes is at most
 * extoll_info.target_bytes, which every node has (EPERM), and a mapping of device memory covers at least that.
 *
 * More nodes than intervals: EXTOLL_WINDOW_MASK, by address bits (spec 6.2). The nodes are then nodes[0] and those that
 * follow it, and stride is a power of two, at most 32 MiB.
 *
 * EBUSY: another file has it; EINVAL: stride or part_bytes not a multiple of the page size, part_bytes above stride,
 * more nodes than intervals, no such nodes or stride for address bits, beyond the window, target not contiguous; EPERM,
 * EFAULT, ENOMEM, EINTR, EAGAIN, EREMOTEIO: as for EXTOLL_REGION_MMIO; EOPNOTSUPP: the card has no window
 * (extoll_info.window_bytes is 0).
 */
struct extoll_window_open {
	__u32 count;			/* nodes: 1 to EXTOLL_WINDOW_NODES; any number with EXTOLL_WINDOW_MASK */
	__u32 flags;			/* EXTOLL_WINDOW_* */
	__u64 stride;
	__u64 part_bytes;
	__u64 target_address;		/* user address of device memory, or 0 */
	__u64 window_offset;		/* out: add to EXTOLL_MAP_WINDOW */
	__u16 nodes[64];
};
EXTOLL_ASSERT(sizeof(struct extoll_window_open) == 168, "extoll_window_open");

#define EXTOLL_WINDOW_UNCACHED	1u	/* map uncached instead of write-combining */
#define EXTOLL_WINDOW_MASK	2u	/* address bits name the nodes, not intervals */
#define EXTOLL_WINDOW_NODES	63	/* interval 0 is for remote register access (spec 6.4) */

/* Give the window back. EBUSY: it is still mapped; ENXIO: the file has none. */
struct extoll_window_close {
	__u32 flags;			/* 0 */
	__u32 reserved;			/* 0 */
};
EXTOLL_ASSERT(sizeof(struct extoll_window_close) == 8, "extoll_window_close");

/*
 * Physically contiguous memory for commands without translation (spec 9.3). Privileged; freed with the file. At most
 * EXTOLL_BUFFER_MAX bytes each, EXTOLL_BUFFERS of a file. EPERM, EINVAL, ENOSPC, ENOMEM.
 */
struct extoll_buffer_alloc {
	__u64 bytes;			/* rounded up to whole pages */
	__u64 bus_address;		/* out: for descriptors */
	__u64 map_offset;		/* out: for mmap, of all of it */
};
EXTOLL_ASSERT(sizeof(struct extoll_buffer_alloc) == 24, "extoll_buffer_alloc");

#define EXTOLL_BUFFER_MAX	0x400000u
#define EXTOLL_BUFFERS		64

/*
 * From now on the file has the rights of an unprivileged one. Before a port, window or buffer is had: EBUSY; EINVAL.
 */
struct extoll_drop_rights {
	__u32 flags;			/* 0 */
	__u32 reserved;			/* 0 */
};
EXTOLL_ASSERT(sizeof(struct extoll_drop_rights) == 8, "extoll_drop_rights");

#define EXTOLL_IOC_INFO		_IOWR(EXTOLL_IOC_MAGIC, 0, struct extoll_info)
#define EXTOLL_IOC_PORT_OPEN	_IOWR(EXTOLL_IOC_MAGIC, 1, struct extoll_port_open)
#define EXTOLL_IOC_REGISTER	_IOWR(EXTOLL_IOC_MAGIC, 2, struct extoll_register)
#define EXTOLL_IOC_UNREGISTER	_IOWR(EXTOLL_IOC_MAGIC, 3, struct extoll_unregister)
#define EXTOLL_IOC_WAIT		_IOWR(EXTOLL_IOC_MAGIC, 4, struct extoll_wait)
#define EXTOLL_IOC_PORT_RIGHTS	_IOWR(EXTOLL_IOC_MAGIC, 5, struct extoll_port_rights)
#define EXTOLL_IOC_RF_ACCESS	_IOWR(EXTOLL_IOC_MAGIC, 6, struct extoll_rf_access)
#define EXTOLL_IOC_WINDOW_OPEN	_IOWR(EXTOLL_IOC_MAGIC, 7, struct extoll_window_open)
#define EXTOLL_IOC_WINDOW_CLOSE	_IOWR(EXTOLL_IOC_MAGIC, 8, struct extoll_window_close)
#define EXTOLL_IOC_BUFFER_ALLOC	_IOWR(EXTOLL_IOC_MAGIC, 9, struct extoll_buffer_alloc)
#define EXTOLL_IOC_DROP_RIGHTS	_IOWR(EXTOLL_IOC_MAGIC, 10, struct extoll_drop_rights)

/* Sizes leave no room for padding only if the last members lie where they should. */
EXTOLL_ASSERT(offsetof(struct extoll_info, target_bytes) == 40, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_port_open, mailbox_bytes_out) == 44, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_register, nla) == 32, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_unregister, state) == 12, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_wait, timeout_ns) == 16, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_rf_access, node) == 20, "offset");
EXTOLL_ASSERT(offsetof(struct extoll_window_open, nodes) == 40, "offset");

#endif /* EXTOLL_IOCTL_H */
