// SPDX-License-Identifier: GPL-2.0-only
/* Ports: VPIDs with their queues, from opening to the last trace (spec 2, 3, 7, 8.3, 9.2). */

#include <linux/delay.h>
#include <linux/slab.h>

#include "extoll.h"

#define DEFAULT_QUEUE_BYTES	EXTOLL_BQ_QUEUE_BYTES
#define DEFAULT_SEGMENT_BYTES	EXTOLL_BQ_SEGMENT_BYTES
#define USER_VPIDS		(EXTOLL_VPID_LAST_USER + 1)

/* Option pages for everybody: translated addresses, any traffic class, with or without interrupts (spec 2.1). */
static u32 port_options(bool privileged)
{
	u32 options = 0, option;

	for (option = 0; option < EXTOLL_PAGE_OPTIONS; option++)
		if (privileged || (option & EXTOLL_OPTION_TE && !(option & EXTOLL_OPTION_RRA)))
			options |= BIT(option);
	return options;
}

static int vpid_take(struct extoll_card *card)
{
	int vpid;

	spin_lock(&card->port_lock);
	vpid = find_first_zero_bit(card->vpids, USER_VPIDS);
	if (vpid < USER_VPIDS) {
		__set_bit(vpid, card->vpids);
		card->ports++;
	} else {
		vpid = -ENOSPC;
	}
	spin_unlock(&card->port_lock);
	return vpid;
}

static void vpid_give(struct extoll_card *card, u8 vpid)
{
	spin_lock(&card->port_lock);
	__clear_bit(vpid, card->vpids);
	card->ports--;
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

/* The queue first, then the VPID: nothing comes in before there is a place for it. */
static void port_start(struct extoll_port *port)
{
	struct extoll_card *card = port->card;
	u8 vpid = port->vpid;

	if (port->units & EXTOLL_UNIT_RMA) {
		locks_clear(card, vpid);
		wcb_reset(card, EXTOLL_RF_RMA_WCB_STATE, vpid);
		extoll_queue_start(card, &port->rma, vpid);
		extoll_rf_write(card, vpid_register(vpid), extoll_vpid_entry(0));
	}
	if (port->units & EXTOLL_UNIT_VELO) {
		u64 node = EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE);

		wcb_reset(card, EXTOLL_RF_VELO_WCB_STATE, vpid);
		extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_TX, vpid),
				EXTOLL_PUT(node, EXTOLL_VELO_TX_NODE) |
				EXTOLL_PUT(vpid, EXTOLL_VELO_TX_VPID));
		extoll_queue_start(card, &port->velo, vpid);
		extoll_rf_write(card, velo_register(EXTOLL_RF_VELO_RX, vpid),
				EXTOLL_PUT(1, EXTOLL_VELO_RX_MAILBOX));
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

static int port_queues(struct extoll_port *port, struct extoll_port_open *arg)
{
	struct extoll_card *card = port->card;
	int err = 0;

	if (arg->units & EXTOLL_UNIT_RMA)
		err = extoll_queue_alloc(card, &port->rma, &extoll_bq_rma, sizeof(struct extoll_noti),
					 arg->queue_bytes ?: DEFAULT_QUEUE_BYTES,
					 arg->segment_bytes ?: DEFAULT_SEGMENT_BYTES);
	if (!err && arg->units & EXTOLL_UNIT_VELO)
		err = extoll_queue_alloc(card, &port->velo, &extoll_bq_velo, EXTOLL_VELO_WCB_BYTES,
					 arg->mailbox_bytes ?: DEFAULT_QUEUE_BYTES,
					 arg->mailbox_segment_bytes ?: DEFAULT_SEGMENT_BYTES);
	return err;
}

struct extoll_port *extoll_port_open(struct extoll_card *card, bool privileged,
				     struct extoll_port_open *arg)
{
	struct extoll_port *port;
	u64 state;
	int err;

	if (!arg->units || arg->units & ~(EXTOLL_UNIT_RMA | EXTOLL_UNIT_VELO) || arg->flags)
		return ERR_PTR(-EINVAL);
	state = extoll_rf_read(card, EXTOLL_RF_INFO_NETWORK_STATE);
	err = extoll_card_there(card, state);
	if (err)
		return ERR_PTR(err);
	if (state != EXTOLL_NETWORK_CONFIGURED)
		return ERR_PTR(-EAGAIN);
	port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);
	if (!port)
		return ERR_PTR(-ENOMEM);
	port->card = card;
	port->units = arg->units;
	port->options = arg->units & EXTOLL_UNIT_RMA ? port_options(privileged) : 0;
	INIT_LIST_HEAD(&port->regions);
	err = port_queues(port, arg);
	if (err)
		goto err;
	err = vpid_take(card);
	if (err < 0)
		goto err;
	port->vpid = err;
	port_start(port);
	extoll_card_watch(card);

	arg->node = EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE);
	arg->vpid = port->vpid;
	arg->options = port->options;
	arg->slot_bytes = port->velo.slot_bytes;
	arg->queue_bytes_out = extoll_queue_bytes(&port->rma);
	arg->mailbox_bytes_out = extoll_queue_bytes(&port->velo);
	return port;
err:
	extoll_queue_free(card, &port->rma);
	extoll_queue_free(card, &port->velo);
	kfree(port);
	return ERR_PTR(err);
}

int extoll_port_rights(struct extoll_port *port, const struct extoll_port_rights *arg)
{
	u64 entry;
	int err;

	if (!(port->units & EXTOLL_UNIT_RMA))
		return -ENXIO;
	if (arg->mask & ~(EXTOLL_RIGHT_PROTECTION | EXTOLL_RIGHT_TRAFFIC_CLASSES | EXTOLL_RIGHT_EXCELLERATE) ||
	    arg->protection > 0xffff || arg->traffic_classes > 0xff || arg->excellerate > 1)
		return -EINVAL;
	entry = extoll_rf_read(port->card, vpid_register(port->vpid));
	err = extoll_card_there(port->card, entry);
	if (err)
		return err;
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
	extoll_rf_write(port->card, vpid_register(port->vpid), entry);
	return 0;
}
