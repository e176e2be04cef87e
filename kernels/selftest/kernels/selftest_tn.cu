// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks tn.cuh at all granularities: what is sent is what was written before the trigger, whatever is written after the
// completion.
#include "ggas/tn.cuh"

#include "selftest.h"

namespace tn_checks
{

GGAS_FN uint64_t value(uint64_t thread, uint64_t round)
{
	return (thread + 1) * 0x9e3779b97f4a7c15 ^ round * 0x2545f4914f6cdd1d;
}

class part {
public:
	GGAS_FN explicit part(const selftest_tn &args)
		: args_(args), tn_(reinterpret_cast<ggas_tn *>(args.tn)),
		  thread_(static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread())
	{
	}

	GGAS_FN int run()
	{
		uint64_t *mine = reinterpret_cast<uint64_t *>(args_.data) + thread_;
		if (args_.form != SELFTEST_TN_GETS)
			*mine = value(thread_, args_.round);
		int error = args_.rearm == 1 ? rearm() : GGAS_OK;
		if (!error)
			error = trigger();
		if (!error && args_.rearm == 2)
			error = rearm();
		if (!error && args_.times)
			error = wait();
		if (error)
			return error;
		if (args_.form == SELFTEST_TN_GETS && *mine != value(thread_, args_.round))
			ggas_red_add(reinterpret_cast<uint64_t *>(args_.wrong), 1u, ggas_order::relaxed);
		if (args_.times && args_.form != SELFTEST_TN_GETS)
			*mine = ~*mine;
		return GGAS_OK;
	}

private:
	GGAS_FN uint64_t warp() const
	{
		return static_cast<uint64_t>(ggas_block()) * ggas_warps() + ggas_warp();
	}

	/* Number of this thread's operation among those of the form. */
	GGAS_FN uint64_t number() const
	{
		switch (args_.form) {
		case SELFTEST_TN_ITEMS:
		case SELFTEST_TN_FIELDS:
			return thread_;
		case SELFTEST_TN_WARPS:
			return warp();
		case SELFTEST_TN_GROUPS:
			return ggas_block();
		case SELFTEST_TN_PAIRS:
			return thread_ / 2;
		default:
			return 0;
		}
	}

	GGAS_FN int trigger()
	{
		uint64_t tag = args_.tag + number();
		uint32_t at = static_cast<uint32_t>(thread_ * sizeof(uint64_t));
		switch (args_.form) {
		case SELFTEST_TN_ITEMS:
		case SELFTEST_TN_PAIRS:
		case SELFTEST_TN_BY_ITEMS:
			return args_.ahead ? ggas_tn_trigger_thread(tn_, ggas_tn_prepare_thread(tn_, tag)) :
					     ggas_tn_trigger_thread(tn_, tag);
		case SELFTEST_TN_FIELDS:
			return ggas_tn_trigger_fields_thread(tn_, tag,
							     { at, at, sizeof(uint64_t), false, 0, 0 });
		case SELFTEST_TN_WARPS:
			return args_.ahead ? ggas_tn_trigger_warp(tn_, ggas_tn_prepare_warp(tn_, tag)) :
					     ggas_tn_trigger_warp(tn_, tag);
		default:
			return args_.ahead ? ggas_tn_trigger_block(tn_, ggas_tn_prepare_block(tn_, tag)) :
					     ggas_tn_trigger_block(tn_, tag);
		}
	}

	/* One thread for each operation. */
	GGAS_FN int rearm()
	{
		bool first = args_.form == SELFTEST_TN_ITEMS || args_.form == SELFTEST_TN_FIELDS ? true :
			     args_.form == SELFTEST_TN_PAIRS				    ? thread_ % 2 == 0 :
			     args_.form == SELFTEST_TN_WARPS				    ? ggas_lane() == 0 :
			     args_.form == SELFTEST_TN_GROUPS			    ? ggas_thread() == 0 :
											     thread_ == 0;
		return first ? ggas_tn_rearm_thread(tn_, args_.tag + number()) : GGAS_OK;
	}

	GGAS_FN int wait()
	{
		uint32_t word = args_.word + static_cast<uint32_t>(number());
		switch (args_.form) {
		case SELFTEST_TN_ITEMS:
		case SELFTEST_TN_FIELDS:
		case SELFTEST_TN_PAIRS:
			return ggas_tn_wait_thread(tn_, word, args_.times);
		case SELFTEST_TN_WARPS:
			return ggas_tn_wait_warp(tn_, word, args_.times);
		default:
			return ggas_tn_wait_block(tn_, word, args_.times);
		}
	}

	const selftest_tn &args_;
	ggas_tn *tn_;
	uint64_t thread_;
};

/* Words of the count's registration stay as they are; any that is not has all of them read again. */
GGAS_FN bool renewed(const ggas_tn_entry *entry)
{
	uint64_t count = ggas_load_acquire(&entry->count), other = ggas_impl::tn_registration(count, 0, 0);
	ggas_impl::tn_words right(entry), changed = right;
	changed.target.hi++;
	changed.renew(entry, count);
	bool good = right.is_of(count) && !right.is_of(other) && changed.target.hi == right.target.hi + 1;
	ggas_u128 ggas_impl::tn_words::*parts[] = { &ggas_impl::tn_words::source, &ggas_impl::tn_words::target,
						    &ggas_impl::tn_words::rest };
	for (auto part : parts) {
		changed = right;
		(changed.*part).lo ^= EXTOLL_PUT(1, GGAS_TN_REGISTRATION);
		changed.renew(entry, count);
		good = good && (changed.*part).lo == (right.*part).lo;
	}
	return good;
}

/* Halves of a threshold's trigger; the host has its turn between them. */
GGAS_FN int started(const ggas_triggers &triggers, const selftest_tn &args)
{
	ggas_tn_entry *entry = triggers.entry(args.tag);
	if (args.form == SELFTEST_TN_BEGUN) {
		uint64_t before = ggas_atomic_add_gpu(&entry->count, 1);
		return ggas_impl::tn_what_next(before) == ggas_impl::TN_START ? GGAS_OK : GGAS_ERR_TRIGGER;
	}
	return ggas_impl::tn_start<ggas_scope::thread>(triggers, ggas_impl::tn_operation(ggas_impl::tn_words(entry)),
						       GGAS_OK);
}

GGAS_FN int around(const ggas_triggers &triggers, uint64_t tag)
{
	ggas_store_relaxed(&triggers.entry(tag)->armed, ~uint64_t(0) - 1);
	ggas_store_relaxed(ggas_impl::tn_times(triggers.words, static_cast<uint32_t>(tag)), ~0u - 1);
	return GGAS_OK;
}

/* The host registers anew between the halves of a trigger. */
GGAS_FN int half(const selftest_tn &args)
{
	if (ggas_block() || ggas_thread())
		return GGAS_OK;
	ggas_triggers triggers(reinterpret_cast<ggas_tn *>(args.tn));
	if (args.form == SELFTEST_TN_BEGUN || args.form == SELFTEST_TN_ENDED)
		return started(triggers, args);
	if (args.form == SELFTEST_TN_AROUND)
		return around(triggers, args.tag);
	uint64_t *seen = reinterpret_cast<uint64_t *>(args.data) + 8;
	ggas_tn_prepared prepared = ggas_tn_prepare_thread(triggers, args.tag);
	if (args.form == SELFTEST_TN_SEEN) {
		*seen = prepared.seen;
		return GGAS_OK;
	}
	if (args.form == SELFTEST_TN_RENEWED)
		return renewed(triggers.entry(args.tag)) ? GGAS_OK : GGAS_ERR_TRIGGER;
	prepared.seen = *seen;
	prepared.words.source.lo -= sizeof(uint64_t);
	prepared.words.target.lo -= sizeof(uint64_t);
	return ggas_tn_trigger_thread(triggers, prepared);
}

} /* namespace tn_checks */

GGAS_KERNEL(ggas_selftest_tn, selftest_tn)
{
	int error = args.form < SELFTEST_TN_SEEN ? tn_checks::part(args).run() : tn_checks::half(args);
	if (error)
		ggas_atomic_cas(reinterpret_cast<uint64_t *>(args.status), uint64_t(0), static_cast<uint64_t>(error),
				ggas_order::relaxed);
}
