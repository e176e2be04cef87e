/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Taking completions; included by verbs.cuh. */
#ifndef GGAS_IMPL_VERBS_POLL_H
#define GGAS_IMPL_VERBS_POLL_H

namespace ggas_impl
{

/* The queue pair of a number, or 0. */
template <class Memory> GGAS_FN ggas_ibv_qp *find_qp(const ggas_ibv_ctx *ctx, uint32_t number)
{
	for (uint32_t i = 0; i <= ctx->qp_mask; i++) {
		uint64_t found = Memory::load(at<uint64_t>(ctx->qp_table) + ((number + i) & ctx->qp_mask));
		if (found == 0)
			return nullptr;
		if (at<ggas_ibv_qp>(found)->number == number)
			return at<ggas_ibv_qp>(found);
	}
	return nullptr;
}

/* Evaluates a completion at `entry`, in the queue (`From` counts it) or in shared memory; `last` is its last word. One thread. */
template <class Format, class From, class Memory>
GGAS_FN void evaluate(const ggas_ibv_cq *cq, const uint64_t *entry, uint64_t last, ggas_ibv_wc *wc)
{
	*wc = ggas_ibv_wc{};
	ibv_done done = Format::template read<From>(entry, last, wc);
	ggas_ibv_qp *qp = find_qp<Memory>(at<const ggas_ibv_ctx>(cq->ctx), wc->qp);
	if (!qp)
		return;
	/* All up to the one that the completion names are complete: unsignaled ones say nothing. */
	ggas_ibv_wq &queue = done.sent ? qp->send : qp->receive;
	queue.tail += static_cast<uint16_t>(done.index - queue.tail);
	wc->id = Memory::load(at<uint64_t>(queue.ids) + (queue.tail & (queue.entries - 1)));
	queue.tail++;
}

/* From step 5 on the adapter hears of each quarter of the entries only. */
template <class Steps> GGAS_FN void ibv_consume(ggas_ibv_cq *cq)
{
	uint32_t consumed = ++cq->consumed, quarter = cq->entries < 4 ? 1 : cq->entries / 4;
	if (!Steps::near || consumed % quarter == 0)
		ibv_store_behind<Steps>(at<uint32_t>(cq->record), big(consumed & 0xffffff));
}

template <class Steps, ggas_scope Scope> GGAS_FN int ibv_poll_cq(ggas_ibv_cq *cq, ggas_ibv_wc *wc)
{
	using team = put_team<Scope>;
	using memory = typename Steps::memory;
	using format = typename Steps::format;
	constexpr uint32_t cqe_words = format::cqe_words;
	/* All have what the last call, or their own code, gave to one of them. */
	team::meet();
	const uint64_t *entry =
		at<const uint64_t>(cq->buffer) + (cq->consumed & (cq->entries - 1)) * static_cast<uint64_t>(cqe_words);
	verbs_room<Scope> room;
	uint64_t *shared = room.words();
	constexpr bool copies = Steps::shared && Steps::handles && Scope != ggas_scope::thread;
	uint64_t last = 0;
	int found = 0;
	if (team::thread() == 0) {
		last = memory::load_acquire(entry + cqe_words - 1);
		found = format::is_new(cq->consumed, cq->entries, last);
	}
	found = team::agree(found);
	if (!found)
		return 0;
	if constexpr (copies) {
		for (uint32_t word = team::thread(); word < cqe_words; word += team::threads())
			ggas_store_relaxed(shared + word, memory::load_beside(entry + word, word == 0));
		team::meet();
	}
	uint64_t *result = shared + (copies ? cqe_words : 0);
	if (team::thread() == 0) {
		ggas_ibv_wc done{};
		if constexpr (Steps::handles && copies)
			evaluate<format, ibv_memory, memory>(cq, shared, last, &done);
		else if constexpr (Steps::handles)
			evaluate<format, memory, memory>(cq, entry, last, &done);
		else if (format::failed(last))
			done.status = wc_status(format::template syndrome<memory>(entry, last));
		ibv_consume<Steps>(cq);
		if constexpr (Scope == ggas_scope::thread) {
			*wc = done;
			return 1;
		}
		result[0] = done.id;
		result[1] = pair(done.status, done.operation);
		result[2] = pair(done.bytes, done.immediate);
		result[3] = pair(done.qp, done.has_immediate);
	}
	team::meet();
	wc->id = result[0];
	wc->status = static_cast<uint32_t>(result[1]);
	wc->operation = static_cast<uint32_t>(result[1] >> 32);
	wc->bytes = static_cast<uint32_t>(result[2]);
	wc->immediate = static_cast<uint32_t>(result[2] >> 32);
	wc->qp = static_cast<uint32_t>(result[3]);
	wc->has_immediate = static_cast<uint32_t>(result[3] >> 32);
	return 1;
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_VERBS_POLL_H */
