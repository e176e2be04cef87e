/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bounded waits; included by vocab.h. */
#ifndef GGAS_IMPL_WAIT_H
#define GGAS_IMPL_WAIT_H

namespace ggas_impl
{
/* Polls before a wait is counted, timed and reported: most waits end in them. */
#ifdef GGAS_EXECUTOR
constexpr uint32_t quick_polls = 1;
#else
constexpr uint32_t quick_polls = 64;
#endif

/* The first to come writes; `status` last, with release. Takes values: a pointer to
 * the wait would put it into memory. */
GGAS_COLD void write_report(ggas_report *report, uint32_t status, uint32_t kind, uint32_t node, uint32_t peer,
			    uint32_t line, uint64_t address, uint64_t expected, uint64_t seen, uint64_t waited)
{
	if (!report || ggas_atomic_cas(&report->claimed, 0u, 1u, ggas_order::relaxed) != 0)
		return;
	ggas_store_relaxed(&report->wait, kind);
	ggas_store_relaxed(&report->node, node);
	ggas_store_relaxed(&report->block, ggas_block());
	ggas_store_relaxed(&report->thread, ggas_thread());
	ggas_store_relaxed(&report->peer, peer);
	ggas_store_relaxed(&report->line, line);
	ggas_store_relaxed(&report->expected, expected);
	ggas_store_relaxed(&report->seen, seen);
	ggas_store_relaxed(&report->address, address);
	ggas_store_relaxed(&report->waited_ns, waited);
	ggas_store_relaxed(&report->unstarted, ggas_unstarted());
	ggas_store_release(&report->status, status);
}
} /* namespace ggas_impl */

/*
 * One bounded wait:
 *
 *	ggas_wait wait(report, timeout_ns, GGAS_WAIT_FLAG, node, peer);
 *	uint64_t seen;
 *	while ((seen = ggas_load_acquire(flag)) < value)
 *		if (int error = wait.again(flag, value, seen))
 *			return error;
 *
 * again() pauses, and once the time is over writes the report (the first waiter
 * that fails wins) and returns GGAS_ERR_TIMEOUT. The clock is read on every
 * 16th round only, the first time on the 16th: reading it costs a GPU as much as
 * a poll, and a wait may last that much longer. It returns GGAS_ERR_LOST once an access that the host made for these kernels has failed.
 * `report` may be 0.
 */
class ggas_wait {
public:
	GGAS_FN ggas_wait(uint64_t report, uint64_t timeout_ns, uint32_t kind, uint32_t node, uint32_t peer = ~0u,
			  uint32_t line = __builtin_LINE())
		: report_(reinterpret_cast<ggas_report *>(report)), timeout_(timeout_ns), start_(0), kind_(kind),
		  node_(node), peer_(peer), line_(line), attempt_(0)
	{
	}

	GGAS_FN int again(const void *address, uint64_t expected, uint64_t seen)
	{
		attempt_ += attempt_ < 0xffffffffu;
		shows(reinterpret_cast<uint64_t>(address), expected, seen);
		ggas_pause(attempt_);
		if (attempt_ % 16 != 0)
			return GGAS_OK;
		if (attempt_ == 16)
			start_ = ggas_time_ns();
		uint64_t waited = ggas_time_ns() - start_;
		/* What is waited for may be an answer to what was not made. */
		if (ggas_access_failed()) {
			fail(GGAS_ERR_LOST, reinterpret_cast<uint64_t>(address), expected, seen, waited);
			return GGAS_ERR_LOST;
		}
		if (waited < timeout_)
			return GGAS_OK;
		fail(GGAS_ERR_TIMEOUT, reinterpret_cast<uint64_t>(address), expected, seen, waited);
		return GGAS_ERR_TIMEOUT;
	}

	/* What this thread waits for, for whoever looks at a kernel that does not end. */
	GGAS_FN void shows(uint64_t address, uint64_t expected, uint64_t seen) const
	{
		ggas_show_wait(kind_, line_, peer_, address, expected, seen);
	}

	/* Whether to look at whatever else may end the wait: when the clock is read, and on a CPU, where rounds that
	 * others are run in between take long, always. */
	GGAS_FN bool looks_around() const
	{
#ifdef GGAS_EXECUTOR
		return true;
#else
		return attempt_ % 16 == 0;
#endif
	}

	/* Writes the report of a wait that ended badly for another reason than
	 * time, such as a notification with an error bit. */
	GGAS_FN void fail(uint32_t status, uint64_t address, uint64_t expected, uint64_t seen, uint64_t waited)
	{
		ggas_impl::write_report(report_, status, kind_, node_, peer_, line_, address, expected, seen, waited);
	}

private:
	ggas_report *report_;
	uint64_t timeout_, start_;
	uint32_t kind_, node_, peer_, line_, attempt_;
};

#endif /* GGAS_IMPL_WAIT_H */
