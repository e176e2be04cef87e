/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Taking completions of mlx4; included by verbs.cuh. */
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

GGAS_FN uint32_t wc_operation(uint32_t code, bool sent)
{
	if (!sent)
		return code == 0 ? GGAS_IBV_WC_RECV_WRITE_IMM : GGAS_IBV_WC_RECV;
	switch (code) {
	case mlx4_write:
	case mlx4_write_imm:
		return GGAS_IBV_WC_WRITE;
	case mlx4_read:
		return GGAS_IBV_WC_READ;
	case mlx4_cmp_swap:
		return GGAS_IBV_WC_CMP_SWAP;
	case mlx4_fetch_add:
		return GGAS_IBV_WC_FETCH_ADD;
	default:
		return GGAS_IBV_WC_SEND;
	}
}

/* Evaluates a completion at `entry`, in the queue (`From` counts it) or in shared memory; `last` is its last word. One thread. */
template <class From, class Memory>
GGAS_FN void evaluate(const ggas_ibv_cq *cq, const uint64_t *entry, uint64_t last, ggas_ibv_wc *wc)
{
	uint64_t words[3];
	for (int i = 0; i < 3; i++)
		words[i] = From::load(entry + i);
	uint32_t code = static_cast<uint32_t>(last >> 56) & cqe_code;
	bool sent = last >> 56 & cqe_sent, failed = code == cqe_error;
	*wc = ggas_ibv_wc{};
	wc->qp = big(static_cast<uint32_t>(words[0])) & 0xffffff;
	wc->status = failed ? wc_status(static_cast<uint32_t>(last >> 24) & 0xff) : GGAS_IBV_WC_SUCCESS;
	wc->operation = wc_operation(code, sent);
	if (!failed) {
		wc->bytes = big(static_cast<uint32_t>(words[2] >> 32));
		wc->has_immediate = !sent && (code == 0 || code == 2);
		wc->immediate = big(static_cast<uint32_t>(words[0] >> 32));
	}
	ggas_ibv_qp *qp = find_qp<Memory>(at<const ggas_ibv_ctx>(cq->ctx), wc->qp);
	if (!qp)
		return;
	/* All up to the one that the completion names are complete: unsignaled ones say nothing. */
	ggas_ibv_wq &queue = sent ? qp->send : qp->receive;
	uint32_t index = big(static_cast<uint32_t>(last)) >> 16;
	queue.tail += static_cast<uint16_t>(index - queue.tail);
	wc->id = Memory::load(at<uint64_t>(queue.ids) + (queue.tail & (queue.entries - 1)));
	queue.tail++;
}

/* Whether a completion with this last word is new. */
GGAS_FN bool is_new(const ggas_ibv_cq *cq, uint64_t last)
{
	return (last >> 63 != 0) == ((cq->consumed & cq->entries) != 0);
}

template <class Memory> GGAS_FN void consume(ggas_ibv_cq *cq)
{
	cq->consumed++;
	Memory::store_release(at<uint32_t>(cq->record), big(cq->consumed & 0xffffff));
}

template <class Steps, ggas_scope Scope> GGAS_FN int ibv_poll_cq(ggas_ibv_cq *cq, ggas_ibv_wc *wc)
{
	using team = put_team<Scope>;
	using memory = typename Steps::memory;
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
		found = is_new(cq, last);
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
			evaluate<ibv_memory, memory>(cq, shared, last, &done);
		else if constexpr (Steps::handles)
			evaluate<memory, memory>(cq, entry, last, &done);
		else if ((last >> 56 & cqe_code) == cqe_error)
			done.status = wc_status(static_cast<uint32_t>(last >> 24) & 0xff);
		consume<memory>(cq);
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
