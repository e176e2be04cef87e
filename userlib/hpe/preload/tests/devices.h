/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory of a device in the MPI program of these tests: each value that moves tells its rank and place. */
#ifndef DEVICES_H
#define DEVICES_H

#include <mpi.h>
#include <stdio.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "rank %d, %s, line %d: %s\n", rank, __FILE__, __LINE__, #condition); \
		MPI_Abort(MPI_COMM_WORLD, 1); \
	} \
} while (0)

/* More than a pinned buffer, and no multiple of one. What stands for a message in parts is LETTER bytes long. */
enum { COUNT = 1300000 + 77, PARTS = 1000, SIDE = 512, LETTER = 1056 };

/* ggas_hpe.h's, found at run time. */
extern void *(*alloc)(int, size_t);
extern int (*copy)(void *, const void *, size_t);
extern void *(*take_pinned)(size_t *);
extern int (*return_pinned)(void *);
extern int rank, size, left, right;
extern int *a, *b, host[COUNT], back[COUNT];

/* What element `i` of a rank's is. */
int value(int of, int i);

/* Puts a rank's elements, and others, into memory of a device; whether it holds a rank's. They go through `host` and `back`. */
void fill(int *device, int of, int count);
void clear(int *device, int count);
int holds(int *device, int of, int count);

/* The elements of a message from rank 0. */
int counted(MPI_Status *status);

/* Bytes that are allocated here. */
size_t allocated(void);

/* The tests of promises.c. */
void pinned(void);
void orders(void);
void broadcasts(void);
void waits(void);
void overtaken(void);
void from_host(void);
void not_blocking(void);
void given_up(void);
/* Those of nonblocking.c, persistent.c, others.c. */
void begun(void);
void persistent(void);
void others(void);
/* `short_of`: 64 bytes of a device. */
void refused(int *short_of);

#endif
