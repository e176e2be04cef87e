/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Driver-private declarations. "(spec n)" cites the interface specification of the card.
 *
 * Locks, outer first:
 *   file->lock > card->smfu_lock > (mmap lock, dma-buf reservation) > card->atu_lock
 *   file->lock > card->gat_lock > card->atu_lock
 *   card->registers_lock > card->port_lock
 *   card->files_lock, card->regions_lock, card->port_lock, card->window_lock: innermost.
 * Only a file's own lock is held while the card or another process is waited for.
 * Nobody allocates memory under atu_lock: it is taken in MMU notifiers, which may run to free memory.
 * Operations on a card count in card->users (extoll_enter); nobody waits for them to end under any of these locks.
 */
#ifndef EXTOLL_H
#define EXTOLL_H

#include <linux/bitmap.h>
#include <linux/cdev.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "../uapi/extoll/atu.h"
#include "../uapi/extoll/bq.h"
#include "../uapi/extoll/desc.h"
#include "../uapi/extoll/ioctl.h"
#include "../uapi/extoll/noti.h"
#include "../uapi/extoll/regs.h"
#include "../uapi/extoll/smfu.h"
#include "../uapi/extoll/velo.h"

#if !defined(CONFIG_64BIT) || PAGE_SIZE != 4096
#error "the card has 64-bit registers and pages of 4 KiB for each VPID"
#endif

#define EXTOLL_SNQ_ENTRIES	256
/*
 * Registered memory belongs to the card and to the process at the same time, and to several regions if they like:
 * there is no moment to hand it over, and caches are coherent.
 */
#define EXTOLL_DMA_ATTRS	DMA_ATTR_SKIP_CPU_SYNC
#define EXTOLL_TARGET_BYTES	0x400000	/* host memory behind an SMFU window (spec 6.3) */

enum extoll_state {
	EXTOLL_LIVE,
	EXTOLL_FAILED,	/* stopped answering; bus mastering is off, so it reaches no memory */
	EXTOLL_GONE,	/* removed */
};

/* Entry of the system notification queue (spec 8.4). */
struct extoll_snq_entry {
	__le64 payload[7];
	__le64 header;
};

struct extoll_snq {
	struct extoll_snq_entry *entries;
	dma_addr_t dma;
	u32 next;	/* next entry to look at */
	u32 flip;	/* its valid bit on this lap */
	u16 count;	/* entries consumed in all */
	int irq;
	u64 handled[32];	/* by trigger */
};

/* Registers of one unit's buffer queues (spec 3.2). */
struct extoll_bq_regs {
	u32 general, ub, dcq, current_segment, next_segment, wp, rp;
};

struct extoll_queue {
	const struct extoll_bq_regs *regs;
	u32 segments;
	u32 segment_bytes;
	u32 slot_bytes;
	struct page **pages;	/* first page of each segment */
	dma_addr_t *dma;	/* of each segment */
	__le64 *table;		/* segment descriptors, one page */
	dma_addr_t table_dma;
};

static inline u64 extoll_queue_bytes(const struct extoll_queue *queue)
{
	return (u64)queue->segments * queue->segment_bytes;
}

/*
 * Zeroed, physically contiguous pages that the card and user space share, on the account of the caller's cgroup. DMA
 * debugging of some kernels (6.1) takes the allocation for a mapping, which has to be checked; it fails by NULL only.
 */
static inline struct page *extoll_pages_alloc(struct device *dev, size_t bytes, dma_addr_t *dma)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
	struct page *pages = dma_alloc_pages(dev, bytes, dma, DMA_BIDIRECTIONAL, gfp);

	if (!pages || dma_mapping_error(dev, *dma))
		return NULL;
	memset(page_address(pages), 0, bytes);
	return pages;
}

struct extoll_card;
struct extoll_file;

/* A VPID in use. Everything but `dead`, `regions` and `charged` is fixed once the port is published in its file. */
struct extoll_port {
	struct extoll_card *card;
	u8 vpid;
	u32 units;
	u32 options;		/* option pages that may be mapped */
	bool dead;		/* killed by reset or removal: holds nothing any more */
	struct extoll_queue rma, velo;
	struct list_head regions;	/* under card->regions_lock */
	atomic64_t charged;		/* pages, of all regions, whoever registered them */
};

/* Device memory mapped by another driver, watched until the mapping changes. */
struct extoll_mmio {
	struct extoll_card *card;
	void (*revoke)(struct extoll_mmio *mmio);	/* under card->atu_lock, once */
	bool watched;
	bool revoked;		/* under card->atu_lock */
#ifdef CONFIG_MMU_NOTIFIER
	struct mmu_interval_notifier notifier;
#endif
	u32 runs;
	struct extoll_run {
		phys_addr_t phys;
		dma_addr_t dma;
		size_t bytes;
	} *run;
};

struct extoll_region {
	struct list_head node;		/* in port->regions, under card->regions_lock */
	struct extoll_port *port;
	bool live;			/* may be looked up, under card->regions_lock */
	u32 kind;
	u32 access;
	u32 first;			/* NLA >> 12 */
	u32 pages;
	u32 offset;			/* of the first byte in its page */
	bool mapped;			/* has translations, under card->atu_lock */
	bool revoked;			/* lost them early, under card->atu_lock */
	struct mm_struct *mm;		/* charged */
	u32 charged;			/* pages */
	/* EXTOLL_REGION_USER */
	struct sg_append_table table;
	/* EXTOLL_REGION_MMIO */
	struct extoll_mmio mmio;
	/* EXTOLL_REGION_DMABUF */
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;
};

struct extoll_buffer {
	struct page *pages;
	dma_addr_t dma;
	size_t bytes;
};

enum extoll_caching { EXTOLL_CACHED, EXTOLL_UNCACHED, EXTOLL_WRITE_COMBINING };

/* What lies at an offset of a file. */
struct extoll_page {
	phys_addr_t phys;
	enum extoll_caching caching;
	u64 start;		/* bytes before it in what it is a part of */
	u64 length;		/* of that, if it can be mapped only as a whole; else 0 */
	bool hole;		/* part of a mapping, but no access goes there */
};

/* An open file: what user space holds. */
struct extoll_file {
	struct list_head node;		/* in card->files */
	struct kref held;
	u32 walk;			/* of card->walk, the last that has been here; under card->files_lock */
	struct file *filp;		/* NULL once it is closed; under `lock` */
	struct extoll_card *card;
	bool privileged;		/* decided at open, and dropped by a call */
	int protection;			/* id of its ports, decided at open; -EACCES: it has none */
	kuid_t user;			/* whose ports it has; INVALID_UID: without limit */
	struct mutex lock;		/* opening a port; buffers; giving all of it back */
	struct extoll_port *port;	/* set once, released to readers without the lock */
	u32 window_maps;		/* mappings of a window, under card->window_lock */
	u32 buffers;			/* released to readers like port */
	struct extoll_buffer buffer[EXTOLL_BUFFERS];
};

/* The port of the file; NULL before it has one. */
static inline struct extoll_port *extoll_file_port(struct extoll_file *file)
{
	/* Pairs with the release of the call that opens it: who sees the port sees all of it. */
	return smp_load_acquire(&file->port);
}

/* A translation table, under card->gat_lock. */
struct extoll_gat {
	__le64 *entries;
	dma_addr_t dma;
	u32 regions;		/* that have entries in it */
};

/* Logical addresses that were given back and are given out to nobody yet; in the tree they have this entry. */
struct extoll_resting {
	u32 first, pages;
};

#define EXTOLL_NLA_RESTS	xa_mk_value(0)

/* Whose a VPID is, or was: what it takes of the user's limits. */
struct extoll_share {
	kuid_t user;		/* INVALID_UID: nobody's limits */
	u64 queue_bytes;
	u64 given_back;		/* jiffies_64 */
};

/* The SMFU: one window at a time. */
struct extoll_window {
	struct extoll_file *owner;	/* under card->window_lock */
	bool uncached;
	bool combining;			/* reserved as write-combining */
	bool device;			/* target is device memory */
	u64 bytes;
	u32 intervals;
	u64 part_bytes, stride;
	struct page *target;		/* kept once allocated: arriving stores always have a place */
	dma_addr_t target_dma;
	struct extoll_mmio mmio;
};

struct extoll_card {
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	int index;
	void __iomem *rf;		/* register file */
	void __iomem *rra;		/* other nodes' register files, through the SMFU */
	phys_addr_t bar0, bar2;		/* for mmap */
	u64 bus0, bus2;			/* as the card decodes them */
	u64 window_bytes;		/* of BAR 2 */
	enum extoll_state state;
	bool cut_off;			/* did not do what it must: bus mastering is off */
	struct percpu_ref users;	/* operations under way; dead while none may begin */
	struct completion idle;		/* the last one left */
	struct delayed_work look;	/* whether it is still there, while ports are open */

	struct mutex registers_lock;	/* fields of registers that sysfs writes */
	struct mutex files_lock;	/* files */
	struct list_head files;
	u32 walk;			/* over them: resets and the like, one at a time */

	spinlock_t port_lock;		/* vpids, shares, ports */
	DECLARE_BITMAP(vpids, EXTOLL_VPIDS);	/* in use, under port_lock */
	struct extoll_share share[EXTOLL_VPIDS];
	u32 ports;
	wait_queue_head_t wait[EXTOLL_VPIDS];	/* for what comes into a VPID's queues */
	u32 interrupts[EXTOLL_VPIDS];		/* by the interrupt's thread only */

	struct mutex regions_lock;	/* looking up, adding and taking out regions */
	struct maple_tree nlas;		/* NLA page -> region, or EXTOLL_NLA_RESTS */
	struct mutex gat_lock;		/* giving out logical addresses, making tables */
	struct extoll_resting resting[EXTOLL_NLA_REST_RANGES];	/* a ring, under gat_lock */
	u32 resting_first, resting_ranges, resting_pages;
	struct mutex atu_lock;		/* taking away translations: the flush word, revocation */
	struct extoll_gat gat[EXTOLL_GAT_TABLES];
	__le64 *flush_word;
	dma_addr_t flush_dma;

	__le32 *locks;			/* EXTOLL_LOCKS_PER_VPID for each VPID (spec 5) */
	dma_addr_t locks_dma;

	struct extoll_snq snq;

	struct mutex smfu_lock;		/* intervals */
	spinlock_t window_lock;
	struct extoll_window window;
};

#define extoll_warn(card, ...) dev_warn_ratelimited(&(card)->pdev->dev, __VA_ARGS__)

/* All register accesses go through these two; dynamic debug shows them. */
static inline u64 extoll_rf_read(struct extoll_card *card, u64 offset)
{
	u64 value = readq(card->rf + offset);

	dev_dbg(&card->pdev->dev, "rf read  %#09llx = %#018llx\n", offset, value);
	return value;
}

static inline void extoll_rf_write(struct extoll_card *card, u64 offset, u64 value)
{
	dev_dbg(&card->pdev->dev, "rf write %#09llx = %#018llx\n", offset, value);
	writeq(value, card->rf + offset);
}

/* Like extoll_enter, also for a card that has failed: what is mapped stays reachable until a reset takes it away. */
static inline bool extoll_hold(struct extoll_card *card)
{
	return percpu_ref_tryget_live(&card->users);
}

/* main.c */
extern bool extoll_trusted;
int extoll_enter(struct extoll_card *card);
void extoll_leave(struct extoll_card *card);
void extoll_card_live(struct extoll_card *card);
void extoll_card_fail(struct extoll_card *card, const char *why);
int extoll_card_there(struct extoll_card *card, u64 value);
void extoll_card_watch(struct extoll_card *card);

/* card.c */
int extoll_map_bars(struct extoll_card *card);
void extoll_unmap_bars(struct extoll_card *card);
int extoll_card_memory(struct extoll_card *card);
void extoll_card_memory_free(struct extoll_card *card);
int extoll_card_clear(struct extoll_card *card);
int extoll_card_start(struct extoll_card *card);
void extoll_card_stop(struct extoll_card *card);

/* snq.c */
int extoll_snq_init(struct extoll_card *card);
int extoll_snq_start(struct extoll_card *card);
void extoll_snq_stop(struct extoll_card *card);
void extoll_snq_free(struct extoll_card *card);

/* sysfs.c */
extern const struct attribute_group *extoll_groups[];

/* chardev.c */
bool extoll_privileged(void);
int extoll_chardev_init(void);
void extoll_chardev_exit(void);
int extoll_chardev_add(struct extoll_card *card);
void extoll_files_kill(struct extoll_card *card);
extern struct class extoll_class;

/* mmap.c */
void extoll_mappings_kill(struct extoll_file *file);
int extoll_fadvise(struct file *filp, loff_t offset, loff_t length, int advice);
int extoll_mmap(struct file *filp, struct vm_area_struct *vma);

/* queue.c */
extern const struct extoll_bq_regs extoll_bq_rma, extoll_bq_velo;
bool extoll_queue_shape_ok(u32 bytes, u32 segment_bytes);
int extoll_queue_alloc(struct extoll_card *card, struct extoll_queue *queue,
		       const struct extoll_bq_regs *regs, u32 slot_bytes, u32 bytes,
		       u32 segment_bytes);
void extoll_queue_start(struct extoll_card *card, const struct extoll_queue *queue, u8 vpid);
void extoll_queue_stop(struct extoll_card *card, const struct extoll_queue *queue, u8 vpid);
void extoll_queue_free(struct extoll_card *card, struct extoll_queue *queue);
bool extoll_queue_news(const struct extoll_queue *queue, u32 index);

/* port.c */
struct extoll_port *extoll_port_open(const struct extoll_file *file, struct extoll_port_open *arg);
void extoll_port_kill(struct extoll_port *port);
void extoll_vpids_rest(struct extoll_card *card);
int extoll_protection(kuid_t user);
int extoll_port_rights(struct extoll_port *port, const struct extoll_port_rights *arg);

/* wait.c */
int extoll_port_wait(struct extoll_port *port, const struct extoll_wait *arg);
__poll_t extoll_poll(struct file *filp, struct poll_table_struct *table);

/* atu.c */
int extoll_atu_reserve(struct extoll_card *card, struct extoll_region *region);
void extoll_atu_release(struct extoll_card *card, struct extoll_region *region);
void extoll_atu_set(struct extoll_region *region, u32 page, dma_addr_t dma, u32 pages);
void extoll_atu_clear_locked(struct extoll_region *region, bool revoke);
void extoll_atu_quiesce(struct extoll_card *card, u8 vpid);
void extoll_atu_free(struct extoll_card *card);

/* region.c */
int extoll_register(struct extoll_port *port, struct extoll_register *arg);
int extoll_unregister(struct extoll_port *port, struct extoll_unregister *arg);
void extoll_regions_drop(struct extoll_port *port);

/* umem.c, mmio.c, dmabuf.c */
int extoll_umem_map(struct extoll_region *region, u64 address);
void extoll_umem_install(struct extoll_region *region);
void extoll_umem_unmap(struct extoll_region *region);
int extoll_mmio_check(u64 address, u64 pages);
int extoll_mmio_map(struct extoll_mmio *mmio, u64 address, u64 pages, bool write,
		    int (*install)(struct extoll_mmio *mmio));
void extoll_mmio_unmap(struct extoll_mmio *mmio);
int extoll_dmabuf_attach(struct extoll_region *region, int fd, u64 offset, u64 length);
int extoll_dmabuf_map(struct extoll_region *region, u64 offset);
void extoll_dmabuf_unmap(struct extoll_region *region);

/* smfu.c */
void extoll_smfu_start(struct extoll_card *card);
void extoll_smfu_stop(struct extoll_card *card);
void extoll_smfu_free(struct extoll_card *card);
int extoll_window_open(struct extoll_file *file, struct extoll_window_open *arg);
bool extoll_window_of(struct extoll_file *file);
int extoll_window_close(struct extoll_file *file, bool force);
void extoll_window_mapped(struct extoll_file *file, int change);
int extoll_window_page(struct extoll_file *file, u64 offset, struct extoll_page *page);
int extoll_target_page(struct extoll_file *file, u64 offset, struct extoll_page *page);
int extoll_rf_access(struct extoll_card *card, struct extoll_rf_access *arg);

#endif /* EXTOLL_H */
