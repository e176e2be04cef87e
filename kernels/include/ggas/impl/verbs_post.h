/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Posting requests and receives; included by verbs.cuh. */
#ifndef GGAS_IMPL_VERBS_POST_H
#define GGAS_IMPL_VERBS_POST_H

namespace ggas_impl
{

/* Writes words of a request, first to last but for the first one: that says whose the request is. To the queue, or to shared
 * memory. */
template <class Memory> struct request_writer {
	uint64_t *words;
	uint32_t count;
	GGAS_FN void put(uint64_t word) { Memory::store(words + count++, word); }
};

/* Whether an object is of a context whose queues have this format. */
template <class Format> GGAS_FN bool ibv_speaks(uint64_t ctx)
{
	return at<const ggas_ibv_ctx>(ctx)->format == Format::number;
}

template <class Format> GGAS_FN int ibv_check_send(const ggas_ibv_qp *qp, const ggas_ibv_send_wr &wr)
{
	bool atomic = wr.operation == GGAS_IBV_CMP_SWAP || wr.operation == GGAS_IBV_FETCH_ADD;
	if (!ibv_speaks<Format>(qp->ctx))
		return GGAS_ERR_ARGUMENT;
	if (wr.operation > GGAS_IBV_FETCH_ADD || wr.sges > qp->send.sges || wr.sges > GGAS_IBV_SGES)
		return GGAS_ERR_ARGUMENT;
	if (atomic && (wr.sges != 1 || wr.sge[0].bytes != 8))
		return GGAS_ERR_ARGUMENT;
	GGAS_UNROLL
	for (uint32_t i = 0; i < GGAS_IBV_SGES; i++) {
		if (i >= wr.sges)
			break;
		if (wr.sge[i].bytes >> 31)
			return GGAS_ERR_ARGUMENT;
	}
	return qp->send.head - qp->send.tail < qp->send.most ? GGAS_OK : GGAS_ERR_WOULD_BLOCK;
}

GGAS_FN uint32_t ibv_code(uint32_t operation)
{
	switch (operation) {
	case GGAS_IBV_WRITE:
		return ibv_write;
	case GGAS_IBV_WRITE_IMM:
		return ibv_write_imm;
	case GGAS_IBV_SEND:
		return ibv_send;
	case GGAS_IBV_SEND_IMM:
		return ibv_send_imm;
	case GGAS_IBV_READ:
		return ibv_read;
	case GGAS_IBV_CMP_SWAP:
		return ibv_cmp_swap;
	default:
		return ibv_fetch_add;
	}
}

template <class Steps, class Memory>
GGAS_FN void put_sges(request_writer<Memory> &to, const ggas_ibv_sge *sge, uint32_t sges)
{
	/* Each by its number, so that a request of the caller's may stay in registers. */
	GGAS_UNROLL
	for (uint32_t i = 0; i < GGAS_IBV_SGES; i++) {
		if (i >= sges)
			break;
		/* A length of 0 would be 2^31. */
		if (sge[i].bytes == 0)
			continue;
		to.put(pair(big(sge[i].bytes), Steps::fixed ? sge[i].lkey : big(sge[i].lkey)));
		to.put(big(sge[i].address));
	}
}

/* One thread makes a request at `words`, in the queue (`Into` counts it) or in shared memory, but for the first word, which it
 * returns. `words_used`: its words. */
template <class Steps, class Into>
GGAS_FN uint64_t make_request(const ggas_ibv_qp *qp, const ggas_ibv_send_wr &wr, uint64_t *words, uint32_t *words_used)
{
	uint32_t operation = wr.operation;
	request_writer<Into> to{ words, 1 };
	to.put(pair(big(Steps::format::flags(wr.flags)), big(wr.immediate)));
	if (operation != GGAS_IBV_SEND && operation != GGAS_IBV_SEND_IMM) {
		to.put(big(wr.remote));
		to.put(pair(Steps::fixed ? wr.rkey : big(wr.rkey), 0));
	}
	if (operation == GGAS_IBV_CMP_SWAP || operation == GGAS_IBV_FETCH_ADD) {
		bool swaps = operation == GGAS_IBV_CMP_SWAP;
		to.put(big(swaps ? wr.swap : wr.compare_add));
		to.put(swaps ? big(wr.compare_add) : 0);
	}
	put_sges<Steps>(to, wr.sge, wr.sges);
	*words_used = to.count;
	return Steps::format::first(qp, ibv_code(operation), to.count / 2, wr.flags);
}

/* A scope's copy of what it makes or reads in shared memory: words, and how many. */
template <ggas_scope Scope> struct verbs_room;
template <> struct verbs_room<ggas_scope::thread> {
	/* A thread alone has nobody to copy with: it needs none. */
	GGAS_FN uint64_t *words() { return nullptr; }
};
template <> struct verbs_room<ggas_scope::warp> {
	GGAS_FN uint64_t *words()
	{
		GGAS_SHARED_ARRAY(uint64_t, room, 32 * (wqe_words + 1));
		return room + ggas_warp() * (wqe_words + 1);
	}
};
template <> struct verbs_room<ggas_scope::block> {
	GGAS_FN uint64_t *words()
	{
		GGAS_SHARED_ARRAY(uint64_t, room, wqe_words + 1);
		return room;
	}
};

template <class Steps, ggas_scope Scope> GGAS_FN int ibv_post_send(ggas_ibv_qp *qp, const ggas_ibv_send_wr &wr)
{
	using team = put_team<Scope>;
	using memory = typename Steps::memory;
	team::meet();
	if constexpr (Steps::handles) {
		if (int error = team::agree(team::thread() == 0 ? ibv_check_send<typename Steps::format>(qp, wr) : GGAS_OK))
			return error;
	}
	const ggas_ibv_wq &queue = qp->send;
	uint32_t place = queue.head & (queue.entries - 1);
	uint64_t *entry = at<uint64_t>(queue.buffer + place * queue.stride);
	constexpr bool copies = Steps::shared && Scope != ggas_scope::thread;
	verbs_room<Scope> room;
	uint64_t *made = copies ? room.words() : entry;
	uint64_t first = 0;
	uint32_t used = 0;
	if (team::thread() == 0) {
		if constexpr (Steps::handles)
			memory::store(at<uint64_t>(queue.ids) + place, wr.id);
		if constexpr (copies) {
			first = make_request<Steps, ibv_memory>(qp, wr, made, &used);
			made[wqe_words] = used;
		} else {
			first = make_request<Steps, memory>(qp, wr, made, &used);
		}
	}
	if constexpr (copies) {
		team::meet();
		for (uint32_t word = 1 + team::thread(); word < made[wqe_words]; word += team::threads())
			memory::store_beside(entry + word, ggas_load_relaxed(made + word), word == 1);
		team::meet();
	}
	if (team::thread() == 0)
		Steps::format::template publish<Steps>(qp, entry, first);
	team::meet();
	return GGAS_OK;
}

template <class Steps, ggas_scope Scope> GGAS_FN int ibv_post_recv(ggas_ibv_qp *qp, const ggas_ibv_recv_wr &wr)
{
	using team = put_team<Scope>;
	using memory = typename Steps::memory;
	team::meet();
	int error = GGAS_OK;
	if (team::thread() == 0) {
		ggas_ibv_wq &queue = qp->receive;
		if (Steps::handles && (wr.sges > queue.sges || wr.sges > GGAS_IBV_SGES))
			error = GGAS_ERR_ARGUMENT;
		else if (Steps::handles && !ibv_speaks<typename Steps::format>(qp->ctx))
			error = GGAS_ERR_ARGUMENT;
		else if (Steps::handles && queue.head - queue.tail >= queue.most)
			error = GGAS_ERR_WOULD_BLOCK;
		if (!error) {
			uint32_t place = queue.head & (queue.entries - 1);
			request_writer<memory> to{ at<uint64_t>(queue.buffer + place * queue.stride), 0 };
			put_sges<Steps>(to, wr.sge, wr.sges);
			if (to.count * 8 < queue.stride)
				to.put(pair(0, big(ibv_no_key)));
			if constexpr (Steps::handles)
				memory::store(at<uint64_t>(queue.ids) + place, wr.id);
			queue.head++;
			ibv_store_behind<Steps>(at<uint32_t>(queue.record), big(queue.head & 0xffff));
		}
	}
	return team::agree(error);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_VERBS_POST_H */
