/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls that fuzz.c makes: the errors that are documented for them, and their arguments. */
#ifndef VM_FUZZ_CALLS_H
#define VM_FUZZ_CALLS_H

#include "fuzz.h"

struct call {
	unsigned int cmd;
	size_t size;
	int errors[12];	/* documented, besides those of every call */
};

static const struct call calls[] = {
	{ EXTOLL_IOC_INFO, sizeof(struct extoll_info), { 0 } },
	{ EXTOLL_IOC_PORT_OPEN, sizeof(struct extoll_port_open), { EACCES, EBUSY, ENOSPC, EDQUOT, EAGAIN, ENOMEM, EINTR } },
	{ EXTOLL_IOC_REGISTER, sizeof(struct extoll_register),
	  { ENXIO, EPERM, ENOMEM, ENOSPC, EBADF, EACCES, EOPNOTSUPP, EAGAIN, EINTR, ENODEV, EREMOTEIO } },
	{ EXTOLL_IOC_UNREGISTER, sizeof(struct extoll_unregister), { ENXIO, ENOENT } },
	{ EXTOLL_IOC_WAIT, sizeof(struct extoll_wait), { ENXIO, ETIMEDOUT, EINTR } },
	{ EXTOLL_IOC_PORT_RIGHTS, sizeof(struct extoll_port_rights), { ENXIO, EPERM } },
	{ EXTOLL_IOC_RF_ACCESS, sizeof(struct extoll_rf_access), { EPERM, EIO } },
	{ EXTOLL_IOC_WINDOW_OPEN, sizeof(struct extoll_window_open), { EBUSY, EPERM, ENOMEM, EAGAIN, EINTR, EREMOTEIO } },
	{ EXTOLL_IOC_WINDOW_CLOSE, sizeof(struct extoll_window_close), { EBUSY, ENXIO } },
	{ EXTOLL_IOC_BUFFER_ALLOC, sizeof(struct extoll_buffer_alloc), { EPERM, ENOSPC, ENOMEM } },
	{ EXTOLL_IOC_DROP_RIGHTS, sizeof(struct extoll_drop_rights), { EBUSY } },
	{ GPUMAP_IOC_PIN, sizeof(struct gpumap_pin), { ENOMEM, ENOSPC } },
	{ GPUMAP_IOC_UNPIN, sizeof(struct gpumap_unpin), { ENOENT } },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int documented(const struct call *call, int error)
{
	static const int always[] = { ENOTTY, EINVAL, E2BIG, EFAULT, EBADF };

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (error == always[i])
			return 1;
	for (size_t i = 0; call->errors[i]; i++)
		if (error == call->errors[i])
			return 1;
	return 0;
}

static void fill(struct fuzz *f, size_t which, void *arg)
{
	switch (calls[which].cmd) {
	case EXTOLL_IOC_PORT_OPEN:
		fill_port_open(f, arg);
		break;
	case EXTOLL_IOC_REGISTER:
		fill_register(f, arg);
		break;
	case EXTOLL_IOC_UNREGISTER:
		*(struct extoll_unregister *)arg =
			(struct extoll_unregister){ any_nla(f), (uint32_t)maybe(f, 0), 0 };
		break;
	case EXTOLL_IOC_WAIT:
		fill_wait(f, arg);
		break;
	case EXTOLL_IOC_PORT_RIGHTS:
		*(struct extoll_port_rights *)arg = (struct extoll_port_rights){
			(uint32_t)maybe(f, below(f, 8)), (uint32_t)maybe(f, 0), (uint32_t)maybe(f, 0xfa),
			(uint32_t)maybe(f, below(f, 2)) };
		break;
	case EXTOLL_IOC_RF_ACCESS:
		fill_rf(f, arg);
		break;
	case EXTOLL_IOC_WINDOW_OPEN:
		fill_window(f, arg);
		break;
	case EXTOLL_IOC_WINDOW_CLOSE:
		*(struct extoll_window_close *)arg =
			(struct extoll_window_close){ (uint32_t)maybe(f, 0), (uint32_t)maybe(f, 0) };
		break;
	case EXTOLL_IOC_BUFFER_ALLOC:
		((struct extoll_buffer_alloc *)arg)->bytes = maybe(f, 1 + below(f, 20000));
		break;
	case EXTOLL_IOC_DROP_RIGHTS:
		*(struct extoll_drop_rights *)arg =
			(struct extoll_drop_rights){ (uint32_t)maybe(f, 0), (uint32_t)maybe(f, 0) };
		break;
	case GPUMAP_IOC_PIN:
		*(struct gpumap_pin *)arg = (struct gpumap_pin){
			maybe(f, GPUSTUB_BASE + below(f, 64) * GPUMAP_PAGE), maybe(f, (1 + below(f, 4)) * GPUMAP_PAGE), 0 };
		break;
	case GPUMAP_IOC_UNPIN:
		((struct gpumap_unpin *)arg)->offset = maybe(f, f->shared->pin[below(f, NLAS)]);
		break;
	}
}

/* What later calls may refer to. */
static void learn(struct shared *shared, size_t which, const void *arg, uint32_t slot)
{
	switch (calls[which].cmd) {
	case EXTOLL_IOC_REGISTER:
		shared->nla[slot] = ((const struct extoll_register *)arg)->nla;
		break;
	case EXTOLL_IOC_PORT_OPEN:
		shared->vpid = ((const struct extoll_port_open *)arg)->vpid;
		break;
	case GPUMAP_IOC_PIN:
		shared->pin[slot] = ((const struct gpumap_pin *)arg)->offset;
		break;
	}
}

#endif /* VM_FUZZ_CALLS_H */
