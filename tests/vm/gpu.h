/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For tests of GPU memory: pinned and mapped by gpumap, registered, moved by the card, taken back by the GPU. */
#ifndef VM_GPU_H
#define VM_GPU_H

#include <dirent.h>

#include "gpumap/ioctl.h"
#include "gpumap/stub.h"
#include "port.h"

#define GPU_BASE GPUSTUB_BASE
#define BYTES (4ul << 16)

/* A pin of BYTES at `address`, mapped. */
static inline unsigned char *pinned(int fd, uint64_t address, struct gpumap_pin *pin)
{
	void *at;

	*pin = (struct gpumap_pin){ .gpu_address = address, .length = BYTES };
	CHECK(ioctl(fd, GPUMAP_IOC_PIN, pin) == 0);
	at = map(fd, pin->offset, BYTES);
	CHECK(at != MAP_FAILED);
	return at;
}

static inline int mmio(struct port *port, void *at, size_t length, uint64_t *nla)
{
	struct extoll_register arg = {
		.kind = EXTOLL_REGION_MMIO, .access = 3, .address = (uintptr_t)at, .length = length,
	};
	int err = ioctl(port->fd, EXTOLL_IOC_REGISTER, &arg);

	*nla = arg.nla;
	return err;
}

/* Unregisters; the state that the driver tells. */
static inline uint32_t end(struct port *port, uint64_t nla)
{
	struct extoll_unregister arg = { .nla = nla };

	CHECK(ioctl(port->fd, EXTOLL_IOC_UNREGISTER, &arg) == 0);
	return arg.state;
}

/* Copies by the card; whether it met an error. */
static inline int copy(struct port *port, uint64_t from, uint64_t to, uint32_t size)
{
	struct extoll_noti noti;
	int error = 0;

	post(port, EXTOLL_OPTION_TE, extoll_desc_put(0, port->open.node, port->open.vpid,
						      EXTOLL_SPEC_REQUESTER | EXTOLL_SPEC_COMPLETER, 0, from, to, size));
	/* What comes behind it says that it is over, however it went. */
	post(port, EXTOLL_OPTION_TE, extoll_desc_notification_put(port->open.node, port->open.vpid,
								  EXTOLL_SPEC_COMPLETER, 0, 1, 0xfeed));
	do {
		noti = take(port, PATIENCE_MS);
		CHECK(noti.word1 != 0);
		error |= extoll_noti_error(noti.word1) != 0;
	} while (noti.word0 != 0xfeed);
	return error;
}

/* The GPU's folder in sysfs. */
static inline const char *gpu_folder(void)
{
	static char path[320];
	DIR *folder = opendir("/sys/bus/pci/drivers/gpustub");
	struct dirent *entry;

	CHECK(folder);
	while ((entry = readdir(folder)))
		if (!strncmp(entry->d_name, "0000:", 5))
			snprintf(path, sizeof(path), "/sys/bus/pci/drivers/gpustub/%s", entry->d_name);
	closedir(folder);
	CHECK(path[0]);
	return path;
}

/* The GPU takes back the memory around `address`. */
static inline void free_on_gpu(uint64_t address)
{
	char path[336];
	FILE *file;

	snprintf(path, sizeof(path), "%s/free", gpu_folder());
	file = fopen(path, "w");
	CHECK(file);
	fprintf(file, "%#llx", (unsigned long long)address);
	CHECK(fclose(file) == 0);
}

#endif /* VM_GPU_H */
