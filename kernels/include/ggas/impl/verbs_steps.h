/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps of verbs, and what both formats of queues have; included by verbs.cuh. */
#ifndef GGAS_IMPL_VERBS_STEPS_H
#define GGAS_IMPL_VERBS_STEPS_H

namespace ggas_impl
{

/* How verbs access what the adapter shares, queues and doorbells, and the library's own tables. Who counts has another one. */
struct ibv_memory {
	template <class T> GGAS_FN static T load(const T *p) { return ggas_load_relaxed(p); }
	template <class T> GGAS_FN static T load_acquire(const T *p) { return ggas_load_acquire(p); }
	template <class T> GGAS_FN static void store(T *p, T v) { ggas_store_relaxed(p, v); }
	template <class T> GGAS_FN static void store_release(T *p, T v) { ggas_store_release(p, v); }
	template <class T> GGAS_FN static void ring(T *p, T v) { ggas_store_mmio(p, v); }
	/* One of those that neighbouring threads make together; `first`: by the first of them. */
	template <class T> GGAS_FN static T load_beside(const T *p, bool) { return ggas_load_relaxed(p); }
	template <class T> GGAS_FN static void store_beside(T *p, T v, bool) { ggas_store_relaxed(p, v); }
};

} /* namespace ggas_impl */

struct ggas_ibv_mlx4;
struct ggas_ibv_mlx5;

/* Which steps of table 5.4 are taken, and the format of the queues. */
template <bool Shared, bool Static, bool Unstamped, bool Unhandled, class Format = ggas_ibv_mlx4,
	  class Memory = ggas_impl::ibv_memory, bool Near = false>
struct ggas_ibv_steps {
	static constexpr bool shared = Shared, fixed = Static, stamps = !Unstamped, handles = !Unhandled, near = Near;
	using format = Format;
	using memory = Memory;
};
template <int Step, class Format = ggas_ibv_mlx4, class Memory = ggas_impl::ibv_memory>
using ggas_ibv_step = ggas_ibv_steps<Step >= 1, Step >= 2, Step >= 3, Step >= 4, Format, Memory, Step >= 5>;

namespace ggas_impl
{

/* A store behind all before it. */
template <class Steps, class T> GGAS_FN void ibv_store_behind(T *p, T v)
{
	if constexpr (Steps::near) {
		ggas_fence_gpu();
		Steps::memory::store(p, v);
	} else {
		Steps::memory::store_release(p, v);
	}
}
template <class Steps, class T> GGAS_FN void ibv_ring_behind(T *p, T v)
{
	if constexpr (Steps::near)
		ggas_fence_gpu();
	else
		ggas_fence_system();
	Steps::memory::ring(p, v);
}

/* Operation codes of requests. */
constexpr uint32_t ibv_write = 0x08, ibv_write_imm = 0x09, ibv_send = 0x0a, ibv_send_imm = 0x0b, ibv_read = 0x10,
		   ibv_cmp_swap = 0x11, ibv_fetch_add = 0x12;
constexpr uint32_t ibv_no_key = 0x100; /* of a receive's first unused piece */
constexpr uint32_t wqe_words = 16; /* of 8 bytes; requests of kernels have at most 128 bytes */

/* Big-endian, as an adapter wants it. */
GGAS_FN uint32_t big(uint32_t v)
{
	/* By shifts it would be eight instructions. */
#if defined(__CUDA_ARCH__)
	return __byte_perm(v, 0, 0x0123);
#else
	return __builtin_bswap32(v);
#endif
}
GGAS_FN uint64_t big(uint64_t v)
{
	return static_cast<uint64_t>(big(static_cast<uint32_t>(v))) << 32 | big(static_cast<uint32_t>(v >> 32));
}

/* Two words of 4 bytes that follow one another in memory. */
GGAS_FN uint64_t pair(uint32_t first, uint32_t second) { return first | static_cast<uint64_t>(second) << 32; }

template <class T> GGAS_FN T *at(uint64_t address) { return reinterpret_cast<T *>(address); }

/* Whose completion it is: of a request or a receive, and its place in the queue, 16 bits. */
struct ibv_done {
	bool sent;
	uint32_t index;
};

/* The status of a syndrome, the same in both formats. */
GGAS_FN uint32_t wc_status(uint32_t syndrome)
{
	switch (syndrome) {
	case 0x01:
		return GGAS_IBV_WC_LOC_LEN_ERR;
	case 0x02:
		return GGAS_IBV_WC_LOC_QP_OP_ERR;
	case 0x04:
		return GGAS_IBV_WC_LOC_PROT_ERR;
	case 0x05:
		return GGAS_IBV_WC_WR_FLUSH_ERR;
	case 0x10:
		return GGAS_IBV_WC_BAD_RESP_ERR;
	case 0x12:
		return GGAS_IBV_WC_REM_INV_REQ_ERR;
	case 0x13:
		return GGAS_IBV_WC_REM_ACCESS_ERR;
	case 0x14:
		return GGAS_IBV_WC_REM_OP_ERR;
	case 0x15:
		return GGAS_IBV_WC_RETRY_EXC_ERR;
	case 0x16:
		return GGAS_IBV_WC_RNR_RETRY_EXC_ERR;
	default:
		return GGAS_IBV_WC_GENERAL_ERR;
	}
}

/* What a request was, by its operation code. */
GGAS_FN uint32_t wc_operation(uint32_t code)
{
	switch (code) {
	case ibv_write:
	case ibv_write_imm:
		return GGAS_IBV_WC_WRITE;
	case ibv_read:
		return GGAS_IBV_WC_READ;
	case ibv_cmp_swap:
		return GGAS_IBV_WC_CMP_SWAP;
	case ibv_fetch_add:
		return GGAS_IBV_WC_FETCH_ADD;
	default:
		return GGAS_IBV_WC_SEND;
	}
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_VERBS_STEPS_H */
