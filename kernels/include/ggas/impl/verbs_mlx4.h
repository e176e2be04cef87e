/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues of mlx4; included by verbs.cuh. */
#ifndef GGAS_IMPL_VERBS_MLX4_H
#define GGAS_IMPL_VERBS_MLX4_H

/*
 * ConnectX-2 and 3. Whose a request is says a bit of its first word, which turns with each round of the ring; old ones are stamped.
 * A doorbell is 4 bytes. A completion has 32 bytes.
 */
struct ggas_ibv_mlx4 {
	static constexpr uint32_t number = GGAS_IBV_MLX4, cqe_words = 4;

	GGAS_FN static uint32_t flags(uint32_t wanted)
	{
		return (wanted & GGAS_IBV_SIGNALED ? 3u << 2 : 0) | (wanted & GGAS_IBV_SOLICITED ? 1u << 1 : 0);
	}

	/* The first word of a request of `units` times 16 bytes. */
	GGAS_FN static uint64_t first(const ggas_ibv_qp *qp, uint32_t code, uint32_t units, uint32_t wanted)
	{
		uint32_t round = qp->send.head & qp->send.entries ? owner : 0;
		uint32_t size = units | (wanted & GGAS_IBV_FENCE ? 1u << 6 : 0);
		return ggas_impl::pair(ggas_impl::big(code | round), ggas_impl::big(size));
	}

	/* Hands a request to the adapter, which takes it for whole when it sees the first word. One thread. */
	template <class Steps> GGAS_FN static void publish(ggas_ibv_qp *qp, uint64_t *entry, uint64_t first)
	{
		using namespace ggas_impl;
		/* Loaded before the fences, which what is loaded behind them would wait for. */
		uint64_t ring = qp->ring;
		uint32_t what = qp->doorbell;
		ibv_store_behind<Steps>(entry, first);
		if constexpr (Steps::stamps)
			stamp<typename Steps::memory>(qp);
		qp->send.head++;
		ibv_ring_behind<Steps>(at<uint32_t>(ring), what);
	}

	/* Whether the completion with this last word is new, after `consumed` ones. */
	GGAS_FN static bool is_new(uint32_t consumed, uint32_t entries, uint64_t last)
	{
		return (last >> 63 != 0) == ((consumed & entries) != 0);
	}

	GGAS_FN static bool failed(uint64_t last) { return code(last) == error; }

	template <class From> GGAS_FN static uint32_t syndrome(const uint64_t *, uint64_t last)
	{
		return static_cast<uint32_t>(last >> 24) & 0xff;
	}

	/* Reads a completion at `entry` whose last word is `last`. */
	template <class From>
	GGAS_FN static ggas_impl::ibv_done read(const uint64_t *entry, uint64_t last, ggas_ibv_wc *wc)
	{
		uint64_t words[3];
		for (int i = 0; i < 3; i++)
			words[i] = From::load(entry + i);
		bool sent = last >> 56 & 0x40;
		wc->qp = ggas_impl::big(static_cast<uint32_t>(words[0])) & 0xffffff;
		if (sent)
			wc->operation = ggas_impl::wc_operation(code(last));
		else
			wc->operation = code(last) == 0 ? GGAS_IBV_WC_RECV_WRITE_IMM : GGAS_IBV_WC_RECV;
		if (failed(last)) {
			wc->status = ggas_impl::wc_status(syndrome<From>(entry, last));
		} else {
			wc->bytes = ggas_impl::big(static_cast<uint32_t>(words[2] >> 32));
			wc->has_immediate = !sent && (code(last) == 0 || code(last) == 2);
			wc->immediate = ggas_impl::big(static_cast<uint32_t>(words[0] >> 32));
		}
		return { sent, ggas_impl::big(static_cast<uint32_t>(last)) >> 16 };
	}

private:
	static constexpr uint32_t owner = 1u << 31, stamped = 0xffffffff, error = 0x1e;

	GGAS_FN static uint32_t code(uint64_t last) { return static_cast<uint32_t>(last >> 56) & 0x1f; }

	/* Marks an old request, far enough ahead of the head that an adapter which reads ahead meets it first: each of its 64-byte
	 * parts but the first, whose owner bit is that of another round. */
	template <class Memory> GGAS_FN static void stamp(const ggas_ibv_qp *qp)
	{
		const ggas_ibv_wq &queue = qp->send;
		uint64_t entry = queue.buffer + ((queue.head + qp->spare) & (queue.entries - 1)) * queue.stride;
		uint32_t size = Memory::load(ggas_impl::at<uint32_t>(entry) + 1);
		uint32_t bytes = (ggas_impl::big(size) & 0x3f) * 16;
		for (uint32_t part = 64; part < bytes; part += 64)
			Memory::store(ggas_impl::at<uint32_t>(entry + part), stamped);
	}
};

#endif /* GGAS_IMPL_VERBS_MLX4_H */
