/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps of verbs, and words of mlx4's queues; included by verbs.cuh. */
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
	GGAS_FN static void ring(uint32_t *p, uint32_t v) { ggas_store_mmio(p, v); }
	/* One of those that neighbouring threads make together; `first`: by the first of them. */
	template <class T> GGAS_FN static T load_beside(const T *p, bool) { return ggas_load_relaxed(p); }
	template <class T> GGAS_FN static void store_beside(T *p, T v, bool) { ggas_store_relaxed(p, v); }
};

} /* namespace ggas_impl */

/* Which steps of table 5.4 are taken. */
template <bool Shared, bool Static, bool Unstamped, bool Unhandled, class Memory = ggas_impl::ibv_memory>
struct ggas_ibv_steps {
	static constexpr bool shared = Shared, fixed = Static, stamps = !Unstamped, handles = !Unhandled;
	using memory = Memory;
};
template <int Step, class Memory = ggas_impl::ibv_memory>
using ggas_ibv_step = ggas_ibv_steps<Step >= 1, Step >= 2, Step >= 3, Step >= 4, Memory>;

namespace ggas_impl
{

/* Numbers of mlx4. */
constexpr uint32_t mlx4_write = 0x08, mlx4_write_imm = 0x09, mlx4_send = 0x0a, mlx4_send_imm = 0x0b, mlx4_read = 0x10,
		   mlx4_cmp_swap = 0x11, mlx4_fetch_add = 0x12;
constexpr uint32_t mlx4_owner = 1u << 31, mlx4_fence = 1u << 6, mlx4_completion = 3u << 2, mlx4_solicited = 1u << 1;
constexpr uint32_t mlx4_stamp = 0xffffffff, mlx4_no_key = 0x100;
constexpr uint32_t mlx4_send_doorbell = 0x14;
constexpr uint32_t cqe_owner = 0x80, cqe_sent = 0x40, cqe_code = 0x1f, cqe_error = 0x1e;
constexpr uint32_t cqe_words = 4, wqe_words = 16; /* of 8 bytes; requests of kernels have at most 128 bytes */

/* Big-endian, as an adapter wants it. */
GGAS_FN uint32_t big(uint32_t v)
{
	return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
}
GGAS_FN uint64_t big(uint64_t v)
{
	return static_cast<uint64_t>(big(static_cast<uint32_t>(v))) << 32 | big(static_cast<uint32_t>(v >> 32));
}

/* Two words of 4 bytes that follow one another in memory. */
GGAS_FN uint64_t pair(uint32_t first, uint32_t second) { return first | static_cast<uint64_t>(second) << 32; }

template <class T> GGAS_FN T *at(uint64_t address) { return reinterpret_cast<T *>(address); }

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_VERBS_STEPS_H */
