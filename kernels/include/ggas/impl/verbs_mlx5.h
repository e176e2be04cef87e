/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues of mlx5; included by verbs.cuh. */
#ifndef GGAS_IMPL_VERBS_MLX5_H
#define GGAS_IMPL_VERBS_MLX5_H

/*
 * ConnectX-4 and later. How many requests there are says a counter beside the queue; nothing is stamped, so that steps 2 and 3 are
 * one. A doorbell is the request's first word. A completion has 64 bytes. Requests here have one block of 64 bytes.
 */
struct ggas_ibv_mlx5 {
	static constexpr uint32_t number = GGAS_IBV_MLX5, cqe_words = 8;

	GGAS_FN static uint32_t flags(uint32_t wanted)
	{
		return (wanted & GGAS_IBV_SIGNALED ? 2u << 2 : 0) | (wanted & GGAS_IBV_SOLICITED ? 1u << 1 : 0) |
		       (wanted & GGAS_IBV_FENCE ? 4u << 5 : 0);
	}

	/* The first word of a request of `units` times 16 bytes. */
	GGAS_FN static uint64_t first(const ggas_ibv_qp *qp, uint32_t code, uint32_t units, uint32_t)
	{
		uint32_t index = (qp->send.head & 0xffff) << 8;
		return ggas_impl::pair(ggas_impl::big(index | code), ggas_impl::big(qp->number << 8 | units));
	}

	/* Hands a request to the adapter: first the counter, then the doorbell. One thread. */
	template <class Steps> GGAS_FN static void publish(ggas_ibv_qp *qp, uint64_t *entry, uint64_t first)
	{
		using namespace ggas_impl;
		Steps::memory::store(entry, first);
		uint64_t ring = qp->ring;
		uint32_t head = ++qp->send.head;
		ibv_store_behind<Steps>(at<uint32_t>(qp->send.record), big(head & 0xffff));
		ibv_ring_behind<Steps>(at<uint64_t>(ring), first);
	}

	/* Whether the completion with this last word is new, after `consumed` ones. */
	GGAS_FN static bool is_new(uint32_t consumed, uint32_t entries, uint64_t last)
	{
		return code(last) != nobody && ((last >> 56 & 1) != 0) == ((consumed & entries) != 0);
	}

	GGAS_FN static bool failed(uint64_t last) { return code(last) == request_error || code(last) == receive_error; }

	template <class From> GGAS_FN static uint32_t syndrome(const uint64_t *entry, uint64_t)
	{
		return static_cast<uint32_t>(From::load(entry + 6) >> 56);
	}

	/* Reads a completion at `entry` whose last word is `last`. */
	template <class From>
	GGAS_FN static ggas_impl::ibv_done read(const uint64_t *entry, uint64_t last, ggas_ibv_wc *wc)
	{
		bool sent = code(last) == request || code(last) == request_error;
		wc->qp = ggas_impl::big(static_cast<uint32_t>(last)) & 0xffffff;
		if (sent)
			wc->operation = ggas_impl::wc_operation(static_cast<uint32_t>(last) & 0xff);
		else
			wc->operation = code(last) == written ? GGAS_IBV_WC_RECV_WRITE_IMM : GGAS_IBV_WC_RECV;
		if (failed(last)) {
			wc->status = ggas_impl::wc_status(syndrome<From>(entry, last));
		} else {
			wc->bytes = ggas_impl::big(static_cast<uint32_t>(From::load(entry + 5) >> 32));
			wc->has_immediate = code(last) == written || code(last) == received_immediate;
			if (wc->has_immediate)
				wc->immediate = ggas_impl::big(static_cast<uint32_t>(From::load(entry + 4) >> 32));
		}
		return { sent, ggas_impl::big(static_cast<uint32_t>(last >> 32)) >> 16 };
	}

private:
	static constexpr uint32_t request = 0, written = 1, received_immediate = 3, request_error = 13, receive_error = 14,
				  nobody = 15;

	GGAS_FN static uint32_t code(uint64_t last) { return static_cast<uint32_t>(last >> 60); }
};

#endif /* GGAS_IMPL_VERBS_MLX5_H */
