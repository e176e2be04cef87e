// SPDX-License-Identifier: MIT OR Apache-2.0
/* What UCX has to send, and what came, until the caller has it. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

void ggas_ucx_tell(struct ggas_endpoint *e, const struct ggas_event *event)
{
	struct inbox *in = &e->inbox;

	if (in->count == in->room) {
		const size_t room = in->room ? 2 * in->room : 1024;
		struct ggas_event *events = realloc(in->events, room * sizeof(*event));

		if (!events) {
			e->broken = UCS_ERR_NO_MEMORY;
			return;
		}
		in->events = events;
		in->room = room;
	}
	in->events[in->count++] = *event;
}

int ggas_ucx_offer(const struct ggas_endpoint *e, const struct ggas_event *event)
{
	return e->take ? e->take(e->whose, event) : 0;
}

ucs_status_t ggas_ucx_on_message(void *arg, const void *header, size_t header_len, void *data, size_t len,
			       const ucp_am_recv_param_t *param)
{
	const struct ggas_event event = { .kind = GGAS_MESSAGE, .bytes = data, .len = len };

	(void)header;
	if (header_len || len > MESSAGE_MAX || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK; /* not of an endpoint like this */
	ggas_ucx_offer(arg, &event);
	return UCS_OK;
}

struct parcel *ggas_ucx_parcel(struct ggas_endpoint *e, struct peer *peer, enum kind kind)
{
	const bool piece = kind == DATA || kind == WRITE || kind == LED;
	struct parcel **list = piece ? &e->free_pieces : &e->free_sends, *parcel = *list;

	if (!parcel || (piece ? peer->pieces >= PEER_PIECES : peer->sends >= PEER_SENDS))
		return NULL;
	*list = parcel->next;
	*(piece ? &peer->pieces : &peer->sends) += 1;
	parcel->peer = peer;
	parcel->kind = kind;
	parcel->op = NULL;
	parcel->region = NULL;
	parcel->led_len = 0;
	return parcel;
}

void ggas_ucx_give_back(struct parcel *parcel)
{
	struct ggas_endpoint *e = parcel->e;
	struct parcel **list = parcel->piece ? &e->free_pieces : &e->free_sends;

	parcel->next = *list;
	*list = parcel;
	*(parcel->piece ? &parcel->peer->pieces : &parcel->peer->sends) -= 1;
	ggas_ucx_free_if_over(parcel->peer);
	parcel->peer = NULL;
}

static void over(struct parcel *parcel, ucs_status_t status)
{
	struct ggas_endpoint *e = parcel->e;
	const struct ggas_event lost = { .kind = GGAS_UNSENT, .token = (uintptr_t)parcel->peer, .error = status };

	if (parcel->region)
		parcel->region->out--;
	if (parcel->op)
		ggas_ucx_piece_over(e, parcel->op, status);
	else if (parcel->kind == MESSAGE && status != UCS_OK)
		ggas_ucx_tell(e, &lost);
	ggas_ucx_give_back(parcel);
}

static void on_sent(void *request, ucs_status_t status, void *parcel)
{
	UCX(ucp_request_free)(request);
	over(parcel, status);
}

int ggas_ucx_launch(struct parcel *parcel, const void *bytes, size_t len)
{
	const bool has_head = parcel->kind != MESSAGE && parcel->kind != HELLO;
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
				UCP_OP_ATTR_FIELD_MEMORY_TYPE,
		.cb.send = on_sent,
		.user_data = parcel,
		.flags = parcel->region ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
		.memory_type = parcel->region && parcel->region->gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
	};
	struct peer *peer = parcel->peer;
	ucs_status_ptr_t request;
	int error = ggas_ucx_connect(parcel->e, peer);

	if (error) {
		ggas_ucx_give_back(parcel);
		return error;
	}
	request = UCX(ucp_am_send_nbx)(peer->ep, parcel->kind, has_head ? &parcel->head : NULL,
				       has_head ? sizeof(parcel->head) + parcel->led_len : 0, bytes, len, &param);
	if (UCS_PTR_IS_PTR(request))
		return 0;
	error = UCS_PTR_STATUS(request);
	if (error) {
		ggas_ucx_peer_failed(parcel->e, peer, error);
		ggas_ucx_give_back(parcel);
		return error;
	}
	over(parcel, UCS_OK);
	return 0;
}

