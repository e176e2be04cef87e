/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Long messages from devices' memory in parts, so that copies and the MPI library work at a time.
 *
 * What the sender's message consists of is a *letter*: how many bytes there are, and the tag of the parts on a communicator of this
 * library's own. Who receives a letter answers there, and the parts follow, through two pinned buffers on each side. MPI promises that
 * a sender goes on once a receive is posted, though the receiver waits elsewhere; so a sender whose letter a receive has, and whom nobody
 * answers for a while, puts all parts into memory of the host, hands them to MPI, and returns.
 */
#ifndef GGAS_HPE_MPI_PIPE_H
#define GGAS_HPE_MPI_PIPE_H

#include <stdint.h>

#include "stage.h"

/*
 * Bytes of a letter's message: whole elements of whatever basic type is received (a multiple of 96), and a length that
 * programs seldom send: what else is as long is taken out by probes.
 */
enum { LETTER = 1056 };

struct letter {
	uint64_t mark[2];
	uint64_t bytes;
	uint64_t part;	/* bytes of all parts but the last */
	int32_t source;	/* rank in MPI_COMM_WORLD */
	int32_t tag;	/* of the parts; the answer's is one more */
};

/* A message on its way out. */
struct out;

/* Bytes of a part, or 0: messages go whole (without GGAS_HPE_MPI_PART, or no memory). */
size_t hpe_mpi_part(void);

/* Whether messages from memory of the host go in parts, too (GGAS_HPE_MPI_PART_HOST=1). */
int hpe_mpi_splits_host(void);

/* Whether `bytes` bytes make several parts. */
int hpe_mpi_is_long(size_t bytes);

/* The letter in a message of LETTER bytes, if it is one. */
int hpe_mpi_read_letter(const void *message, struct letter *letter);

/* Where the bytes are, and whether the caller wants to go on at once. */
enum out_kind { OUT_DEVICE = 0, OUT_HOST = 1, OUT_NOW = 2 };

/*
 * Begins a message of `bytes` bytes, which does not end before its receive begins. NULL where it has to go whole: to a
 * process of another world, without memory, or with as many messages under way as there are tags for parts.
 */
struct out *hpe_mpi_out(const void *from, size_t bytes, int dest, int tag, MPI_Comm comm, enum out_kind kind);

/*
 * Of one with OUT_NOW: copies all of it, and hands each part to MPI at once. `request` is complete when a receive has
 * begun; nobody need move the message on. Returns its error.
 */
int hpe_mpi_out_now(struct out *out, MPI_Request *request);

/*
 * Moves a message on; true once the caller may use the buffer. Then end it, which returns its error.
 */
int hpe_mpi_out_moves(struct out *out);
int hpe_mpi_out_end(struct out *out);

/* Moves it to its end. */
int hpe_mpi_out_all(struct out *out);

/* Lets go what was left to MPI in memory of the host and is taken; with `all` waits for the rest. */
void hpe_mpi_reap(int all);

/*
 * If what came by `status` into a stage's buffer is a letter: receives the parts to where they belong, tells so in
 * the status, and moves `out` (or NULL) on meanwhile. Returns MPI_SUCCESS or the error.
 */
int hpe_mpi_in(struct stage *stage, MPI_Status *status, struct out *out);

/*
 * Two buffers for parts of `bytes`: pinned ones, as long as there are some and they are large enough. False without memory.
 */
int hpe_mpi_take_buffers(char *buffers[2], char **pinned, void **memory, size_t bytes);
void hpe_mpi_return_buffers(char *pinned, void *memory);

/* This library's communicators: all of MPI_COMM_WORLD, and this process alone. */
MPI_Comm hpe_mpi_own(void);
MPI_Comm hpe_mpi_self(void);

#endif
