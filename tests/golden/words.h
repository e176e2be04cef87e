/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The words of a golden vector, made by the C encoders, on the host or on a GPU. */
#ifndef GOLDEN_WORDS_H
#define GOLDEN_WORDS_H

#include "extoll/atu.h"
#include "extoll/bq.h"
#include "extoll/desc.h"
#include "extoll/noti.h"
#include "extoll/regs.h"
#include "extoll/smfu.h"
#include "extoll/trigger.h"
#include "extoll/velo.h"
#include "extoll/wcb.h"

#define GOLDEN_MAX 10	/* most arguments or words of a vector */

/* Operation, its arguments, its words. */
#define GOLDEN_OPS(X) \
	X(bt_get, 7, 3) X(qw_get, 7, 3) X(bt_put, 7, 3) X(qw_put, 7, 3) \
	X(notification_put, 6, 3) X(immediate_put, 7, 3) X(lock, 8, 3) X(page, 2, 1) \
	X(noti_transfer, 8, 2) X(noti_class, 8, 2) X(noti_immediate, 8, 2) X(noti_lock, 9, 2) \
	X(noti_unknown, 8, 2) X(nla, 3, 1) X(gat, 1, 1) X(gate, 4, 1) X(atu_flush_pages, 2, 1) \
	X(atu_flush_vpid, 1, 1) X(atu_fence, 0, 1) X(atu_notify, 1, 1) X(bq_segment, 4, 1) \
	X(bq_table, 2, 1) X(bq_rp, 2, 1) X(wcb, 1, 5) X(vpid_entry, 1, 1) X(lock_config, 2, 1) \
	X(trigger_where, 2, 1) X(trigger_what, 4, 1) X(smfu_control, 1, 1) X(smfu_interval, 4, 3) X(smfu_masked, 4, 2) \
	X(velo_page, 2, 1) X(velo_header, 7, 1) X(velo_status, 7, 1) X(velo_size, 2, 2) \
	X(velo_tx, 3, 1) X(velo_rx, 1, 1) \
	X(rf_wcb_state, 1, 1) X(rf_bq_ub, 1, 1) X(rf_bq_table, 1, 1) X(rf_bq_current, 1, 1) \
	X(rf_bq_next, 1, 1) X(rf_bq_wp, 1, 1) X(rf_bq_rp, 1, 1) X(rf_vpid_table, 1, 1) \
	X(rf_gat, 1, 1) X(rf_int_vec, 1, 1) X(rf_scratchpad, 1, 1) X(rf_link_status, 1, 1) \
	X(rf_link_ids, 1, 1) X(rf_smfu_control, 1, 1) X(rf_smfu_start, 1, 1) X(rf_smfu_end, 1, 1) \
	X(rf_smfu_count, 1, 1) X(rf_smfu_target_base, 1, 1) X(rf_velo_wcb_state, 1, 1) \
	X(rf_velo_bq_ub, 1, 1) X(rf_velo_bq_table, 1, 1) X(rf_velo_bq_current, 1, 1) \
	X(rf_velo_bq_next, 1, 1) X(rf_velo_bq_wp, 1, 1) X(rf_velo_bq_rp, 1, 1) \
	X(rf_velo_tx, 1, 1) X(rf_velo_rx, 1, 1)

#define GOLDEN_ENUM(name, arguments, words) GOLDEN_##name,
enum golden_op { GOLDEN_OPS(GOLDEN_ENUM) GOLDEN_OP_COUNT };

EXTOLL_FN int32_t golden_signed(uint64_t value)
{
	return (int32_t)(uint32_t)value;
}

EXTOLL_FN void golden_desc(struct extoll_desc desc, uint64_t *w)
{
	w[0] = desc.word[0];
	w[1] = desc.word[1];
	w[2] = desc.word[2];
}

EXTOLL_FN void golden_command(int op, const uint64_t *a, uint64_t *w)
{
	const uint32_t node = (uint32_t)a[0], vpid = (uint32_t)a[1];
	const uint32_t spec = (uint32_t)a[2], modifier = (uint32_t)a[3];

	switch (op) {
	case GOLDEN_bt_get:
	case GOLDEN_qw_get:
		golden_desc(extoll_desc_get(op == GOLDEN_qw_get, node, vpid, spec, modifier,
					    a[4], a[5], (uint32_t)a[6]), w);
		break;
	case GOLDEN_bt_put:
	case GOLDEN_qw_put:
		golden_desc(extoll_desc_put(op == GOLDEN_qw_put, node, vpid, spec, modifier,
					    a[4], a[5], (uint32_t)a[6]), w);
		break;
	case GOLDEN_notification_put:
		golden_desc(extoll_desc_notification_put(node, vpid, spec, modifier,
							 (uint32_t)a[4], a[5]), w);
		break;
	case GOLDEN_immediate_put:
		golden_desc(extoll_desc_immediate_put(node, vpid, spec, modifier,
						      (uint32_t)a[4], a[5], a[6]), w);
		break;
	default:
		golden_desc(extoll_desc_lock(node, vpid, spec, modifier, (uint32_t)a[4],
					     (uint32_t)a[5], golden_signed(a[6]),
					     golden_signed(a[7])), w);
	}
}

/* Arguments: kind command node vpid mode error, then those of the variant. */
EXTOLL_FN void golden_noti(int op, const uint64_t *a, uint64_t *w)
{
	uint32_t field = (uint32_t)a[6];

	w[0] = a[7];
	if (op == GOLDEN_noti_transfer || op == GOLDEN_noti_immediate)
		field -= 1;
	if (op == GOLDEN_noti_lock) {
		field = 0;
		w[0] = extoll_noti_lock_word0((uint32_t)a[6], (uint32_t)a[7], golden_signed(a[8]));
	}
	w[1] = extoll_noti_word1((uint32_t)a[0], (uint32_t)a[1], (uint32_t)a[2], (uint32_t)a[3],
				 (uint32_t)a[4], (uint32_t)a[5], field);
}

EXTOLL_FN void golden_smfu(int op, const uint64_t *a, uint64_t *w)
{
	struct extoll_smfu_target target;

	if (op == GOLDEN_smfu_masked) {
		target = extoll_smfu_masked(a[0], a[1], (uint32_t)a[2], a[3]);
		w[0] = target.node;
		w[1] = target.offset;
		return;
	}
	w[0] = extoll_smfu_hit(a[0], a[1], a[2], a[3]);
	w[1] = w[2] = 0;
	if (w[0]) {
		target = extoll_smfu_interval(a[0], a[1], a[3]);
		w[1] = target.node;
		w[2] = target.offset;
	}
}

EXTOLL_FN void golden_velo(int op, const uint64_t *a, uint64_t *w)
{
	const uint32_t node = (uint32_t)a[0], vpid = (uint32_t)a[1];

	switch (op) {
	case GOLDEN_velo_page:
		w[0] = extoll_velo_page((uint32_t)a[0], vpid);
		break;
	case GOLDEN_velo_header:
		w[0] = extoll_velo_header(node, vpid, (uint32_t)a[2], (uint32_t)a[3], (uint32_t)a[4]);
		if (a[5])
			w[0] = extoll_velo_to_group(w[0]);
		if (a[6])
			w[0] = extoll_velo_with_interrupt(w[0]);
		break;
	case GOLDEN_velo_status:
		w[0] = extoll_velo_status(node, vpid, (uint32_t)a[2], (uint32_t)a[3], (uint32_t)a[4],
					  (uint32_t)a[5], (uint32_t)a[6]);
		break;
	case GOLDEN_velo_size:
		w[0] = extoll_velo_quadwords((uint32_t)a[1]);
		w[1] = extoll_velo_slots((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_velo_tx:
		w[0] = extoll_velo_tx(node, vpid, (uint32_t)a[2]);
		break;
	default:
		w[0] = extoll_velo_rx((uint32_t)a[0]);
	}
}

/* Registers of VELO. */
EXTOLL_FN uint64_t golden_velo_register(int op, uint32_t i)
{
	switch (op) {
	case GOLDEN_rf_velo_wcb_state:
		return extoll_rf(EXTOLL_RF_VELO_WCB_STATE, EXTOLL_RF_VELO_WCB_STATE_STRIDE, i);
	case GOLDEN_rf_velo_bq_ub:
		return extoll_rf(EXTOLL_RF_BQ_VELO_UB, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_velo_bq_table:
		return extoll_rf(EXTOLL_RF_BQ_VELO_DCQ, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_velo_bq_current:
		return extoll_rf(EXTOLL_RF_BQ_VELO_CURRENT, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_velo_bq_next:
		return extoll_rf(EXTOLL_RF_BQ_VELO_NEXT, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_velo_bq_wp:
		return extoll_rf(EXTOLL_RF_BQ_VELO_WP, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_velo_bq_rp:
		return extoll_rf(EXTOLL_RF_BQ_VELO_RP, EXTOLL_RF_BQ_RP_STRIDE, i);
	case GOLDEN_rf_velo_tx:
		return extoll_rf(EXTOLL_RF_VELO_TX, EXTOLL_RF_VELO_DESC_STRIDE, i);
	default:
		return extoll_rf(EXTOLL_RF_VELO_RX, EXTOLL_RF_VELO_DESC_STRIDE, i);
	}
}

EXTOLL_FN uint64_t golden_register(int op, uint32_t i)
{
	if (op >= GOLDEN_rf_velo_wcb_state)
		return golden_velo_register(op, i);

	switch (op) {
	case GOLDEN_rf_wcb_state:
		return extoll_rf(EXTOLL_RF_RMA_WCB_STATE, EXTOLL_RF_RMA_WCB_STATE_STRIDE, i);
	case GOLDEN_rf_bq_ub:
		return extoll_rf(EXTOLL_RF_BQ_RMA_UB, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_bq_table:
		return extoll_rf(EXTOLL_RF_BQ_RMA_DCQ, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_bq_current:
		return extoll_rf(EXTOLL_RF_BQ_RMA_CURRENT, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_bq_next:
		return extoll_rf(EXTOLL_RF_BQ_RMA_NEXT, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_bq_wp:
		return extoll_rf(EXTOLL_RF_BQ_RMA_WP, EXTOLL_RF_BQ_STRIDE, i);
	case GOLDEN_rf_bq_rp:
		return extoll_rf(EXTOLL_RF_BQ_RMA_RP, EXTOLL_RF_BQ_RP_STRIDE, i);
	case GOLDEN_rf_vpid_table:
		return extoll_rf(EXTOLL_RF_RMA_VPID_TABLE, EXTOLL_RF_RMA_VPID_TABLE_STRIDE, i);
	case GOLDEN_rf_gat:
		return extoll_rf(EXTOLL_RF_ATU_GAT, EXTOLL_RF_ATU_GAT_STRIDE, i);
	case GOLDEN_rf_int_vec:
		return extoll_rf(EXTOLL_RF_RMA_INT_VEC, EXTOLL_RF_RMA_INT_VEC_STRIDE, i);
	case GOLDEN_rf_scratchpad:
		return extoll_rf(EXTOLL_RF_INFO_SCRATCHPAD, EXTOLL_RF_INFO_SCRATCHPAD_STRIDE, i);
	case GOLDEN_rf_link_status:
		return extoll_rf(EXTOLL_RF_LINK_STATUS, EXTOLL_RF_LINK_STRIDE, i);
	case GOLDEN_rf_link_ids:
		return extoll_rf(EXTOLL_RF_LINK_IDS, EXTOLL_RF_LINK_STRIDE, i);
	case GOLDEN_rf_smfu_control:
		return extoll_rf(EXTOLL_RF_SMFU_INTERVAL_CONTROL, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i);
	case GOLDEN_rf_smfu_start:
		return extoll_rf(EXTOLL_RF_SMFU_INTERVAL_START, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i);
	case GOLDEN_rf_smfu_end:
		return extoll_rf(EXTOLL_RF_SMFU_INTERVAL_END, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i);
	case GOLDEN_rf_smfu_count:
		return extoll_rf(EXTOLL_RF_SMFU_INTERVAL_COUNT, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i);
	default:
		return extoll_rf(EXTOLL_RF_SMFU_VPID_T_START_ADDR,
				 EXTOLL_RF_SMFU_VPID_T_START_ADDR_STRIDE, i);
	}
}

EXTOLL_FN void golden_words(int op, const uint64_t *a, uint64_t *w)
{
	switch (op) {
	case GOLDEN_page:
		w[0] = extoll_page_offset((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_nla:
		w[0] = extoll_nla((uint32_t)a[0], (uint32_t)a[1], (uint32_t)a[2]);
		break;
	case GOLDEN_gat:
		w[0] = extoll_gat_register(a[0]);
		break;
	case GOLDEN_gate:
		w[0] = extoll_gate((uint32_t)a[0], (uint32_t)a[1], a[2], (uint32_t)a[3]);
		break;
	case GOLDEN_atu_flush_pages:
		w[0] = extoll_atu_flush_pages((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_atu_flush_vpid:
		w[0] = extoll_atu_flush_vpid((uint32_t)a[0]);
		break;
	case GOLDEN_atu_fence:
		w[0] = extoll_atu_fence();
		break;
	case GOLDEN_atu_notify:
		w[0] = extoll_atu_notify(a[0]);
		break;
	case GOLDEN_bq_segment:
		w[0] = extoll_bq_segment((uint32_t)a[0], (uint32_t)a[1], a[2]);
		if (a[3])
			w[0] = extoll_bq_segment_valid(w[0]);
		break;
	case GOLDEN_bq_table:
		w[0] = extoll_bq_dcq(a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_bq_rp:
		w[0] = extoll_bq_rp((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_wcb:
		w[0] = extoll_wcb_committed(a[0]);
		w[1] = extoll_wcb_retry(a[0]);
		w[2] = extoll_wcb_idle(a[0]);
		w[3] = extoll_wcb_rejected(a[0]);
		w[4] = extoll_wcb_acknowledged(a[0]);
		break;
	case GOLDEN_vpid_entry:
		w[0] = extoll_vpid_entry((uint32_t)a[0]);
		break;
	case GOLDEN_lock_config:
		w[0] = extoll_lock_config((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_trigger_where:
		w[0] = extoll_trigger_where((uint32_t)a[0], (uint32_t)a[1]);
		break;
	case GOLDEN_trigger_what:
		w[0] = extoll_trigger_what((uint32_t)a[0], (uint32_t)a[1], (uint32_t)a[2], (uint32_t)a[3]);
		break;
	case GOLDEN_smfu_control:
		w[0] = extoll_smfu_control((uint32_t)a[0]);
		break;
	case GOLDEN_smfu_interval:
	case GOLDEN_smfu_masked:
		golden_smfu(op, a, w);
		break;
	default:
		if (op <= GOLDEN_lock)
			golden_command(op, a, w);
		else if (op <= GOLDEN_noti_unknown)
			golden_noti(op, a, w);
		else if (op >= GOLDEN_velo_page && op <= GOLDEN_velo_rx)
			golden_velo(op, a, w);
		else
			w[0] = golden_register(op, (uint32_t)a[0]);
	}
}

/* The arguments of a notification or a status, read back by the C decoders; others unchanged. */
EXTOLL_FN void golden_arguments(int op, const uint64_t *w, uint64_t *a)
{
	if (op == GOLDEN_velo_status) {
		a[0] = extoll_velo_status_node(w[0]);
		a[1] = extoll_velo_status_vpid(w[0]);
		a[2] = extoll_velo_status_mtt(w[0]);
		a[3] = extoll_velo_status_end(w[0]);
		a[4] = extoll_velo_status_error(w[0]);
		a[5] = extoll_velo_status_tag(w[0]);
		a[6] = extoll_velo_status_length(w[0]);
	}
	if (op < GOLDEN_noti_transfer || op > GOLDEN_noti_unknown)
		return;
	a[0] = extoll_noti_kind(w[1]);
	a[1] = extoll_noti_command(w[1]);
	a[2] = extoll_noti_node(w[1]);
	a[3] = extoll_noti_vpid(w[1]);
	a[4] = extoll_noti_mode(w[1]);
	a[5] = extoll_noti_error(w[1]);
	if (op == GOLDEN_noti_lock) {
		a[6] = extoll_noti_lock_number(w[0]);
		a[7] = extoll_noti_lock_result(w[0]);
		a[8] = (uint32_t)extoll_noti_lock_value(w[0]);
	} else {
		a[6] = op == GOLDEN_noti_class ? extoll_noti_class(w[1]) : extoll_noti_size(w[1]);
		if (op == GOLDEN_noti_unknown)
			a[6] -= 1;
		a[7] = w[0];
	}
}

#endif /* GOLDEN_WORDS_H */
