/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of the system notification queue: registers of the card, and what the driver has handled. */
#ifndef VM_SYSTEM_H
#define VM_SYSTEM_H

#include "port.h"

#define SECOND	1000000000ull

static inline struct extoll_desc note(const struct port *port, uint64_t value)
{
	return extoll_desc_notification_put(port->open.node, port->open.vpid, EXTOLL_SPEC_COMPLETER, 0, 1, value);
}

static inline uint64_t rf(struct port *port, uint64_t offset, uint64_t value, int write)
{
	struct extoll_rf_access arg = { .offset = offset, .value = value, .flags = write ? EXTOLL_RF_WRITE : 0 };

	CHECK(ioctl(port->fd, EXTOLL_IOC_RF_ACCESS, &arg) == 0);
	return arg.value;
}

/* System notifications of a trigger that the driver has handled. */
static inline long handled(int trigger)
{
	FILE *file = fopen("/sys/class/extoll/extoll0/notifications", "r");
	long count = 0, value;
	int which;

	CHECK(file);
	while (fscanf(file, "%d %ld", &which, &value) == 2)
		if (which == trigger)
			count = value;
	fclose(file);
	return count;
}

static inline void wakes(struct port *port)
{
	uint64_t begin = now_ns();

	post(port, EXTOLL_OPTION_TE | EXTOLL_OPTION_IRQ, note(port, 7));
	CHECK(port_wait(port, 0, PATIENCE_NS) == 0 && now_ns() - begin < PATIENCE_NS / 2);
	CHECK(take(port, PATIENCE_MS).word0 == 7);
}

#endif /* VM_SYSTEM_H */
