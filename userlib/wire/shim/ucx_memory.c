// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Regions, and what is read and written of them: by messages in pieces, which the owner sends or takes only if the key
 * allows it at that time. So memory that was taken back is touched no more. What only UCX can copy is one message, and memory
 * that it still reads then cannot be taken back.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

void ggas_ucx_memory_open(struct ggas_endpoint *e)
{
	e->last_chore = &e->chores;
	for (int i = 0; i < OPERATIONS; i++) {
		e->operations[i].next = e->free_operations;
		e->free_operations = &e->operations[i];
	}
}

void ggas_ucx_memory_close(struct ggas_endpoint *e)
{
	struct chore *chore;
	struct region *region;

	while ((chore = e->chores)) {
		e->chores = chore->next;
		free(chore);
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		while ((region = e->regions[i])) {
			e->regions[i] = region->next;
			free(region);
		}
	}
}

int ggas_ucx_reg(struct ggas_endpoint *e, void *memory, size_t len, uint32_t access, uint64_t *made, void *key,
		 size_t *key_len)
{
	const bool gpu = access & GGAS_ACCESS_GPU;
	struct region *region = calloc(1, sizeof(*region));
	int error = region ? ggas_ucx_draw(e, &region->key) : UCS_ERR_NO_MEMORY;

	if (!error && gpu && (!e->gpu || access == (GGAS_ACCESS_ALL | GGAS_ACCESS_GPU)))
		error = UCS_ERR_UNSUPPORTED;
	if (error) {
		free(region);
		return error;
	}
	region->memory = memory;
	region->len = len;
	region->access = access & ~GGAS_ACCESS_GPU;
	region->gpu = gpu;
	if (gpu)
		ggas_ucx_use_gpu(e, memory);
	region->next = e->regions[region->key % BUCKETS];
	e->regions[region->key % BUCKETS] = region;
	memcpy(key, &region->key, sizeof(region->key));
	*key_len = sizeof(region->key);
	*made = (uintptr_t)region;
	return 0;
}

int ggas_ucx_unreg(struct ggas_endpoint *e, uint64_t which)
{
	struct region *region = (void *)(uintptr_t)which, **at = &e->regions[region->key % BUCKETS];

	region->access = GGAS_ACCESS_LOCAL;
	if (region->out)
		return GGAS_AGAIN;
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	free(region);
	return 0;
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

/* The region of a key; NULL: that does not allow access to these bytes of it. */
static struct region *opened(const struct ggas_endpoint *e, const struct head *head, uint64_t offset, uint64_t len,
			     bool write)
{
	struct region *region = e->regions[head->key % BUCKETS];

	while (region && region->key != head->key)
		region = region->next;
	if (!region || region->access == GGAS_ACCESS_LOCAL || (write && region->access != GGAS_ACCESS_ALL))
		return NULL;
	return offset <= region->len && len <= region->len - offset ? region : NULL;
}

/* Where these bytes of the key's region are; NULL: the key does not allow it. */
static char *allowed(const struct ggas_endpoint *e, const struct head *head, uint64_t offset, uint64_t len, bool write)
{
	struct region *region = opened(e, head, offset, len, write);

	return region ? region->memory + offset : NULL;
}

static struct chore *add_chore(struct ggas_endpoint *e, struct peer *peer, enum kind kind, const struct head *head)
{
	struct chore *chore = e->chore_count < CHORES_MAX ? calloc(1, sizeof(*chore)) : NULL;

	if (!chore)
		return NULL;
	chore->peer = peer;
	chore->kind = kind;
	chore->head = *head;
	*e->last_chore = chore;
	e->last_chore = &chore->next;
	e->chore_count++;
	return chore;
}

void ggas_ucx_drop_chores(struct ggas_endpoint *e, struct peer *peer)
{
	/* They may be in use just now: the next look takes them away. */
	for (struct chore *chore = e->chores; chore; chore = chore->next) {
		if (chore->peer == peer)
			chore->peer = NULL;
	}
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

/* Has UCX read what one of us cannot copy, as one message. */
static void give_whole(struct parcel *parcel, struct region *region, const struct head *head)
{
	parcel->region = region;
	region->out++;
	if (ggas_ucx_launch(parcel, region->memory + head->offset, head->len))
		region->out--;
}

/* Sends a part of what was read. Whether that was the last one. */
static bool give(struct ggas_endpoint *e, struct chore *chore)
{
	const struct head *head = &chore->head;
	const uint64_t left = head->len - chore->sent, len = left < PIECE ? left : PIECE;
	const char *from = allowed(e, head, head->offset + chore->sent, len, false);
	struct region *region = opened(e, head, head->offset, head->len, false);
	struct parcel *parcel = ggas_ucx_parcel(e, chore->peer, DATA);

	if (!parcel)
		return false;
	parcel->head = (struct head){ .op = head->op, .offset = chore->sent };
	if (region && head->len && (region->gpu || head->whole)) {
		give_whole(parcel, region, head);
		return true;
	}
	if (!from || head->whole) {
		parcel->head.status = UCS_ERR_REJECTED;
		ggas_ucx_launch(parcel, NULL, 0);
		return true;
	}
	/* A copy: the memory may be taken back before UCX has sent it. */
	memcpy(parcel->buffer, from, len);
	chore->sent += len;
	return ggas_ucx_launch(parcel, parcel->buffer, len) || chore->sent == head->len;
}

/* Sends a part of what is written. Whether that was the last one. */
static bool put(struct ggas_endpoint *e, struct chore *chore)
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

static bool answer(struct ggas_endpoint *e, struct chore *chore)
{
	struct parcel *parcel = ggas_ucx_parcel(e, chore->peer, ANSWER);

	if (!parcel)
		return false;
	parcel->head = chore->head;
	ggas_ucx_launch(parcel, NULL, 0);
	return true;
}

/* Goes on with a chore while there is room. Whether it is over. */
static bool work(struct ggas_endpoint *e, struct chore *chore)
{
	while (chore->peer) {
		struct peer *peer = chore->peer;
		const uint32_t room = peer->pieces < PEER_PIECES && e->free_pieces;
		const bool over = chore->kind == DATA  ? room && give(e, chore) :
				  chore->kind == WRITE ? room && put(e, chore) :
							 answer(e, chore);

		if (over)
			return true;
		if (!room || chore->kind == ANSWER)
			return false;
	}
	return true;
}

void ggas_ucx_serve(struct ggas_endpoint *e)
{
	struct chore **at = &e->chores, *chore;

	if (e->serving)
		return;
	e->serving = true;
	while ((chore = *at)) {
		if (!work(e, chore)) {
			at = &chore->next;
			continue;
		}
		*at = chore->next;
		if (e->last_chore == &chore->next)
			e->last_chore = at;
		e->chore_count--;
		free(chore);
	}
	e->serving = false;
}

static ucs_status_t on_read(void *arg, const void *header, size_t header_len, void *data, size_t len,
			    const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head;
	struct peer *peer;

	(void)data;
	(void)len;
	(void)param;
	if (header_len != sizeof(head))
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	if (peer && !peer->failed)
		add_chore(e, peer, DATA, &head);
	return UCS_OK;
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

static ucs_status_t on_data(void *arg, const void *header, size_t header_len, void *data, size_t len,
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

static ucs_status_t on_write(void *arg, const void *header, size_t header_len, void *data, size_t len,
			     const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct head head, answer;
	struct peer *peer;
	char *to;

	if (header_len != sizeof(head) || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	if (!peer || peer->failed)
		return UCS_OK;
	to = allowed(e, &head, head.offset, len, true);
	answer = (struct head){ .op = head.op, .status = to ? UCS_OK : UCS_ERR_REJECTED };
	if (to)
		memcpy(to, data, len);
	if (to && head.last && head.notify) {
		const struct ggas_event event = { .kind = GGAS_WRITTEN, .immediate = head.immediate };

		ggas_ucx_tell(e, &event);
	}
	if (!to || head.last)
		add_chore(e, peer, ANSWER, &answer);
	return UCS_OK;
}

/* Comes in order with messages, as whatever goes by itself at once. */
static ucs_status_t on_led(void *arg, const void *header, size_t header_len, void *data, size_t len,
			   const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	const size_t led_len = header_len - sizeof(struct head);
	const char *led = (const char *)header + sizeof(struct head);
	struct ggas_event event = { .kind = GGAS_LED, .bytes = led, .len = led_len, .more = data, .more_len = len };
	struct head head;
	struct peer *peer;
	char *to;

	if (header_len < sizeof(head) || led_len > GGAS_HEAD_MAX || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	peer = ggas_ucx_peer(e, head.from);
	to = peer && !peer->failed ? allowed(e, &head, head.offset, led_len + len, true) : NULL;
	if (!to)
		return UCS_OK;
	event.immediate = head.immediate;
	if (ggas_ucx_offer(e, &event))
		return UCS_OK;
	memcpy(to, led, led_len);
	memcpy(to + led_len, data, len);
	event.kind = GGAS_WRITTEN;
	ggas_ucx_offer(e, &event);
	return UCS_OK;
}

static ucs_status_t on_answer(void *arg, const void *header, size_t header_len, void *data, size_t len,
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

ucs_status_t ggas_ucx_handlers(struct ggas_endpoint *e)
{
	ucs_status_t status = ggas_ucx_hear(e, READ, on_read);

	if (status == UCS_OK)
		status = ggas_ucx_hear(e, DATA, on_data);
	if (status == UCS_OK)
		status = ggas_ucx_hear(e, WRITE, on_write);
	if (status == UCS_OK)
		status = ggas_ucx_hear(e, LED, on_led);
	return status == UCS_OK ? ggas_ucx_hear(e, ANSWER, on_answer) : status;
}

/* Begins an operation; an error, or AGAIN, if that cannot be now. */
static int begin(struct ggas_endpoint *e, struct peer *peer, const struct ggas_span *span, uint64_t token,
		 struct op **begun)
{
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
	op->gpu = ((const struct region *)(uintptr_t)span->region)->gpu;
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
	chore = add_chore(e, peer, WRITE, &head);
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
