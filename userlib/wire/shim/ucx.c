// SPDX-License-Identifier: MIT OR Apache-2.0
/* The table of calls over UCX: one worker, an endpoint of UCX for each peer, made when something is first sent to it. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Progress that closing takes at most: dead peers are not waited for. */
#define CLOSING 10000

static void version(uint32_t *major, uint32_t *minor)
{
	unsigned int release;

	UCX(ucp_get_version)(major, minor, &release);
}

static const char *explain(int error)
{
	return UCX(ucs_status_string)((ucs_status_t)error);
}

int ggas_ucx_draw(struct ggas_endpoint *e, uint64_t *number)
{
	if (!e->randoms) {
		if (getrandom(e->random, sizeof(e->random), 0) != sizeof(e->random))
			return UCS_ERR_IO_ERROR;
		e->randoms = sizeof(e->random) / sizeof(*e->random);
	}
	*number = e->random[--e->randoms];
	return 0;
}

/* Behind ggas_ucx_parcel() the message is there. */
static void *room(struct ggas_endpoint *e)
{
	return e->free_sends ? e->free_sends->buffer : NULL;
}

static int endpoint_send(struct ggas_endpoint *e, uint64_t to, const void *bytes, size_t len)
{
	struct peer *peer = (void *)(uintptr_t)to;
	struct parcel *parcel;

	if (peer->failed)
		return peer->failed;
	parcel = ggas_ucx_parcel(e, peer, MESSAGE);
	if (!parcel)
		return GGAS_AGAIN;
	if (bytes != parcel->buffer)
		memcpy(parcel->buffer, bytes, len);
	return ggas_ucx_launch(parcel, parcel->buffer, len);
}

static int address(struct ggas_endpoint *e, void *bytes, size_t *len)
{
	if (e->address_len > *len)
		return UCS_ERR_BUFFER_TOO_SMALL;
	*len = e->address_len;
	memcpy(bytes, e->address, e->address_len);
	return 0;
}

static int endpoint_poll(struct ggas_endpoint *e, struct ggas_event events[GGAS_EVENTS_MAX], ggas_taker take, void *whose)
{
	struct inbox *in = &e->inbox;
	int count = 0;

	if (in->taken == in->count) {
		in->taken = in->count = 0;
		ggas_ucx_enter_gpu(e);
		ggas_ucx_bury(e);
		e->take = take;
		e->whose = whose;
		UCX(ucp_worker_progress)(e->worker);
		e->take = NULL;
		ggas_ucx_serve(e);
		ggas_ucx_leave_gpu(e);
	}
	if (e->broken)
		return e->broken;
	for (; count < GGAS_EVENTS_MAX && in->taken < in->count; count++)
		events[count] = in->events[in->taken++];
	return count;
}

static int descriptor(struct ggas_endpoint *e)
{
	int fd;

	return UCX(ucp_worker_get_efd)(e->worker, &fd) == UCS_OK ? fd : -1;
}

static int arm(struct ggas_endpoint *e)
{
	ucs_status_t status;

	if (e->inbox.taken < e->inbox.count || e->dead)
		return 1;
	ggas_ucx_enter_gpu(e);
	status = UCX(ucp_worker_arm)(e->worker);
	ggas_ucx_leave_gpu(e);
	return status == UCS_ERR_BUSY ? 1 : status;
}

static void endpoint_close(struct ggas_endpoint *e)
{
	struct peer *peer;
	unsigned int idle = 0;

	ggas_ucx_enter_gpu(e);
	ggas_ucx_bury(e);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (peer = e->peers[i]; peer; peer = peer->next)
			ggas_ucx_close_ep(peer);
	}
	if (e->worker) {
		/* What is cancelled ends in here. */
		for (int i = 0; i < CLOSING && idle < 100; i++)
			idle = UCX(ucp_worker_progress)(e->worker) ? 0 : idle + 1;
		UCX(ucp_worker_destroy)(e->worker);
	}
	if (e->context)
		UCX(ucp_cleanup)(e->context);
	ggas_ucx_leave_gpu(e);
	ggas_ucx_gpu_close(e);
	/* What UCX did not end. */
	for (int i = 0; i < SENDS; i++) {
		if (e->sends[i].peer)
			ggas_ucx_give_back(&e->sends[i]);
	}
	for (int i = 0; i < PIECES; i++) {
		if (e->pieces[i].peer)
			ggas_ucx_give_back(&e->pieces[i]);
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		while ((peer = e->peers[i])) {
			e->peers[i] = peer->next;
			free(peer);
		}
	}
	ggas_ucx_chores_close(e);
	ggas_ucx_memory_close(e);
	free(e->inbox.events);
	free(e->address);
	free(e->buffers);
	free(e);
}

static int set_up_parcels(struct ggas_endpoint *e)
{
	char *buffer = e->buffers = calloc(1, (size_t)SENDS * MESSAGE_MAX + (size_t)PIECES * PIECE);

	if (!buffer)
		return UCS_ERR_NO_MEMORY;
	for (int i = 0; i < SENDS; i++, buffer += MESSAGE_MAX) {
		e->sends[i] = (struct parcel){ .e = e, .next = e->free_sends, .buffer = buffer };
		e->free_sends = &e->sends[i];
	}
	for (int i = 0; i < PIECES; i++, buffer += PIECE) {
		e->pieces[i] = (struct parcel){ .e = e, .next = e->free_pieces, .buffer = buffer, .piece = true };
		e->free_pieces = &e->pieces[i];
	}
	return ggas_ucx_draw(e, &e->id);
}

static ucs_status_t hear(struct ggas_endpoint *e, enum kind kind, ggas_ucx_heard *heard)
{
	const ucp_am_handler_param_t param = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
		.id = kind,
		.cb = heard,
		.arg = e,
		.flags = UCP_AM_FLAG_WHOLE_MSG,
	};

	return UCX(ucp_worker_set_am_recv_handler)(e->worker, &param);
}

static ucs_status_t hear_all(struct ggas_endpoint *e)
{
	static const struct {
		enum kind kind;
		ggas_ucx_heard *heard;
	} all[] = {
		{ MESSAGE, ggas_ucx_on_message }, { HELLO, ggas_ucx_on_hello }, { READ, ggas_ucx_on_read },
		{ DATA, ggas_ucx_on_data },	  { WRITE, ggas_ucx_on_write }, { ANSWER, ggas_ucx_on_answer },
		{ LED, ggas_ucx_on_led },
	};
	ucs_status_t status = UCS_OK;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && status == UCS_OK; i++)
		status = hear(e, all[i].kind, all[i].heard);
	return status;
}

/* NULL, or the call that failed. */
static const char *set_up(struct ggas_endpoint *e, const char *provider, const char *host, bool gpu, int *error)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};

	*error = set_up_parcels(e);
	if (*error)
		return "malloc";
	ggas_ucx_chores_open(e);
	ggas_ucx_transfers_open(e);
	*error = ggas_ucx_context(provider, host, gpu, &e->context);
	if (*error)
		return "ucp_init";
	e->gpu = gpu && ggas_ucx_reaches_gpus(e->context);
	if (gpu && !e->gpu) {
		*error = UCS_ERR_UNSUPPORTED;
		return "ucp_context_query of GPU memory";
	}
	*error = UCX(ucp_worker_create)(e->context, &params, &e->worker);
	if (*error)
		return "ucp_worker_create";
	*error = ggas_ucx_set_up_address(e);
	if (*error)
		return "ucp_worker_get_address";
	*error = hear_all(e);
	return *error ? "ucp_worker_set_am_recv_handler" : NULL;
}

static struct ggas_endpoint *endpoint_open(const char *provider, const char *host, uint32_t gpu, int *error,
					   const char **call)
{
	struct ggas_endpoint *e = calloc(1, sizeof(*e));

	*error = UCS_ERR_NO_MEMORY;
	*call = "calloc";
	if (!e)
		return NULL;
	*call = set_up(e, provider, host, gpu, error);
	if (!*call)
		return e;
	endpoint_close(e);
	return NULL;
}

const struct ggas_wire ggas_ucx = {
	.message_max = MESSAGE_MAX,
	.load = ggas_ucx_load,
	.version = version,
	.explain = explain,
	.list = ggas_ucx_list,
	.open = endpoint_open,
	.close = endpoint_close,
	.address = address,
	.insert = ggas_ucx_insert,
	.remove = ggas_ucx_remove,
	.reg = ggas_ucx_reg,
	.unreg = ggas_ucx_unreg,
	.import = ggas_ucx_import,
	.forget = ggas_ucx_forget,
	.send = endpoint_send,
	.room = room,
	.write = ggas_ucx_write,
	.write_behind = ggas_ucx_write_behind,
	.read = ggas_ucx_read,
	.poll = endpoint_poll,
	.descriptor = descriptor,
	.arm = arm,
};
