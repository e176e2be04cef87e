// SPDX-License-Identifier: MIT OR Apache-2.0
// tn-allreduce: a ring of nodes that add floats, by work-groups that trigger, or by a kernel for each step.
#include "bench_tn.cuh"

namespace bench_ring
{

using namespace bench_tn_programs;

/* As many as one access moves. */
constexpr uint64_t unit = 4;
struct alignas(16) floats {
	float value[unit];
};

/* Threads of a block or of a grid that share work. */
struct crew {
	uint64_t self, all;
};

class ring {
public:
	GGAS_FN explicit ring(const bench_tn_allreduce &args)
		: args_(args), window_(*pointer<const ggas_window>(args.program.window)), data_(pointer<float>(args.data)),
		  landing_(pointer<const float>(window_.local + args.landing)),
		  result_(pointer<float>(window_.local + args.result))
	{
	}

	/* Adds the slice that came in a step. The last one to be added is a sum of all. */
	GGAS_FN void add(uint32_t step, uint32_t slice, uint32_t slices, crew threads) const
	{
		bool whole = step + 2 == args_.nodes;
		each(step, slice, slices, threads, [&](auto *data, auto *landing, auto *result) {
			auto sum = plus(*data, *landing);
			*data = sum;
			if (whole)
				*result = sum;
		});
	}

	/* All steps of a block's slice. */
	GGAS_FN int run() const
	{
		uint32_t slice = ggas_block(), steps = 2 * (args_.nodes - 1);
		crew threads = { ggas_thread(), ggas_threads() };
		for (uint32_t step = 0; step < steps; step++) {
			if (step > 0) {
				if (int error = wait(slice, step))
					return error;
				if (step < args_.nodes)
					add(step - 1, slice, args_.slices, threads);
				else
					pass_on(step - 1, slice, threads);
			}
			if (int error = trigger(args_.program, step * args_.slices + slice))
				return error;
		}
		/* For the next kernel. */
		int error = GGAS_OK;
		for (uint32_t step = ggas_thread(); step < steps && !error; step += ggas_threads())
			error = rearm(args_.program, step * args_.slices + slice);
		int late = wait(slice, steps);
		return error ? error : late;
	}

private:
	const bench_tn_allreduce &args_;
	ggas_window window_;
	float *data_;
	const float *landing_;
	float *result_;

	GGAS_FN static float plus(float a, float b) { return a + b; }
	GGAS_FN static floats plus(const floats &a, const floats &b)
	{
		return { { a.value[0] + b.value[0], a.value[1] + b.value[1], a.value[2] + b.value[2],
			   a.value[3] + b.value[3] } };
	}

	GGAS_FN int wait(uint32_t slice, uint32_t steps) const
	{
		return ggas_wait_block(&window_, slice * BENCH_RING_COUNTER, ggas_cmp::ge, steps);
	}

	/* A sum that came is sent from where puts were registered. */
	GGAS_FN void pass_on(uint32_t step, uint32_t slice, crew threads) const
	{
		each(step, slice, args_.slices, threads, [](auto *data, auto *, auto *result) { *data = *result; });
	}

	/* Where a share of a stretch begins; but for the end of the last, at whole units. */
	GGAS_FN static uint64_t share(uint64_t length, uint64_t number, uint64_t shares)
	{
		return number == shares ? length : length * number / shares / unit * unit;
	}

	/* `work` on all elements of the slice that comes in a step, by units and then one by one. */
	template <class Work>
	GGAS_FN void each(uint32_t step, uint32_t slice, uint32_t slices, crew threads, Work work) const
	{
		uint32_t part = (args_.node + 2 * args_.nodes - step - 1) % args_.nodes;
		uint64_t first = share(args_.elements, part, args_.nodes);
		uint64_t length = share(args_.elements, part + 1, args_.nodes) - first;
		uint64_t begin = first + share(length, slice, slices), end = first + share(length, slice + 1, slices);
		uint64_t whole = begin + (end - begin) / unit * unit;
		for (uint64_t i = begin + unit * threads.self; i < whole; i += unit * threads.all)
			work(reinterpret_cast<floats *>(data_ + i), reinterpret_cast<const floats *>(landing_ + i),
			     reinterpret_cast<floats *>(result_ + i));
		for (uint64_t i = whole + threads.self; i < end; i += threads.all)
			work(data_ + i, landing_ + i, result_ + i);
	}
};

} /* namespace bench_ring */

GGAS_KERNEL_BOUND(bench_tn_allreduce_ring, bench_tn_allreduce, 512)
{
	bench_tn_programs::leave(args.program, bench_ring::ring(args).run());
}

GGAS_KERNEL_BOUND(bench_tn_allreduce_add, bench_tn_allreduce, 512)
{
	uint64_t self = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread();
	bench_ring::ring(args).add(args.step, 0, 1, { self, static_cast<uint64_t>(ggas_blocks()) * ggas_threads() });
}
