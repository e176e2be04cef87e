// SPDX-License-Identifier: MIT OR Apache-2.0
/* Other endpoints: those that the caller inserted, and those that said hello, since they read or write here. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

/* In front of UCX's own bytes in an address. UCX takes what it is given for an address, and not all versions meet. */
struct address {
	char magic[4];
	uint16_t major, minor;
	uint64_t id;
	uint64_t sum; /* of what follows */
	char bytes[];
};
static const char MAGIC[4] = "ucx1";

static uint64_t sum(const char *bytes, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3;
	return hash;
}

struct peer *ggas_ucx_peer(const struct ggas_endpoint *e, uint64_t id)
{
	struct peer *peer = e->peers[id % BUCKETS];

	while (peer && peer->id != id)
		peer = peer->next;
	return peer;
}

/* A new peer with this address, or NULL. */
static struct peer *add_peer(struct ggas_endpoint *e, const struct address *address, size_t len)
{
	struct peer *peer = calloc(1, sizeof(*peer) + len);

	if (!peer)
		return NULL;
	peer->id = address->id;
	peer->address_len = len - sizeof(*address);
	memcpy(peer->address, address->bytes, peer->address_len);
	peer->next = e->peers[peer->id % BUCKETS];
	e->peers[peer->id % BUCKETS] = peer;
	return peer;
}

/* Whether this is an address that UCX of this version made. `bytes` are aligned. */
static bool is_address(const struct ggas_endpoint *e, const struct address *address, size_t len)
{
	return len > sizeof(*address) && !memcmp(address, e->address, offsetof(struct address, id)) &&
	       address->sum == sum(address->bytes, len - sizeof(*address));
}

static int peer_of(struct ggas_endpoint *e, const void *bytes, size_t len, struct peer **peer)
{
	struct address *address = malloc(len);

	*peer = NULL;
	if (!address)
		return UCS_ERR_NO_MEMORY;
	memcpy(address, bytes, len);
	if (is_address(e, address, len)) {
		*peer = ggas_ucx_peer(e, address->id);
		if (!*peer) {
			*peer = add_peer(e, address, len);
			e->strangers += *peer != NULL;
		}
	}
	free(address);
	return *peer ? 0 : UCS_ERR_INVALID_ADDR;
}

ucs_status_t ggas_ucx_on_hello(void *arg, const void *header, size_t header_len, void *data, size_t len,
			     const ucp_am_recv_param_t *param)
{
	struct ggas_endpoint *e = arg;
	struct peer *peer;

	(void)header;
	if (header_len || len > GGAS_ADDRESS_MAX || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return UCS_OK;
	if (e->strangers < STRANGERS_MAX)
		peer_of(e, data, len, &peer);
	return UCS_OK;
}

/* Outside of UCX, or it is still in use. */
void ggas_ucx_close_ep(struct peer *peer)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_EP_CLOSE_FLAG_FORCE,
	};
	ucs_status_ptr_t request;

	if (!peer->ep)
		return;
	request = UCX(ucp_ep_close_nbx)(peer->ep, &param);
	if (UCS_PTR_IS_PTR(request))
		UCX(ucp_request_free)(request); /* UCX keeps it until it is over */
	peer->ep = NULL;
}

/* Frees a peer that is removed once nothing of it is on its way. */
void ggas_ucx_free_if_over(struct peer *peer)
{
	if (peer->removed && !peer->dead && !peer->sends && !peer->pieces)
		free(peer);
}

static void unlink_peer(struct ggas_endpoint *e, struct peer *peer)
{
	struct peer **at = &e->peers[peer->id % BUCKETS];

	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	peer->removed = true;
}

/* Closes what UCX found dead. Of those whom the caller does not know nothing is kept. */
void ggas_ucx_bury(struct ggas_endpoint *e)
{
	struct peer *peer;

	while ((peer = e->dead)) {
		e->dead = peer->next_dead;
		peer->dead = false;
		ggas_ucx_close_ep(peer);
		if (!peer->inserted && !peer->removed) {
			e->strangers--;
			unlink_peer(e, peer);
		}
		ggas_ucx_free_if_over(peer);
	}
}

void ggas_ucx_peer_failed(struct ggas_endpoint *e, struct peer *peer, int status)
{
	const struct ggas_event event = { .kind = GGAS_GONE, .token = (uintptr_t)peer, .error = status };

	if (peer->failed)
		return;
	peer->failed = status;
	ggas_ucx_drop_chores(e, peer);
	ggas_ucx_fail_operations(e, peer, status);
	if (peer->inserted)
		ggas_ucx_tell(e, &event);
	peer->dead = true;
	peer->next_dead = e->dead;
	e->dead = peer;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct ggas_endpoint *e = arg;

	/* Few have endpoints, and fewer fail. */
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct peer *peer = e->peers[i]; peer; peer = peer->next) {
			if (peer->ep == ep)
				return ggas_ucx_peer_failed(e, peer, status);
		}
	}
}

int ggas_ucx_connect(struct ggas_endpoint *e, struct peer *peer)
{
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const ucp_address_t *)peer->address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { .cb = on_error, .arg = e },
	};
	ucs_status_t status;

	if (peer->failed || peer->ep)
		return peer->failed;
	status = UCX(ucp_ep_create)(e->worker, &params, &peer->ep);
	if (status != UCS_OK) {
		peer->ep = NULL;
		ggas_ucx_peer_failed(e, peer, status);
	}
	return status;
}

int ggas_ucx_greet(struct ggas_endpoint *e, struct peer *peer)
{
	struct parcel *parcel;
	int error;

	if (peer->greeted)
		return 0;
	parcel = ggas_ucx_parcel(e, peer, HELLO);
	if (!parcel)
		return GGAS_AGAIN;
	error = ggas_ucx_launch(parcel, e->address, e->address_len);
	peer->greeted = !error;
	return error;
}

int ggas_ucx_insert(struct ggas_endpoint *e, const void *bytes, size_t len, uint64_t *made)
{
	struct peer *peer;
	int error = peer_of(e, bytes, len, &peer);

	if (error)
		return error;
	e->strangers -= !peer->inserted++;
	*made = (uintptr_t)peer;
	return 0;
}

/* What is to be told of a peer says nothing of who is at its place later. */
static void forget_events(struct inbox *in, const struct peer *peer)
{
	for (size_t i = in->taken; i < in->count; i++) {
		struct ggas_event *event = &in->events[i];

		if ((event->kind == GGAS_UNSENT || event->kind == GGAS_GONE) && event->token == (uintptr_t)peer)
			event->token = 0;
	}
}

int ggas_ucx_remove(struct ggas_endpoint *e, uint64_t which)
{
	struct peer *peer = (void *)(uintptr_t)which;

	if (--peer->inserted)
		return 0;
	ggas_ucx_drop_chores(e, peer);
	ggas_ucx_fail_operations(e, peer, UCS_ERR_CANCELED);
	ggas_ucx_close_ep(peer);
	unlink_peer(e, peer);
	forget_events(&e->inbox, peer);
	ggas_ucx_free_if_over(peer);
	return 0;
}

int ggas_ucx_set_up_address(struct ggas_endpoint *e)
{
	ucp_address_t *own;
	struct address *made;
	unsigned int major, minor, release;
	size_t len;
	ucs_status_t status = UCX(ucp_worker_get_address)(e->worker, &own, &len);

	if (status != UCS_OK)
		return status;
	e->address_len = sizeof(*made) + len;
	made = calloc(1, e->address_len);
	if (made && e->address_len <= GGAS_ADDRESS_MAX) {
		UCX(ucp_get_version)(&major, &minor, &release);
		memcpy(made->magic, MAGIC, sizeof(MAGIC));
		made->major = (uint16_t)major;
		made->minor = (uint16_t)minor;
		made->id = e->id;
		memcpy(made->bytes, own, len);
		made->sum = sum(made->bytes, len);
	}
	e->address = (char *)made;
	UCX(ucp_worker_release_address)(e->worker, own);
	if (!made)
		return UCS_ERR_NO_MEMORY;
	return e->address_len <= GGAS_ADDRESS_MAX ? 0 : UCS_ERR_EXCEEDS_LIMIT;
}

