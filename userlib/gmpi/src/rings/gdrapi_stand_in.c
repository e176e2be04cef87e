/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A stand-in for gdrcopy's library, for the test of the calls to it: kernels' memory on the CPU is mapped where it lies. Ends the process
 * where a call does not follow those that it needs. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 65536

struct gdr {
	unsigned long pinned;
	size_t bytes;
	void *mapped;
};

void *gdr_open(void)
{
	return calloc(1, sizeof(struct gdr));
}

int gdr_close(struct gdr *gdr)
{
	if (gdr->pinned || gdr->mapped)
		abort();
	free(gdr);
	return 0;
}

int gdr_pin_buffer(struct gdr *gdr, unsigned long address, size_t bytes, uint64_t token, uint32_t space, unsigned long *handle)
{
	if (address % PAGE || bytes % PAGE || token || space || gdr->pinned)
		return EINVAL;
	gdr->pinned = *handle = address;
	gdr->bytes = bytes;
	return 0;
}

int gdr_unpin_buffer(struct gdr *gdr, unsigned long handle)
{
	if (gdr->pinned != handle || gdr->mapped)
		abort();
	gdr->pinned = 0;
	return 0;
}

int gdr_map(struct gdr *gdr, unsigned long handle, void **at, size_t bytes)
{
	if (gdr->pinned != handle || bytes > gdr->bytes)
		return EINVAL;
	*at = gdr->mapped = (void *)handle;
	return 0;
}

int gdr_unmap(struct gdr *gdr, unsigned long handle, void *at, size_t bytes)
{
	if (gdr->pinned != handle || gdr->mapped != at || bytes > gdr->bytes)
		abort();
	gdr->mapped = NULL;
	return 0;
}

int gdr_copy_from_mapping(unsigned long handle, void *to, const void *from, size_t bytes)
{
	if ((uintptr_t)from < handle)
		abort();
	memcpy(to, from, bytes);
	return 0;
}

int gdr_copy_to_mapping(unsigned long handle, void *to, const void *from, size_t bytes)
{
	if ((uintptr_t)to < handle)
		abort();
	memcpy(to, from, bytes);
	return 0;
}
