// SPDX-License-Identifier: GPL-2.0-only
/* Sleeping until a queue holds something: by interrupt, and by looking from time to time. */

#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>

#include "extoll.h"

#define LOOK_EVERY_NS (NSEC_PER_MSEC)

static u64 rp_register(const struct extoll_queue *queue, u8 vpid)
{
	return extoll_rf(queue->regs->rp, EXTOLL_RF_BQ_RP_STRIDE, vpid);
}

/* Sleeps until the interrupt, or anything else that is worth a look. */
static int sleep_once(struct extoll_port *port, const struct extoll_queue *queue, u32 index, u32 seen, ktime_t most)
{
	struct extoll_card *card = port->card;

	return wait_event_interruptible_hrtimeout(card->wait[port->vpid],
						  READ_ONCE(card->interrupts[port->vpid]) != seen ||
						  extoll_queue_news(queue, index) ||
						  READ_ONCE(card->state) != EXTOLL_LIVE, most);
}

/*
 * The interrupt is armed before the queue is looked at again, so what arrives in between is seen or wakes. An
 * interrupt may belong to a notification that was consumed before; it disarms all the same, so each one is followed
 * by arming again.
 */
int extoll_port_wait(struct extoll_port *port, const struct extoll_wait *arg)
{
	const struct extoll_queue *queue = arg->unit == EXTOLL_UNIT_RMA ? &port->rma : &port->velo;
	ktime_t now = ktime_get(), end, most;
	u32 seen;
	int err;

	if ((arg->unit != EXTOLL_UNIT_RMA && arg->unit != EXTOLL_UNIT_VELO) ||
	    arg->flags & ~EXTOLL_WAIT_TIMER || arg->reserved)
		return -EINVAL;
	if (!(port->units & arg->unit))
		return -ENXIO;
	if (arg->index >= extoll_queue_bytes(queue) / queue->slot_bytes)
		return -EINVAL;
	end = arg->timeout_ns > KTIME_MAX ? KTIME_MAX : ktime_add_safe(now, (s64)arg->timeout_ns);
	for (;;) {
		seen = READ_ONCE(port->card->interrupts[port->vpid]);
		extoll_rf_write(port->card, rp_register(queue, port->vpid), extoll_bq_rp(arg->index, 1));
		if (extoll_queue_news(queue, arg->index))
			return 0;
		if (READ_ONCE(port->card->state) != EXTOLL_LIVE)
			return READ_ONCE(port->card->state) == EXTOLL_GONE ? -ENODEV : -EIO;
		now = ktime_get();
		if (ktime_compare(now, end) >= 0)
			return -ETIMEDOUT;
		if (signal_pending(current))	/* interrupt after interrupt must not keep a killed process */
			return -EINTR;
		most = ktime_sub(end, now);
		if (arg->flags & EXTOLL_WAIT_TIMER)
			most = min_t(ktime_t, most, LOOK_EVERY_NS);
		err = sleep_once(port, queue, arg->index, seen, most);
		if (err == -ERESTARTSYS)
			return -EINTR;	/* the time that is left is the caller's to know */
	}
}

/*
 * Arms the interrupt, then looks. User space maps and writes the register too; nothing but an index is taken from it,
 * and an armed one is left alone.
 */
static bool poll_queue(struct extoll_port *port, const struct extoll_queue *queue)
{
	u64 rp = extoll_rf_read(port->card, rp_register(queue, port->vpid));

	if (!EXTOLL_GET(rp, EXTOLL_BQ_REARM))
		extoll_rf_write(port->card, rp_register(queue, port->vpid), rp | EXTOLL_PUT(1, EXTOLL_BQ_REARM));
	return extoll_queue_news(queue, (u32)EXTOLL_GET(rp, EXTOLL_BQ_RP));
}

__poll_t extoll_poll(struct file *filp, struct poll_table_struct *table)
{
	struct extoll_file *file = filp->private_data;
	struct extoll_port *port = extoll_file_port(file);
	__poll_t events = 0;

	if (!port)
		return EPOLLERR;
	poll_wait(filp, &port->card->wait[port->vpid], table);
	if (extoll_enter(port->card))
		return EPOLLERR | EPOLLHUP;
	if (port->dead)
		events = EPOLLERR | EPOLLHUP;
	else if ((port->units & EXTOLL_UNIT_RMA && poll_queue(port, &port->rma)) ||
		 (port->units & EXTOLL_UNIT_VELO && poll_queue(port, &port->velo)))
		events = EPOLLIN | EPOLLRDNORM;
	extoll_leave(port->card);
	return events;
}
