// SPDX-License-Identifier: MIT OR Apache-2.0
// The reduction of a shared buffer's slots (seed 002, 3.2), copies to and from it, and the words of a directory in GPU memory.
#include "ggas/coll.cuh"
#include "ggas/put.cuh"

/* `Reduce` in src/kernel.rs. result[i] = first[i] op slot 0's [i] op slot 1's [i] ..., in this order. */
struct shared_gpu_reduce {
	uint64_t result;	/* may be `first` or a slot */
	uint64_t first;
	uint64_t slots;
	uint64_t stride;	/* bytes from slot to slot */
	uint64_t count;		/* elements */
	uint32_t number;	/* of slots */
	uint32_t element;	/* COLL_FLOAT ... of kernels/src/coll.h */
	uint32_t op;		/* COLL_SUM ... */
	uint32_t reserved;
};

/* `Copy` in src/kernel.rs. */
struct shared_gpu_copy {
	uint64_t to;
	uint64_t from;
	uint64_t bytes;
};

/* `Words` in src/kernel.rs: words of the directory, all of them copied or one of them written. */
struct shared_gpu_words {
	uint64_t directory;
	uint64_t copy;		/* uint64_t[number] that the host reads */
	uint64_t number;
	uint64_t at;		/* number or more: nothing is written */
	uint64_t value;
	uint64_t looks;		/* until a word differs from its copy, at most */
};

namespace shared_gpu
{

/* The codes of kernels/src/coll.h, which are not for other crates' kernels to include, and behind them six of our own. */
enum : uint32_t { FLOAT, DOUBLE, INT32, INT64, HALF, BFLOAT16, UINT32, UINT64, INT8, UINT8, INT16, UINT16 };
enum : uint32_t { SUM, PROD, MIN, MAX, AND, OR, XOR };

#ifdef GGAS_EXECUTOR
constexpr uint64_t PIECE = 256;

/* Elements of a whole piece: loops whose length the compiler knows become vectors. */
struct whole_piece {
	constexpr operator uint64_t() const { return PIECE; }
};

template <class T, class Op, class Count>
void reduce_piece(const shared_gpu_reduce &args, Op op, uint64_t begin, Count n)
{
	typename ggas_wide<T>::type values[PIECE];
	const auto *from = reinterpret_cast<const T *>(args.first) + begin;
	auto *to = reinterpret_cast<T *>(args.result) + begin;

	for (uint64_t i = 0; i < n; i++)
		values[i] = ggas_widen(from[i]);
	for (uint32_t slot = 0; slot < args.number; slot++) {
		from = reinterpret_cast<const T *>(args.slots + slot * args.stride) + begin;
		for (uint64_t i = 0; i < n; i++)
			values[i] = op(values[i], ggas_widen(from[i]));
	}
	for (uint64_t i = 0; i < n; i++)
		to[i] = ggas_narrow<T>(values[i]);
}

/* A processor of the host does all of it. */
template <class T, class Op> void reduce(const shared_gpu_reduce &args, Op op)
{
	uint64_t begin = 0;

	for (; begin + PIECE <= args.count; begin += PIECE)
		reduce_piece<T>(args, op, begin, whole_piece());
	if (begin < args.count)
		reduce_piece<T>(args, op, begin, args.count - begin);
}
#else
template <class T, class Op> GGAS_FN void reduce(const shared_gpu_reduce &args, Op op)
{
	auto *result = reinterpret_cast<T *>(args.result);
	const auto *first = reinterpret_cast<const T *>(args.first);
	uint64_t all = static_cast<uint64_t>(ggas_blocks()) * ggas_threads();

	for (uint64_t i = static_cast<uint64_t>(ggas_block()) * ggas_threads() + ggas_thread(); i < args.count; i += all) {
		auto value = ggas_widen(first[i]);

		for (uint32_t slot = 0; slot < args.number; slot++)
			value = op(value, ggas_widen(reinterpret_cast<const T *>(args.slots + slot * args.stride)[i]));
		result[i] = ggas_narrow<T>(value);
	}
}
#endif

template <class T> GGAS_FN void reduce(const shared_gpu_reduce &args)
{
	switch (args.op) {
	case SUM:
		return reduce<T>(args, ggas_sum());
	case PROD:
		return reduce<T>(args, ggas_prod());
	case MIN:
		return reduce<T>(args, ggas_min());
	case MAX:
		return reduce<T>(args, ggas_max());
	}
}

template <class T> GGAS_FN void reduce_whole(const shared_gpu_reduce &args)
{
	switch (args.op) {
	case AND:
		return reduce<T>(args, ggas_and());
	case OR:
		return reduce<T>(args, ggas_or());
	case XOR:
		return reduce<T>(args, ggas_xor());
	default:
		return reduce<T>(args);
	}
}

GGAS_FN void reduce(const shared_gpu_reduce &args)
{
	switch (args.element) {
	case FLOAT:
		return reduce<float>(args);
	case DOUBLE:
		return reduce<double>(args);
	case INT32:
		return reduce_whole<int32_t>(args);
	case INT64:
		return reduce_whole<int64_t>(args);
	case HALF:
		return reduce<ggas_half>(args);
	case BFLOAT16:
		return reduce<ggas_bfloat16>(args);
	case UINT32:
		return reduce_whole<uint32_t>(args);
	case UINT64:
		return reduce_whole<uint64_t>(args);
	case INT8:
		return reduce_whole<int8_t>(args);
	case UINT8:
		return reduce_whole<uint8_t>(args);
	case INT16:
		return reduce_whole<int16_t>(args);
	case UINT16:
		return reduce_whole<uint16_t>(args);
	}
}

} // namespace shared_gpu

GGAS_KERNEL(ggas_shared_gpu_reduce, shared_gpu_reduce)
{
#ifdef GGAS_EXECUTOR
	if (ggas_block() || ggas_thread())
		return;
#endif
	shared_gpu::reduce(args);
}

#ifdef GGAS_EXECUTOR
/* The same without the executor, which takes longer to start than a short vector to be reduced. */
extern "C" void ggas_shared_gpu_reduce_on_host(const shared_gpu_reduce *args)
{
	shared_gpu::reduce(*args);
}
#endif

/* Each thread its share. */
GGAS_KERNEL(ggas_shared_gpu_store, shared_gpu_copy)
{
	ggas_copy_grid(reinterpret_cast<void *>(args.to), reinterpret_cast<const void *>(args.from), args.bytes);
}

/* Each block its share, by its multiprocessor's copy unit. A kernel of its own: its shared memory leaves room for fewer blocks. */
GGAS_KERNEL(ggas_shared_gpu_bulk, shared_gpu_copy)
{
	ggas_impl::put_share share = ggas_impl::share_of_block(args.bytes, 128);

	ggas_impl::copy_bulk(reinterpret_cast<uint8_t *>(args.to) + share.offset,
			     reinterpret_cast<const uint8_t *>(args.from) + share.offset, share.bytes);
}

/*
 * One thread looks at the directory until a word has changed, `looks` times at most: without that bound it would keep the GPU from
 * those who are to change the word (3.2.2, "Other Design Considerations").
 */
GGAS_KERNEL(ggas_shared_gpu_words, shared_gpu_words)
{
	auto *directory = reinterpret_cast<uint64_t *>(args.directory);
	auto *copy = reinterpret_cast<uint64_t *>(args.copy);
	bool is_news = false;

	if (ggas_block() || ggas_thread())
		return;
	if (args.at < args.number) {
		ggas_fence_system();
		ggas_store_release(directory + args.at, args.value);
	}
	for (uint64_t look = 0; look < args.looks && !is_news; look++) {
		for (uint64_t i = 0; i < args.number; i++) {
			uint64_t value = ggas_load_acquire(directory + i);

			is_news |= value != ggas_load_relaxed(copy + i);
			ggas_store_relaxed(copy + i, value);
		}
		ggas_pause();
	}
}
