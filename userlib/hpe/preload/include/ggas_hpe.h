/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of devices for C programs, by pointers that file calls take too.
 *
 * libggas_hpe_preload.so has these functions, and its own read, write, pread,
 * pwrite, readv, writev, preadv, pwritev, fread and fwrite: link it before the C
 * library, or preload it into a program that has pointers of devices from
 * elsewhere (CUDA's).
 * GGAS_HPE_DEVICES says how many devices of the CPU executor there are, 1 at
 * first; GPUs come behind them. GGAS_HPE_DIRECT_STORAGE=1 has long transfers
 * between files and GPUs go by libcufile (GPUDirect Storage), where it is there.
 */
#ifndef GGAS_HPE_H
#define GGAS_HPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How many devices there are; -1 and errno if they cannot be had (EINVAL: GGAS_HPE_DEVICES is no number; ENODEV: there is
 * none, or more than 31; ENOMEM: a limit of address space; ECHILD: forked while a thread of its parent made them).
 */
int ggas_hpe_devices(void);

/*
 * What the last call of this thread that failed said, here or on a file: a text that tells what to change, until the thread's next call
 * that fails; "" before one did.
 */
const char *ggas_hpe_error(void);

/* Zeroed memory of device 0, 1, ...; NULL and errno (ENODEV, ENOMEM). */
void *ggas_hpe_alloc(int device, size_t bytes);

/*
 * Zeroed memory in one range, equal parts of which lie on all GPUs, in order, or where there is none on all
 * devices of the executor. Parts are rounded up to what is mapped at once (4 KiB, on GPUs 2 MiB), so that
 * the last ones may have less, or nothing. All calls here and file calls take it as they take other
 * memory, across parts, too. NULL and errno, as above (EINVAL: GPUs that do not reach each other).
 */
void *ggas_hpe_alloc_spread(size_t bytes);

/* The device, 0, 1, ..., that has the byte at a pointer; -1 for memory of the host. */
int ggas_hpe_owner(const void *pointer);

/*
 * Where kernels find what the host calls `pointer`: the same on GPUs, another address on devices of the
 * executor. NULL and errno (EFAULT: nobody's, or freed).
 */
void *ggas_hpe_device_address(const void *pointer);

/*
 * Two pinned buffers side by side, each of *bytes, from which copy engines copy; NULL without errno's
 * change where the runtime's bound is reached, or would be: the last two are left to copies, which wait
 * for such. Give them back: 0, or -1 and EINVAL. In a child ECHILD, as with all calls that do more than look at a pointer.
 */
void *ggas_hpe_take_pinned(size_t *bytes);
int ggas_hpe_return_pinned(void *buffers);

/* 0, or -1 and errno (EINVAL: not where an allocation begins). */
int ggas_hpe_free(void *start);

/*
 * Copies between any two memories: 0, or -1 and errno (EFAULT: nobody's, freed, or across
 * objects; EINVAL: they overlap; ECHILD: of the parent of this process).
 */
int ggas_hpe_copy(void *dst, const void *src, size_t bytes);

/* 1 if all bytes are memory of one object of a device, or where that cannot be told (CUDA's), else 0. */
int ggas_hpe_holds(const void *pointer, size_t bytes);

/* 1 for a pointer into memory of a device (of ggas_hpe_alloc, or CUDA's), else 0. */
int ggas_hpe_is_device(const void *pointer);

#ifdef __cplusplus
}
#endif

#endif
