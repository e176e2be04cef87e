/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernel that writes between segments in GPU memory (gaspi.cu); userlib/gaspi fills them in. */
#ifndef GGAS_GASPI_ARGS_H
#define GGAS_GASPI_ARGS_H

#include <stdint.h>

/* A write by stores, and behind it a word. With a word the grid is one block. */
struct gaspi_store {
	uint64_t to;
	uint64_t from;
	uint64_t bytes;
	uint64_t word;		/* address of 8 bytes; 0: none */
	uint64_t value;
};

#endif /* GGAS_GASPI_ARGS_H */
