// SPDX-License-Identifier: MIT OR Apache-2.0
/* What this process reads and writes of others' memory: operations, until their end is told. */
#include "ucx.h"

#include <string.h>

void ggas_ucx_transfers_open(struct ggas_endpoint *e)
{
	for (int i = 0; i < OPERATIONS; i++) {
		e->operations[i].next = e->free_operations;
		e->free_operations = &e->operations[i];
	}
}

int ggas_ucx_import(struct ggas_endpoint *e, uint64_t peer, const void *key, size_t len, uint64_t *remote)
{
	(void)e;
	(void)peer;
	if (len != sizeof(*remote))
		return UCS_ERR_INVALID_PARAM;
	memcpy(remote, key, len);
	return 0;
}

void ggas_ucx_forget(struct ggas_endpoint *e, uint64_t remote)
{
	(void)e;
	(void)remote;
}

/* Tells the end of an operation, if it is over and UCX reads nothing for it. */
static void settle(struct ggas_endpoint *e, struct op *op)
{
	struct ggas_event event = { .kind = GGAS_DONE, .token = op->token, .error = op->status };

	if (op->out || !(op->status || (op->answered && (op->is_write || op->moved == op->len))))
		return;
	if (op->status)
		event.kind = GGAS_FAILED;
	op->peer = NULL;
	op->id = 0;
	op->next = e->free_operations;
	e->free_operations = op;
	ggas_ucx_tell(e, &event);
}

static void op_failed(struct ggas_endpoint *e, struct op *op, int status)
{
	op->status = op->status ? op->status : status;
	settle(e, op);
}

void ggas_ucx_piece_over(struct ggas_endpoint *e, struct op *op, int status)
{
	op->out--;
	op_failed(e, op, status);
}

void ggas_ucx_fail_operations(struct ggas_endpoint *e, struct peer *peer, int status)
{
	for (int i = 0; i < OPERATIONS; i++) {
		if (e->operations[i].peer == peer)
			op_failed(e, &e->operations[i], status);
	}
}

/* The operation that an answer is for; NULL: there is none any more. */
static struct op *answered(struct ggas_endpoint *e, const struct head *head, bool is_write)
{
	struct op *op = &e->operations[head->op % OPERATIONS];

	return op->peer && op->id == head->op && op->is_write == is_write ? op : NULL;
}

/* Begins an operation; an error, or AGAIN, if that cannot be now. */
static int begin(struct ggas_endpoint *e, struct peer *peer, const struct ggas_span *span, uint64_t token,
		 struct op **begun)
{
	const struct region *local = (void *)(uintptr_t)span->region;
	struct op *op = e->free_operations;
	uint64_t number;
	int error = peer->failed;

	if (!error && !op)
		error = GGAS_AGAIN;
	if (!error)
		error = ggas_ucx_draw(e, &number);
	if (!error)
		error = ggas_ucx_greet(e, peer);
	if (error)
		return error;
	e->free_operations = op->next;
	*op = (struct op){ .peer = peer, .e = e, .token = token, .local = span->local, .len = span->len };
	op->gpu = local && local->gpu;
	op->id = number / OPERATIONS * OPERATIONS + (uint64_t)(op - e->operations);
	*begun = op;
	return 0;
}

/* It never began. */
static void take_back(struct ggas_endpoint *e, struct op *op)
{
	op->peer = NULL;
	op->id = 0;
	op->next = e->free_operations;
	e->free_operations = op;
}

static struct head head_of(const struct ggas_endpoint *e, const struct op *op, const struct ggas_span *span)
{
	return (struct head){
		.from = e->id, .op = op->id, .key = span->remote, .offset = span->offset, .len = span->len
	};
}

int ggas_ucx_write(struct ggas_endpoint *e, uint64_t to, const struct ggas_span *span, const uint32_t *immediate,
		   uint64_t token)
{
	struct peer *peer = (void *)(uintptr_t)to;
	struct chore *chore;
	struct head head;
	struct op *op;
	int error = begin(e, peer, span, token, &op);

	if (error)
		return error;
	if (op->gpu) {
		take_back(e, op);
		return UCS_ERR_UNSUPPORTED;
	}
	op->is_write = true;
	head = head_of(e, op, span);
	head.notify = immediate != NULL;
	head.immediate = immediate ? *immediate : 0;
	chore = ggas_ucx_add_chore(e, peer, WRITE, &head);
	if (!chore) {
		take_back(e, op);
		return GGAS_AGAIN;
	}
	chore->op = op;
	/* Errors from here on are events. */
	ggas_ucx_enter_gpu(e);
	ggas_ucx_serve(e);
	ggas_ucx_leave_gpu(e);
	return 0;
}

bool ggas_ucx_put(struct ggas_endpoint *e, struct chore *chore)
{
	const uint64_t left = chore->head.len - chore->sent, len = left < PIECE ? left : PIECE;
	struct op *op = chore->op;
	struct parcel *parcel;

	if (op->id != chore->head.op || op->status)
		return true;
	parcel = ggas_ucx_parcel(e, chore->peer, WRITE);
	if (!parcel)
		return false;
	parcel->head = chore->head;
	parcel->head.offset += chore->sent;
	parcel->head.last = len == left;
	parcel->op = op;
	op->out++;
	if (ggas_ucx_launch(parcel, op->local + chore->sent, len)) {
		ggas_ucx_piece_over(e, op, UCS_ERR_IO_ERROR);
		return true;
	}
	chore->sent += len;
	return len == left;
}

/* One message, which is over when UCX has sent it: nobody answers. */
int ggas_ucx_write_behind(struct ggas_endpoint *e, uint64_t to, const void *head, size_t head_len,
			  const struct ggas_span *span, uint32_t immediate, uint64_t token)
{
	struct peer *peer = (void *)(uintptr_t)to;
	struct parcel *parcel;
	struct op *op;
	int error = begin(e, peer, span, token, &op);

	if (error)
		return error;
	if (op->gpu) {
		take_back(e, op);
		return UCS_ERR_UNSUPPORTED;
	}
	op->is_write = op->answered = true;
	parcel = ggas_ucx_parcel(e, peer, LED);
	if (!parcel) {
		take_back(e, op);
		return GGAS_AGAIN;
	}
	parcel->head = head_of(e, op, span);
	parcel->head.immediate = immediate;
	parcel->led_len = head_len;
	memcpy(parcel->led, head, head_len);
	parcel->op = op;
	op->out++;
	error = ggas_ucx_launch(parcel, span->local, span->len);
	if (!error)
		return 0;
	/* Where the peer's failure has ended the operation, its event tells. */
	op->out--;
	if (op->status) {
		op_failed(e, op, error);
		return 0;
	}
	take_back(e, op);
	return error;
}

ucs_status_t ggas_ucx_on_answer(void *arg, const void *header, size_t header_len, void *data, size_t len,
				const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head;
	struct op *op;

	(void)data;
	(void)len;
	(void)param;
	if (header_len != sizeof(head))
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	op = answered(e, &head, true);
	if (!op)
		return UCS_OK;
	op->answered = true;
	op_failed(e, op, head.status);
	return UCS_OK;
}

int ggas_ucx_read(struct ggas_endpoint *e, uint64_t of, const struct ggas_span *span, uint64_t token)
{
	struct peer *peer = (void *)(uintptr_t)of;
	struct parcel *parcel = NULL;
	struct op *op;
	int error = begin(e, peer, span, token, &op);

	if (error)
		return error;
	parcel = ggas_ucx_parcel(e, peer, READ);
	if (!parcel) {
		take_back(e, op);
		return GGAS_AGAIN;
	}
	parcel->head = head_of(e, op, span);
	parcel->head.whole = op->gpu;
	/* If this fails the peer has failed, which ends the operation with an event. */
	ggas_ucx_launch(parcel, NULL, 0);
	return 0;
}

static void received(struct ggas_endpoint *e, struct op *op, ucs_status_t status)
{
	if (status == UCS_OK)
		op->moved = op->len;
	ggas_ucx_piece_over(e, op, status);
}

static void on_received(void *request, ucs_status_t status, size_t len, void *op)
{
	struct op *of = op;

	(void)len;
	UCX(ucp_request_free)(request);
	received(of->e, of, status);
}

/* What comes whole is UCX's to copy, into memory of either kind. */
static ucs_status_t receive(struct ggas_endpoint *e, struct op *op, const struct head *head, void *data, size_t len)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_MEMORY_TYPE,
		.cb.recv_am = on_received,
		.user_data = op,
		.memory_type = op->gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
	};
	ucs_status_ptr_t request;

	if (op->status || op->moved || op->out || head->offset || len != op->len) {
		op_failed(e, op, UCS_ERR_MESSAGE_TRUNCATED);
		return UCS_OK;
	}
	op->answered = true;
	op->out++;
	request = UCX(ucp_am_recv_data_nbx)(e->worker, data, op->local, len, &param);
	if (!UCS_PTR_IS_PTR(request))
		received(e, op, UCS_PTR_STATUS(request));
	return UCS_PTR_IS_ERR(request) ? UCS_OK : UCS_INPROGRESS;
}

ucs_status_t ggas_ucx_on_data(void *arg, const void *header, size_t header_len, void *data, size_t len,
			      const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head;
	struct op *op;

	if (header_len != sizeof(head))
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	op = answered(e, &head, false);
	if (!op)
		return UCS_OK;
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return receive(e, op, &head, data, len);
	op->answered = true;
	if (!head.status && (op->gpu || op->out || head.offset > op->len || len > op->len - head.offset))
		head.status = UCS_ERR_MESSAGE_TRUNCATED;
	if (!head.status && !op->status) {
		memcpy(op->local + head.offset, data, len);
		op->moved += len;
	}
	op_failed(e, op, head.status);
	return UCS_OK;
}
