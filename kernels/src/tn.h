/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernel that registers triggered operations (tn.cu); userlib/tn fills them in. */
#ifndef GGAS_TN_ARGS_H
#define GGAS_TN_ARGS_H

#include <stdint.h>

#define TN_REGISTER	1
#define TN_CANCEL	2
#define TN_REARM	3
#define TN_LOOK		4

#define TN_DONE		1	/* results; 0: not looked at */
#define TN_TAKEN	2	/* the tag waits for its threshold already */
#define TN_UNKNOWN	3	/* nothing is registered for it */
#define TN_WAITS	4	/* re-armed before it was started */

/* One of them. All but `command`, `tag` and `result` are for TN_REGISTER, as in struct ggas_tn_entry. */
struct tn_command {
	uint64_t tag;		/* below the table's tags */
	uint64_t local;
	uint64_t offset;
	uint64_t signal;
	uint64_t value;
	uint64_t counted;	/* written: what the tag had counted */
	uint32_t bytes;
	uint32_t node;
	uint32_t what;
	uint32_t word;
	uint32_t threshold;
	uint32_t command;	/* TN_REGISTER ... */
	uint32_t result;	/* written: TN_DONE ... */
	uint32_t reserved;
};

/* The threads take the commands in turn; those of one tag are in order only within a launch of one thread. */
struct tn_commands {
	uint64_t tn;		/* struct ggas_tn */
	uint64_t commands;	/* struct tn_command[count] */
	uint64_t count;
};

#endif /* GGAS_TN_ARGS_H */
