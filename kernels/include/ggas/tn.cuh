/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Triggered operations (GPU-TN): the host registered puts and gets in advance,
 * each with a tag and a threshold; kernels start them by one store of the tag.
 *
 *	__device__ int send_rows(ggas_tn *tn, float *rows, uint64_t tag)
 *	{
 *		ggas_triggers triggers(tn);
 *		fill(rows, ggas_block());
 *		return ggas_tn_trigger_block(triggers, tag);	// threshold: blocks of the grid
 *	}
 *
 * Granularities. A tag for each thread, threshold 1: ggas_tn_trigger_thread. A
 * tag for each warp or block: _warp, _block; all threads of it call with the
 * same arguments and count as one. One tag for the kernel: threshold = blocks
 * with _block, or = threads with _thread. Mixed: any threshold in between.
 *
 * Ordering. A trigger is a release at system scope: what its callers wrote
 * before, or saw done, is what the operation sends. A completed wait is an
 * acquire: the source of a put may be written again, the data of a get are
 * there. At the target a put's data are followed by what was registered with
 * it: a notification, or a signal (ggas_wait of put.cuh). What the host writes to
 * a put's source as it registers is sent by kernels that are launched later; one
 * that runs already has to be told by the host first (a flag, with acquire).
 *
 * Exactly once. An operation starts when its tag has counted its threshold, and
 * once for each time that it is armed. Triggers may come before the operation is
 * registered. Triggers beyond the threshold count for the next time:
 * ggas_tn_rearm takes the threshold off the count and arms again: once the
 * operation is complete, else a wait may end with the wrong one of two. The host
 * may register another operation for the tag once this one is complete.
 *
 * Who carries it out. A unit of the card (the model's, which has one; tags are
 * stored to its page, or to a ring where it cannot see a GPU's stores), a thread
 * of the host, or over NVLink and other mapped windows the caller that reaches
 * the threshold: then all threads of its scope copy, and the call returns when
 * they have. The host says which (struct ggas_tn).
 *
 * Errors. GGAS_OK; GGAS_ERR_TRIGGER: the trigger, or an earlier one, was not
 * counted, since the table is full or fields came that the operation does not
 * take, or an operation was re-armed before it was started. The unit learns that
 * later than the store: waits and ggas_tn_check tell, until the host clears errors.
 * GGAS_ERR_TIMEOUT of waits, and of a full ring; GGAS_ERR_POISONED (a slot was
 * claimed and the wait for it timed out: set up again); GGAS_ERR_NOTIFICATION:
 * the operation completed with an error (over a window, since it was registered);
 * GGAS_ERR_ARGUMENT: no such completion word. The first failure fills the report.
 */
#ifndef GGAS_TN_CUH
#define GGAS_TN_CUH

#include "extoll/trigger.h"
#include "put.cuh"

#include "impl/rma_slots.h"
#include "impl/tn_handle.h"
#include "impl/tn_entry.h"
#include "impl/tn_post.h"
#include "impl/tn_wait.h"

/* What a trigger changes of the put or get that was registered to take it. Where several triggers of an operation bring
 * fields, those count that come last. Carried out by the caller: those of the one that reaches the threshold, and an
 * operation has to wait for it; the window's side is checked, this side is the caller's to keep inside its memory. */
struct ggas_tn_fields {
	uint32_t local, remote;	/* bytes added to the registered addresses of this and of the other side */
	uint32_t bytes;		/* 0: as registered; below 16 MiB */
	bool has_target;	/* node and VPID (of a window: node) in place of the registered ones */
	uint32_t node, vpid;
};

#define GGAS_DEFINE_TRIGGERS(scope)                                                                                    \
	/* Counts one for `tag`. */                                                                                    \
	GGAS_FN int ggas_tn_trigger_##scope(const ggas_triggers &at, uint64_t tag, uint32_t line = __builtin_LINE())               \
	{                                                                                                              \
		return ggas_impl::tn_trigger<ggas_scope::scope>(at, tag, 0, 0, line);                                  \
	}                                                                                                              \
	/* The same, and says what the operation is to move. */                                                        \
	GGAS_FN int ggas_tn_trigger_fields_##scope(const ggas_triggers &at, uint64_t tag, const ggas_tn_fields &fields,            \
						   uint32_t line = __builtin_LINE())                                   \
	{                                                                                                              \
		return ggas_impl::tn_trigger_fields<ggas_scope::scope>(                                                \
			at, tag, extoll_trigger_where(fields.local, fields.remote), fields.bytes,                      \
			extoll_trigger_what(fields.bytes, fields.has_target, fields.node, fields.vpid), line);         \
	}                                                                                                              \
	/* Reads ahead what a trigger of `tag` reads, while there is time: a trigger of a window whose operation waits for it   \
	 * alone is quicker so. Good for one trigger; one that comes when the tag was counted or registered anew since is as   \
	 * any other, up to 255 registrations of the tag later. Nothing is read where a unit or a thread of the host has the table. */                                    \
	GGAS_FN ggas_tn_prepared ggas_tn_prepare_##scope(const ggas_triggers &at, uint64_t tag)                        \
	{                                                                                                              \
		return ggas_impl::tn_prepare<ggas_scope::scope>(at, tag);                                              \
	}                                                                                                              \
	GGAS_FN int ggas_tn_trigger_##scope(const ggas_triggers &at, const ggas_tn_prepared &prepared,                 \
					    uint32_t line = __builtin_LINE())                                          \
	{                                                                                                              \
		return ggas_impl::tn_trigger_prepared<ggas_scope::scope>(at, prepared, line);                          \
	}                                                                                                              \
	/* Arms a started operation again. */                                                                          \
	GGAS_FN int ggas_tn_rearm_##scope(const ggas_triggers &at, uint64_t tag, uint32_t line = __builtin_LINE())                 \
	{                                                                                                              \
		return ggas_impl::tn_rearm<ggas_scope::scope>(at, tag, line);                                          \
	}                                                                                                              \
	/* Waits until the operation with completion word `word` is complete for the `times`th time. */                \
	GGAS_FN int ggas_tn_wait_##scope(ggas_tn *tn, uint32_t word, uint32_t times = 1,                               \
					 uint32_t line = __builtin_LINE())                                             \
	{                                                                                                              \
		return ggas_impl::tn_wait<ggas_scope::scope>(tn, word, times, line);                                   \
	}
GGAS_DEFINE_TRIGGERS(thread)
GGAS_DEFINE_TRIGGERS(warp)
GGAS_DEFINE_TRIGGERS(block)
#undef GGAS_DEFINE_TRIGGERS

/* Looks once, with acquire. */
GGAS_FN bool ggas_tn_test(const ggas_tn *tn, uint32_t word, uint32_t times = 1)
{
	return ggas_impl::tn_reached(ggas_load_acquire(ggas_impl::tn_times(tn->words, word)), times);
}

/* GGAS_ERR_TRIGGER once a trigger of anyone was not counted, until the host clears errors; late ones are counted. */
GGAS_FN int ggas_tn_check(const ggas_tn *tn)
{
	return ggas_impl::tn_refused(tn) ? GGAS_ERR_TRIGGER : GGAS_OK;
}

#endif /* GGAS_TN_CUH */
