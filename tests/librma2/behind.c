/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Others that watch for memory to go away, as transports do, are behind librma2 in the process's search order, and see
 * what it hands on. With -DBEHIND this is such a library; the program is linked with librma2 and then with it.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#ifdef __cplusplus
#define EXTERN extern "C"
#else
#define EXTERN extern
#endif

#ifdef BEHIND

int behind_seen;

EXTERN int munmap(void *start, size_t length)
{
	behind_seen++;
	return (int)syscall(SYS_munmap, start, length);
}

EXTERN int madvise(void *start, size_t length, int advice)
{
	behind_seen++;
	return (int)syscall(SYS_madvise, start, length, advice);
}

#else

EXTERN __attribute__((weak)) int behind_seen;

int main(void)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int *seen = &behind_seen, before = seen ? *seen : 0;

	CHECK(memory != MAP_FAILED && madvise(memory, PAGE, MADV_DONTNEED) == 0 && munmap(memory, PAGE) == 0);
	/* Run by itself, there is nobody behind. */
	CHECK(!seen || *seen == before + 2);
	return 0;
}

#endif
