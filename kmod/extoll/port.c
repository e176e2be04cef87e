// SPDX-License-Identifier: GPL-2.0-only
/* Ports: VPIDs with their queues, from opening to the last trace (spec 2, 3, 7, 8.3, 9.2). */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "extoll.h"

#define DEFAULT_QUEUE_BYTES	EXTOLL_BQ_QUEUE_BYTES
#define DEFAULT_SEGMENT_BYTES	EXTOLL_BQ_SEGMENT_BYTES
#define USER_VPIDS		(EXTOLL_VPID_LAST_USER + 1)

static unsigned int user_ports = 128;
module_param(user_ports, uint, 0644);
MODULE_PARM_DESC(user_ports, "Ports of one card that a user without CAP_SYS_RESOURCE may have open (128)");

static unsigned int user_queue_mib = 256;
module_param(user_queue_mib, uint, 0644);
MODULE_PARM_DESC(user_queue_mib, "MiB of queues that these ports may have together (256)");

static unsigned int vpid_rest_ms = 250;
module_param(vpid_rest_ms, uint, 0644);
MODULE_PARM_DESC(vpid_rest_ms, "Milliseconds for which a VPID that was given back is given to nobody (250)");

/* Sizes of the queues that a call asks for, with defaults; 0 of a unit that it does not ask for. */
struct port_shape {
	u32 rma, rma_segment, velo, velo_segment;
};

/* Option pages for everybody: translated addresses, any traffic class, with or without interrupts (spec 2.1). */
static u32 port_options(bool privileged)
{
	u32 options = 0, option;

	for (option = 0; option < EXTOLL_PAGE_OPTIONS; option++)
		if (privileged || (option & EXTOLL_OPTION_TE && !(option & EXTOLL_OPTION_RRA)))
			options |= BIT(option);
	return options;
}

/*
 * The lowest VPID that is free and has rested; -EAGAIN: one comes, at `*when`. A user's VPIDs that rest count as
 * theirs: nobody can make all of them rest.
 */
static int vpid_try(struct extoll_card *card, kuid_t user, u64 queue_bytes, u64 *when)
{
	u64 rest = msecs_to_jiffies(READ_ONCE(vpid_rest_ms)), now = get_jiffies_64();
	u32 ports = 0, resting = 0, most = READ_ONCE(user_ports), vpid;
	int free = -ENOSPC;

	lockdep_assert_held(&card->port_lock);
	*when = U64_MAX;
	for (vpid = 0; vpid < USER_VPIDS; vpid++) {
		const struct extoll_share *share = &card->share[vpid];
		bool same = uid_valid(user) && uid_eq(share->user, user);

		if (test_bit(vpid, card->vpids)) {
			ports += same;
			queue_bytes += same ? share->queue_bytes : 0;
		} else if (now < share->given_back + rest) {
			resting += same;
			*when = min(*when, share->given_back + rest);
		} else if (free < 0) {
			free = vpid;
		}
	}
	if (uid_valid(user) && (ports >= most || queue_bytes > (u64)READ_ONCE(user_queue_mib) << 20))
		return -EDQUOT;
	if (uid_valid(user) && ports + resting >= most)
		return -EAGAIN;
	return free < 0 && *when < U64_MAX ? -EAGAIN : free;
}

/*
 * What is on its way to a VPID's last owner must not reach the next one: answers to gets, above all, which carry data
 * and an address for it. So VPIDs rest, and whoever finds none that has rested waits.
 */
static int vpid_take(struct extoll_card *card, kuid_t user, u64 queue_bytes)
{
	u64 when, now;
	int vpid;

	for (;;) {
		spin_lock(&card->port_lock);
		vpid = vpid_try(card, user, queue_bytes, &when);
		if (vpid >= 0) {
			__set_bit(vpid, card->vpids);
			card->share[vpid] = (struct extoll_share){ .user = user, .queue_bytes = queue_bytes };
			card->ports++;
		}
		spin_unlock(&card->port_lock);
		if (vpid != -EAGAIN)
			return vpid;
		now = get_jiffies_64();
		if (schedule_timeout_interruptible(when > now ? when - now + 1 : 1) && signal_pending(current))
			return -EINTR;
		if (READ_ONCE(card->state) != EXTOLL_LIVE)
			return READ_ONCE(card->state) == EXTOLL_GONE ? -ENODEV : -EIO;
	}
}

static void vpid_give(struct extoll_card *card, u8 vpid)
{
	spin_lock(&card->port_lock);
	__clear_bit(vpid, card->vpids);
	card->share[vpid].given_back = get_jiffies_64();
	card->ports--;
	spin_unlock(&card->port_lock);
}

/* The card starts. Who had its VPIDs before, and what is on the way to them, nobody knows. */
void extoll_vpids_rest(struct extoll_card *card)
{
	u32 vpid;

	spin_lock(&card->port_lock);
	for (vpid = 0; vpid < USER_VPIDS; vpid++)
		card->share[vpid] = (struct extoll_share){ .user = INVALID_UID, .given_back = get_jiffies_64() };
	spin_unlock(&card->port_lock);
}

/* What an earlier owner may have left behind: counts, rejections, half a descriptor (spec 2.4). */
static void wcb_reset(struct extoll_card *card, u64 base, u8 vpid)
{
	extoll_rf_write(card, extoll_rf(base, EXTOLL_RF_RMA_WCB_STATE_STRIDE, vpid), 0);
}

static void locks_clear(struct extoll_card *card, u8 vpid)
{
	u32 i;

	for (i = 0; i < EXTOLL_LOCKS_PER_VPID; i++)
		WRITE_ONCE(card->locks[vpid + EXTOLL_VPIDS * i], 0);
}

static u64 vpid_register(u8 vpid)
{
	return extoll_rf(EXTOLL_RF_RMA_VPID_TABLE, EXTOLL_RF_RMA_VPID_TABLE_STRIDE, vpid);
}

static u64 velo_register(u64 base, u8 vpid)
{
	return extoll_rf(base, EXTOLL_RF_VELO_DESC_STRIDE, vpid);
}

/* What it sends has this id, and what it takes in; the mailbox is there. */
static void velo_protect(struct extoll_port *port, u32 protection)
{
	struct extoll_card *card = port->card;
	u64 node = EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE);

	extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_TX, port->vpid),
			extoll_velo_tx(node, port->vpid, protection));
	extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_RX, port->vpid), extoll_velo_rx(protection));
}

/* The queue first, then the VPID: nothing comes in before there is a place for it. */
static void port_start(struct extoll_port *port, u32 protection)
{
	struct extoll_card *card = port->card;
	u8 vpid = port->vpid;

	if (port->units & EXTOLL_UNIT_RMA) {
		locks_clear(card, vpid);
		wcb_reset(card, EXTOLL_RF_RMA_WCB_STATE, vpid);
		extoll_queue_start(card, &port->rma, vpid);
		extoll_rf_write(card, vpid_register(vpid), extoll_vpid_entry(protection));
	}
	if (port->units & EXTOLL_UNIT_VELO) {
		wcb_reset(card, EXTOLL_RF_VELO_WCB_STATE, vpid);
		extoll_queue_start(card, &port->velo, vpid);
		velo_protect(port, protection);
	}
}

/* A mailbox that fills up holds the network back: make room until nothing comes any more (spec 7). */
static void velo_stop(struct extoll_port *port)
{
	struct extoll_card *card = port->card;
	u64 wp = extoll_rf(port->velo.regs->wp, EXTOLL_RF_BQ_STRIDE, port->vpid);
	u64 rp = extoll_rf(port->velo.regs->rp, EXTOLL_RF_BQ_RP_STRIDE, port->vpid);
	u32 before = ~0u, now, tries;

	extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_RX, port->vpid), 0);
	for (tries = 0; tries < 1000 && READ_ONCE(card->state) == EXTOLL_LIVE; tries++) {
		now = extoll_rf_read(card, wp) >> EXTOLL_BQ_LWP_SHIFT;
		if (now == before)
			break;
		extoll_rf_write(card, rp, extoll_bq_rp(now, 0));
		before = now;
		usleep_range(10, 50);
	}
	extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_TX, port->vpid), 0);
}

/*
 * Nothing new for the VPID comes in, then what came in before is over (the flush says so), then no address of ours
 * is left in the card, then the memory goes.
 */
static void port_stop(struct extoll_port *port)
{
	struct extoll_card *card = port->card;

	if (port->units & EXTOLL_UNIT_RMA)
		extoll_rf_write(card, vpid_register(port->vpid), 0);
	if (port->units & EXTOLL_UNIT_VELO)
		velo_stop(port);
	extoll_regions_drop(port);
	extoll_atu_quiesce(card, port->vpid);
	if (port->units & EXTOLL_UNIT_RMA)
		extoll_queue_stop(card, &port->rma, port->vpid);
	if (port->units & EXTOLL_UNIT_VELO)
		extoll_queue_stop(card, &port->velo, port->vpid);
}

/* Frees what the port holds in the card and in memory; the second call does nothing. */
void extoll_port_kill(struct extoll_port *port)
{
	if (port->dead)
		return;
	port->dead = true;
	port_stop(port);
	extoll_queue_free(port->card, &port->rma);
	extoll_queue_free(port->card, &port->velo);
	vpid_give(port->card, port->vpid);
}

static int port_shape(const struct extoll_port_open *arg, struct port_shape *shape)
{
	*shape = (struct port_shape){};
	if (!arg->units || arg->units & ~(EXTOLL_UNIT_RMA | EXTOLL_UNIT_VELO) || arg->flags)
		return -EINVAL;
	if (arg->units & EXTOLL_UNIT_RMA) {
		shape->rma = arg->queue_bytes ?: DEFAULT_QUEUE_BYTES;
		shape->rma_segment = arg->segment_bytes ?: DEFAULT_SEGMENT_BYTES;
		if (!extoll_queue_shape_ok(shape->rma, shape->rma_segment))
			return -EINVAL;
	}
	if (arg->units & EXTOLL_UNIT_VELO) {
		shape->velo = arg->mailbox_bytes ?: DEFAULT_QUEUE_BYTES;
		shape->velo_segment = arg->mailbox_segment_bytes ?: DEFAULT_SEGMENT_BYTES;
		if (!extoll_queue_shape_ok(shape->velo, shape->velo_segment))
			return -EINVAL;
	}
	return 0;
}

static int port_queues(struct extoll_port *port, const struct port_shape *shape)
{
	struct extoll_card *card = port->card;
	int err = 0;

	if (shape->rma)
		err = extoll_queue_alloc(card, &port->rma, &extoll_bq_rma, sizeof(struct extoll_noti),
					 shape->rma, shape->rma_segment);
	if (!err && shape->velo)
		err = extoll_queue_alloc(card, &port->velo, &extoll_bq_velo, EXTOLL_VELO_WCB_BYTES,
					 shape->velo, shape->velo_segment);
	return err;
}

/* Ports can be opened. */
static int network_up(struct extoll_card *card)
{
	u64 state = extoll_rf_read(card, EXTOLL_RF_INFO_NETWORK_STATE);
	int err = extoll_card_there(card, state);

	if (!err && state != EXTOLL_NETWORK_CONFIGURED)
		err = -EAGAIN;
	return err;
}

/* A port with its queues, of which the card does not know yet. The limits of its user come before memory for it. */
static struct extoll_port *port_new(const struct extoll_file *file, u32 units, const struct port_shape *shape)
{
	struct extoll_card *card = file->card;
	struct extoll_port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);
	int err;

	if (!port)
		return ERR_PTR(-ENOMEM);
	port->card = card;
	port->units = units;
	port->options = units & EXTOLL_UNIT_RMA ? port_options(file->privileged) : 0;
	INIT_LIST_HEAD(&port->regions);
	err = vpid_take(card, file->user, (u64)shape->rma + shape->velo);
	if (err < 0)
		goto err_free;
	port->vpid = err;
	err = port_queues(port, shape);
	/* Not before it counts as a port: the node may have got another id meanwhile, which it cannot any more. */
	if (!err)
		err = network_up(card);
	if (!err)
		return port;
	extoll_queue_free(card, &port->rma);
	extoll_queue_free(card, &port->velo);
	vpid_give(card, port->vpid);
err_free:
	kfree(port);
	return ERR_PTR(err);
}

struct extoll_port *extoll_port_open(const struct extoll_file *file, struct extoll_port_open *arg)
{
	struct extoll_card *card = file->card;
	struct extoll_port *port;
	struct port_shape shape;
	int err;

	err = port_shape(arg, &shape);
	if (!err && file->protection < 0)
		err = file->protection;
	if (err)
		return ERR_PTR(err);
	err = network_up(card);
	if (err)
		return ERR_PTR(err);
	port = port_new(file, arg->units, &shape);
	if (IS_ERR(port))
		return port;
	port_start(port, file->protection);
	extoll_card_watch(card);

	arg->node = EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE);
	arg->vpid = port->vpid;
	arg->options = port->options;
	arg->slot_bytes = port->velo.slot_bytes;
	arg->queue_bytes_out = extoll_queue_bytes(&port->rma);
	arg->mailbox_bytes_out = extoll_queue_bytes(&port->velo);
	return port;
}

/* The members of the RMA unit's table that the caller names. */
static u64 rights_entry(u64 entry, const struct extoll_port_rights *arg)
{
	if (arg->mask & EXTOLL_RIGHT_PROTECTION) {
		entry &= ~EXTOLL_PUT(~0ull, EXTOLL_VPID_PROTECTION);
		entry |= EXTOLL_PUT(arg->protection, EXTOLL_VPID_PROTECTION);
	}
	if (arg->mask & EXTOLL_RIGHT_TRAFFIC_CLASSES) {
		entry &= ~EXTOLL_PUT(~0ull, EXTOLL_VPID_TCS);
		entry |= EXTOLL_PUT(arg->traffic_classes, EXTOLL_VPID_TCS);
	}
	if (arg->mask & EXTOLL_RIGHT_EXCELLERATE) {
		entry &= ~EXTOLL_PUT(~0ull, EXTOLL_VPID_EXCELL);
		entry |= EXTOLL_PUT(arg->excellerate, EXTOLL_VPID_EXCELL);
	}
	return entry;
}

int extoll_port_rights(struct extoll_port *port, const struct extoll_port_rights *arg)
{
	u64 entry;
	int err;

	if (arg->mask & ~(EXTOLL_RIGHT_PROTECTION | EXTOLL_RIGHT_TRAFFIC_CLASSES | EXTOLL_RIGHT_EXCELLERATE) ||
	    arg->protection > 0xffff || arg->traffic_classes > 0xff || arg->excellerate > 1)
		return -EINVAL;
	if (!(port->units & EXTOLL_UNIT_RMA) && arg->mask & ~EXTOLL_RIGHT_PROTECTION)
		return -ENXIO;
	entry = extoll_rf_read(port->card, vpid_register(port->vpid));
	err = extoll_card_there(port->card, entry);
	if (err)
		return err;
	if (port->units & EXTOLL_UNIT_RMA)
		extoll_rf_write(port->card, vpid_register(port->vpid), rights_entry(entry, arg));
	if (port->units & EXTOLL_UNIT_VELO && arg->mask & EXTOLL_RIGHT_PROTECTION)
		velo_protect(port, arg->protection);
	return 0;
}
