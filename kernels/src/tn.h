/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Arguments of the kernel that registers triggered operations (tn.cu); userlib/tn fills them in. */
#ifndef GGAS_TN_ARGS_H
#define GGAS_TN_ARGS_H

#include <stdint.h>

#define TN_REGISTER	1
#define TN_CANCEL	2
#define TN_REARM	3
#define TN_LOOK		4

#define TN_DONE		1	/* results; 0: not carried out yet */
#define TN_TAKEN	2	/* the tag waits for its threshold already */
#define TN_UNKNOWN	3	/* nothing is registered for it */
#define TN_WAITS	4	/* re-armed before it was started */
#define TN_INCOMPLETE	5	/* what it started is being carried out */
#define TN_TAKEN_BACK	6	/* `taken_back` was set before the kernel began */

/* What is asked for. All but `command` and `tag` are for TN_REGISTER, as in struct ggas_tn_entry. */
struct tn_command {
	uint64_t taken_back;	/* by the host, before it reads `begun`: nothing is carried out unless that was set */
	uint64_t begun;		/* by the kernel, before it reads `taken_back` */
	uint64_t tag;		/* below the table's tags */
	uint64_t local;
	uint64_t offset;
	uint64_t signal;
	uint64_t value;
	uint32_t bytes;
	uint32_t node;
	uint32_t what;
	uint32_t word;		/* of every command: number of the tag's completion word */
	uint32_t threshold;
	uint32_t command;	/* TN_REGISTER ... */
	uint64_t counted;	/* written: what the tag had counted */
	uint64_t result;	/* written last: TN_DONE ... */
};

/* Carried out by one thread. */
struct tn_commands {
	uint64_t tn;		/* struct ggas_tn */
	uint64_t command;	/* struct tn_command */
};

#endif /* GGAS_TN_ARGS_H */
