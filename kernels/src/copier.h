/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The copier: a small resident kernel that moves bytes for the model of the
 * card, between memory of its GPU, memory of peer GPUs and mapped host memory
 * (design section 3, "Memory"). userlib/gpu/src/copier.rs is its other side.
 *
 * Commands lie in rings in host memory. An entry is four units of 16 bytes,
 * each written and read as a whole and each with the entry's tag, so that one
 * read of the ring sees either all of a command or knows that it does not.
 * Commands of a ring start in order and end in any order.
 */
#ifndef GGAS_COPIER_H
#define GGAS_COPIER_H

#include <stdint.h>

#define GGAS_COPIER_ENTRIES	1024	/* of a ring */
#define GGAS_COPIER_BLOCK	512	/* threads of a block */
#define GGAS_COPIER_POLLERS	2	/* warps of block 0 that serve ring 0 */
#define GGAS_COPIER_RINGS	3	/* block i serves ring i: one small, two bulk */
#define GGAS_COPIER_SMALL	4096	/* most bytes of a copy on ring 0 */
#define GGAS_COPIER_INLINE	24	/* most bytes of an inline write, on ring 0 */

#define GGAS_COPIER_COPY	1	/* word 1: source address */
#define GGAS_COPIER_WRITE	2	/* words 1 to 3: the bytes */
#define GGAS_COPIER_MOVE	3	/* a copy whose ranges overlap, on bulk rings */
#define GGAS_COPIER_STOP	4	/* the ring is closed behind this command */
#define GGAS_COPIER_NOTIFY	5	/* a copy on ring 0, then words 2 and 3 as one store to host memory at the address
					 * whose low half is `low` of unit 2, and high half that of unit 3 */
#define GGAS_COPIER_ATOMIC	6	/* the length is 4 or 8; `low` of unit 2 is GGAS_ATOMIC_*, words 1 and 2 its operand
					 * and behind that what is expected, packed by the length; on ring 0 */

/* Word 0 is the destination address; word 1 to 3 see above. `low` of unit 0 is
 * the length, of unit 1 the operation. */
struct ggas_copier_unit {
	uint64_t word;
	uint32_t low;
	uint32_t tag;		/* number of the command + 1, modulo 2^32 */
};

struct ggas_copier_entry {
	struct ggas_copier_unit unit[4];
};

/* One ring and what the copier says about it, all in host memory. */
struct ggas_copier_ring {
	struct ggas_copier_entry entry[GGAS_COPIER_ENTRIES];
	uint32_t done[GGAS_COPIER_ENTRIES];	/* tag of the last command of this entry that is done */
	uint64_t before[GGAS_COPIER_ENTRIES];	/* what the last atomic operation of this entry found */
	/* Commands that the copier took before it closed the ring, + 1; 0 while it serves. */
	uint64_t closed;
	uint64_t reserved[15];
};

struct ggas_copier_args {
	uint64_t rings;		/* struct ggas_copier_ring[GGAS_COPIER_RINGS] */
	uint64_t next[GGAS_COPIER_RINGS];	/* first command to take */
	uint64_t idle_ns;	/* a ring without a command for so long is closed */
};

#ifdef __cplusplus
static_assert(sizeof(ggas_copier_unit) == 16, "one access");
static_assert(sizeof(ggas_copier_entry) == 64, "one cache line");
static_assert(sizeof(ggas_copier_ring) == 64 * 1024 + 4096 + 8192 + 128, "userlib/gpu/src/copier/ring.rs");
static_assert(sizeof(ggas_copier_args) == 40, "userlib/gpu/src/copier/ring.rs");
#endif

#endif /* GGAS_COPIER_H */
