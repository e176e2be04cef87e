/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who carries out a call of a direct communicator. A leader, one warp or one thread, decides and waits; of a block, the other warps copy
 * for it. So a look for a message costs no barrier of the block, and while the leader orders and tells what was copied, the others
 * copy what follows. Lines are not ordered, so the leader has its share of them.
 *
 * A job that the leader gives is begun at a barrier, and over at the next one.
 */
#ifndef GGAS_IMPL_GMPI_CREW_H
#define GGAS_IMPL_GMPI_CREW_H

#include "../ggas.cuh"
#include "gmpi_lines.h"
#include "gmpi_team.h"

namespace ggas_impl
{

/* copy_all: a copy beside which the leader has nothing to do. */
enum class crew_work : uint32_t { none, copy, copy_all, lines_out, lines_in, over };

/* Which end of a job does not lie together. */
enum class crew_shape : uint32_t { none, from, to };

struct crew_job {
	crew_work work;
	int error;		/* over: what the call came to */
	uint64_t to, from, bytes;
	direct_lines lines;
	crew_shape shaped;
	uint32_t at;		/* copy of what does not lie together: bytes of the message before these; that end is where it begins */
};

/* In block-shared memory: two jobs, as the leader writes one while the others read the one before. */
struct crew_board {
	crew_job job[2];
	gmpi_shape shape[2];
	int late;
};

GGAS_FN crew_board *crew_board_of_block()
{
	GGAS_SHARED(crew_board, board);
	return &board;
}

/* Where leader and others meet: one place, as threads of a block that wait at different ones are a mistake that the executor tells. */
GGAS_FN void crew_meet() { ggas_syncthreads(); }

/* The share of thread `self` of `all` of a job of which one end does not lie together. */
GGAS_LONG int crew_shaped_share(const crew_job &job, const gmpi_shape shape, uint32_t self, uint32_t all)
{
	bool copies = job.work == crew_work::copy || job.work == crew_work::copy_all;
	if (copies && job.shaped == crew_shape::from)
		shape_copy<true>(shape, job.from, job.to, job.at, job.bytes, self, all);
	else if (copies)
		shape_copy<false>(shape, job.to, job.from, job.at, job.bytes, self, all);
	else if (job.work == crew_work::lines_out)
		with_shaped_place(shape, job.from, [&](const auto &from) { job.lines.send(from, job.bytes, self, all); });
	else if (job.work == crew_work::lines_in)
		return with_shaped_place(shape, job.to, [&](const auto &to) { return job.lines.take(to, job.bytes, self, all); });
	return GMPI_SUCCESS;
}

/* The share of thread `self` of `all`. GMPI_ERR_TIMEOUT: lines did not come. */
GGAS_LONG int crew_share(const crew_job &job, const gmpi_shape *shape, uint32_t self, uint32_t all)
{
	if (GGAS_RARE(job.shaped != crew_shape::none))
		return crew_shaped_share(job, *shape, self, all);
	if (job.work == crew_work::copy || job.work == crew_work::copy_all)
		copy_share(reinterpret_cast<void *>(job.to), reinterpret_cast<const void *>(job.from), job.bytes, self, all);
	else if (job.work == crew_work::lines_out)
		with_dense_place(job.from, [&](const auto &from) { job.lines.send(from, job.bytes, self, all); });
	else if (job.work == crew_work::lines_in)
		return with_dense_place(job.to, [&](const auto &to) { return job.lines.take(to, job.bytes, self, all); });
	return GMPI_SUCCESS;
}

template <ggas_scope Scope> class direct_crew {
public:
	using team = gmpi_team<Scope>;

	/* `jobs`: given before in this call. */
	GGAS_FN explicit direct_crew(uint32_t jobs = 0) : jobs_(jobs), given_(false) {}

	/* All callers have come; what any of them wrote is sent. */
	GGAS_FN static void enter() { team::all::meet(); }
	GGAS_FN static bool leads() { return team::writes(); }
	GGAS_FN static bool has_others() { return Scope == ggas_scope::block && ggas_threads() > GGAS_WARP_SIZE; }
	GGAS_FN uint32_t jobs() const { return jobs_; }

	/* By the leader: begins a job; those before are over. Without others it is over, too. `shape`: of the end that does not lie together.
	 * GMPI_ERR_TIMEOUT: lines did not come. */
	GGAS_FN int give(const crew_job &job, const gmpi_shape *shape = nullptr)
	{
		if (!has_others())
			return team::agree(crew_share(job, shape, team::lane(), team::lanes()));
		const crew_job &posted = post(job, shape);
		given_ = true;
		return has_leader(job.work) ? team::agree(crew_share(posted, shape, team::lane(), ggas_threads())) : GMPI_SUCCESS;
	}
	/* All jobs are over. GMPI_ERR_TIMEOUT: lines of one did not come. */
	GGAS_FN int drain()
	{
		if (!given_)
			return GMPI_SUCCESS;
		post({ crew_work::none, GMPI_SUCCESS, 0, 0, 0, {}, crew_shape::none, 0 });
		given_ = false;
		int late = crew_board_of_block()->late;
		team::meet();
		if (late && team::lane() == 0)
			crew_board_of_block()->late = 0;
		return late;
	}
	/* By the leader, last: the others return. */
	GGAS_FN int end(int error)
	{
		if (has_others())
			post({ crew_work::over, error, 0, 0, 0, {}, crew_shape::none, 0 });
		else
			team::all::meet();
		return error;
	}
	/* By the others: until the call is over. What it came to. */
	GGAS_FN static int work()
	{
		crew_board *board = crew_board_of_block();
		for (uint32_t jobs = 0;; jobs++) {
			crew_meet();
			const crew_job &job = board->job[jobs & 1];
			if (job.work == crew_work::over)
				return job.error;
			uint32_t first = has_leader(job.work) ? 0 : GGAS_WARP_SIZE;
			if (crew_share(job, &board->shape[jobs & 1], ggas_thread() - first, ggas_threads() - first))
				ggas_store_relaxed(&board->late, static_cast<int>(GMPI_ERR_TIMEOUT));
		}
	}

private:
	/* Whether the leader has a share of it. */
	GGAS_FN static bool has_leader(crew_work work) { return work != crew_work::copy; }
	GGAS_FN const crew_job &post(const crew_job &job, const gmpi_shape *shape = nullptr)
	{
		crew_board *board = crew_board_of_block();
		crew_job &posted = board->job[jobs_ & 1];
		if (team::lane() == 0) {
			posted = job;
			if (job.shaped != crew_shape::none)
				board->shape[jobs_ & 1] = *shape;
			if (jobs_ == 0)
				board->late = 0;
		}
		jobs_++;
		crew_meet();
		return posted;
	}

	uint32_t jobs_;
	bool given_;
};

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_GMPI_CREW_H */
