// SPDX-License-Identifier: MIT OR Apache-2.0
/* The table of calls over libfabric: one endpoint for reliable datagrams, one queue of events, copies of messages. */
#include "libfabric.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* Buffers of an endpoint, for messages of all peers together, and operations under way. */
#define RECEIVES 256
#define SENDS 256
#define OPERATIONS 1024

/* LED: an operation that has a buffer of a send for what is in front of it. */
enum use { RECEIVE, SEND, OPERATION, LED };

/* Whom a completion is for. libfabric keeps notes in the context until then. */
struct op {
	struct fi_context2 context;
	enum use use;
	uint64_t token; /* the caller's, or of a message the peer */
	char *buffer;
	struct op *next;
};

struct memory {
	struct fid_mr *mr;
};

/* A key as it travels. */
struct key {
	uint64_t base;
	uint64_t key;
};

struct ggas_endpoint {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *buffers_mr;
	char *buffers;
	struct op receives[RECEIVES], sends[SENDS], operations[OPERATIONS];
	struct op *free_sends, *free_operations;
	struct op *unposted; /* receives whose bytes the caller has seen */
	/* Of keys, where the provider leaves them to us: who knows one may do with the memory what it allows. */
	uint64_t random[32];
	size_t randoms; /* left */
	bool sleeps;
};

static void push(struct op **list, struct op *op)
{
	op->next = *list;
	*list = op;
}

static struct op *pop(struct op **list)
{
	struct op *op = *list;

	if (op)
		*list = op->next;
	return op;
}

static int result(ssize_t value)
{
	return value == -FI_EAGAIN ? GGAS_AGAIN : (int)value;
}

static void version(uint32_t *major, uint32_t *minor)
{
	*major = FI_MAJOR(fi_version());
	*minor = FI_MINOR(fi_version());
}

static const char *explain(int error)
{
	return fi_strerror(error < 0 ? -error : error);
}

static void endpoint_close(struct ggas_endpoint *e)
{
	if (e->ep)
		fi_close(&e->ep->fid);
	if (e->buffers_mr)
		fi_close(&e->buffers_mr->fid);
	if (e->cq)
		fi_close(&e->cq->fid);
	if (e->av)
		fi_close(&e->av->fid);
	if (e->domain)
		fi_close(&e->domain->fid);
	if (e->fabric)
		fi_close(&e->fabric->fid);
	fi_freeinfo(e->info);
	free(e->buffers);
	free(e);
}

static void *description(struct fid_mr *mr)
{
	return mr ? fi_mr_desc(mr) : NULL;
}

/* Gives receives back to libfabric; those that it does not take now wait for the next poll(). */
static int post(struct ggas_endpoint *e)
{
	struct op *op;

	while ((op = pop(&e->unposted))) {
		ssize_t r = fi_recv(e->ep, op->buffer, GGAS_MESSAGE_MAX, description(e->buffers_mr), FI_ADDR_UNSPEC, op);

		if (!r)
			continue;
		push(&e->unposted, op);
		return r == -FI_EAGAIN ? 0 : (int)r;
	}
	return 0;
}

/* A queue of events, with a descriptor to sleep on where the provider has one. */
static int open_queue(struct ggas_endpoint *e)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = FI_WAIT_FD,
		.size = RECEIVES + SENDS + OPERATIONS,
	};

	e->sleeps = !fi_cq_open(e->domain, &attr, &e->cq, NULL);
	if (e->sleeps)
		return 0;
	attr.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(e->domain, &attr, &e->cq, NULL);
}

/* A key that nobody guesses. */
static int draw_key(struct ggas_endpoint *e, uint64_t *key)
{
	if (!e->randoms) {
		if (getrandom(e->random, sizeof(e->random), 0) != sizeof(e->random))
			return -FI_EIO;
		e->randoms = sizeof(e->random) / sizeof(*e->random);
	}
	*key = e->random[--e->randoms];
	return 0;
}

static int set_up_buffers(struct ggas_endpoint *e)
{
	const size_t len = (size_t)(RECEIVES + SENDS) * GGAS_MESSAGE_MAX;
	uint64_t key;
	int r;

	e->buffers = calloc(1, len);
	if (!e->buffers)
		return -FI_ENOMEM;
	for (int i = 0; i < OPERATIONS; i++) {
		e->operations[i].use = OPERATION;
		push(&e->free_operations, &e->operations[i]);
	}
	for (int i = 0; i < SENDS; i++) {
		e->sends[i].use = SEND;
		e->sends[i].buffer = e->buffers + (size_t)(RECEIVES + i) * GGAS_MESSAGE_MAX;
		push(&e->free_sends, &e->sends[i]);
	}
	for (int i = 0; i < RECEIVES; i++) {
		e->receives[i].use = RECEIVE;
		e->receives[i].buffer = e->buffers + (size_t)i * GGAS_MESSAGE_MAX;
		push(&e->unposted, &e->receives[i]);
	}
	if (!(e->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	r = draw_key(e, &key);
	if (r)
		return r;
	/* Of writes, too: what is in front of them is sent from here. */
	return fi_mr_reg(e->domain, e->buffers, len, FI_SEND | FI_RECV | FI_WRITE, 0, key, 0, &e->buffers_mr, NULL);
}

/* NULL, or the call that failed. */
static const char *set_up(struct ggas_endpoint *e, int *error)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	*error = fi_fabric(e->info->fabric_attr, &e->fabric, NULL);
	if (*error)
		return "fi_fabric";
	*error = fi_domain(e->fabric, e->info, &e->domain, NULL);
	if (*error)
		return "fi_domain";
	*error = fi_av_open(e->domain, &attr, &e->av, NULL);
	if (*error)
		return "fi_av_open";
	*error = open_queue(e);
	if (*error)
		return "fi_cq_open";
	*error = fi_endpoint(e->domain, e->info, &e->ep, NULL);
	if (*error)
		return "fi_endpoint";
	*error = fi_ep_bind(e->ep, &e->av->fid, 0);
	if (!*error)
		*error = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
	if (*error)
		return "fi_ep_bind";
	*error = fi_enable(e->ep);
	if (*error)
		return "fi_enable";
	*error = set_up_buffers(e);
	if (*error)
		return "fi_mr_reg";
	*error = post(e);
	return *error ? "fi_recv" : NULL;
}

static struct ggas_endpoint *endpoint_open(const char *provider, const char *host, uint32_t gpu, int *error,
					   const char **call)
{
	struct ggas_endpoint *e = calloc(1, sizeof(*e));

	*error = -FI_ENOMEM;
	*call = "calloc";
	if (!e)
		return NULL;
	*error = gpu ? -FI_ENOSYS : -FI_ENODATA;
	*call = "fi_getinfo";
	e->info = gpu ? NULL : ggas_libfabric_look(provider, host);
	if (!e->info) {
		free(e);
		return NULL;
	}
	*call = set_up(e, error);
	if (*call) {
		endpoint_close(e);
		return NULL;
	}
	return e;
}

static int address(struct ggas_endpoint *e, void *bytes, size_t *len)
{
	return fi_getname(&e->ep->fid, bytes, len);
}

static bool is_of_network(const struct ggas_endpoint *e)
{
	const uint32_t format = e->info->addr_format;

	return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

static int insert(struct ggas_endpoint *e, const void *bytes, size_t len, uint64_t *peer)
{
	uint8_t own[GGAS_ADDRESS_MAX];
	size_t own_len = sizeof(own);
	fi_addr_t made;
	int r = fi_getname(&e->ep->fid, own, &own_len);

	/* libfabric reads as many bytes as its own addresses have; of the network's as many as their family says. */
	if (r || len != own_len || (is_of_network(e) && memcmp(bytes, own, sizeof(sa_family_t))))
		return r ? r : -FI_EINVAL;
	r = fi_av_insert(e->av, bytes, 1, &made, 0, NULL);
	if (r != 1)
		return r < 0 ? r : -FI_EINVAL;
	*peer = made;
	return 0;
}

static int peer_remove(struct ggas_endpoint *e, uint64_t peer)
{
	fi_addr_t addr = peer;

	/* What is under way to it says nothing of who has its number later. */
	for (size_t i = 0; i < SENDS; i++) {
		if (e->sends[i].use == SEND && e->sends[i].token == peer)
			e->sends[i].token = FI_ADDR_NOTAVAIL;
	}
	return fi_av_remove(e->av, &addr, 1, 0);
}

/* Memory of our own end: the provider may not want to hear of it. */
static bool needs_mr(const struct ggas_endpoint *e, uint32_t access)
{
	return access != GGAS_ACCESS_LOCAL || e->info->domain_attr->mr_mode & FI_MR_LOCAL;
}

static uint64_t rights(uint32_t access)
{
	if (access == GGAS_ACCESS_LOCAL)
		return FI_READ | FI_WRITE;
	if (access == GGAS_ACCESS_READ)
		return FI_REMOTE_READ;
	return FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
}

static int reg(struct ggas_endpoint *e, void *memory, size_t len, uint32_t access, uint64_t *region, void *key,
	       size_t *key_len)
{
	struct memory *made = calloc(1, sizeof(*made));
	struct key travels = { 0 };
	uint64_t drawn;
	int r;

	if (!made)
		return -FI_ENOMEM;
	if (needs_mr(e, access)) {
		r = draw_key(e, &drawn);
		if (!r)
			r = fi_mr_reg(e->domain, memory, len, rights(access), 0, drawn, 0, &made->mr, NULL);
		if (r) {
			free(made);
			return r;
		}
		travels.base = e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
		travels.key = fi_mr_key(made->mr);
	}
	memcpy(key, &travels, sizeof(travels));
	*key_len = sizeof(travels);
	*region = (uint64_t)(uintptr_t)made;
	return 0;
}

static int unreg(struct ggas_endpoint *e, uint64_t region)
{
	struct memory *memory = (void *)(uintptr_t)region;
	int r = memory->mr ? fi_close(&memory->mr->fid) : 0;

	(void)e;
	if (!r)
		free(memory);
	return r;
}

static int import(struct ggas_endpoint *e, uint64_t peer, const void *key, size_t len, uint64_t *remote)
{
	struct key *kept;

	(void)e;
	(void)peer;
	if (len != sizeof(*kept))
		return -FI_EINVAL;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return -FI_ENOMEM;
	memcpy(kept, key, len);
	*remote = (uint64_t)(uintptr_t)kept;
	return 0;
}

static void forget(struct ggas_endpoint *e, uint64_t remote)
{
	(void)e;
	free((void *)(uintptr_t)remote);
}

static int endpoint_send(struct ggas_endpoint *e, uint64_t peer, const void *bytes, size_t len)
{
	struct op *op;
	int r;

	if (len <= e->info->tx_attr->inject_size)
		return result(fi_inject(e->ep, bytes, len, peer));
	op = pop(&e->free_sends);
	if (!op)
		return GGAS_AGAIN;
	if (bytes != op->buffer)
		memcpy(op->buffer, bytes, len);
	op->token = peer;
	r = result(fi_send(e->ep, op->buffer, len, description(e->buffers_mr), peer, op));
	if (r)
		push(&e->free_sends, op);
	return r;
}

static void *room(struct ggas_endpoint *e)
{
	return e->free_sends ? e->free_sends->buffer : NULL;
}

static int endpoint_write(struct ggas_endpoint *e, uint64_t peer, const struct ggas_span *span,
			  const uint32_t *immediate, uint64_t token)
{
	const struct memory *memory = (void *)(uintptr_t)span->region;
	const struct key *key = (void *)(uintptr_t)span->remote;
	const uint64_t to = key->base + span->offset;
	void *desc = description(memory->mr);
	struct op *op = pop(&e->free_operations);
	ssize_t r;

	if (!op)
		return GGAS_AGAIN;
	op->token = token;
	if (immediate)
		r = fi_writedata(e->ep, span->local, span->len, desc, *immediate, peer, to, key->key, op);
	else
		r = fi_write(e->ep, span->local, span->len, desc, peer, to, key->key, op);
	if (r)
		push(&e->free_operations, op);
	return result(r);
}

static int endpoint_write_behind(struct ggas_endpoint *e, uint64_t peer, const void *head, size_t head_len,
				 const struct ggas_span *span, uint32_t immediate, uint64_t token)
{
	const struct memory *memory = (void *)(uintptr_t)span->region;
	const struct key *key = (void *)(uintptr_t)span->remote;
	struct op *op = pop(&e->free_sends);
	ssize_t r;

	if (!op)
		return GGAS_AGAIN;
	memcpy(op->buffer, head, head_len);
	op->use = LED;
	op->token = token;
	const struct iovec parts[] = { { op->buffer, head_len }, { span->local, span->len } };
	void *descriptions[] = { description(e->buffers_mr), description(memory->mr) };
	const struct fi_rma_iov to = { key->base + span->offset, head_len + span->len, key->key };
	const struct fi_msg_rma message = {
		.msg_iov = parts,
		.desc = descriptions,
		.iov_count = 2,
		.addr = peer,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = op,
		.data = immediate,
	};
	r = fi_writemsg(e->ep, &message, FI_REMOTE_CQ_DATA | FI_COMPLETION);
	if (r) {
		op->use = SEND;
		push(&e->free_sends, op);
	}
	return result(r);
}

static int endpoint_read(struct ggas_endpoint *e, uint64_t peer, const struct ggas_span *span, uint64_t token)
{
	const struct memory *memory = (void *)(uintptr_t)span->region;
	const struct key *key = (void *)(uintptr_t)span->remote;
	struct op *op = pop(&e->free_operations);
	ssize_t r;

	if (!op)
		return GGAS_AGAIN;
	op->token = token;
	r = fi_read(e->ep, span->local, span->len, description(memory->mr), peer, key->base + span->offset, key->key,
		    op);
	if (r)
		push(&e->free_operations, op);
	return result(r);
}

/* An operation of ours ended; whether the caller is told. */
static bool ended(struct ggas_endpoint *e, struct op *op, int error, struct ggas_event *event)
{
	memset(event, 0, sizeof(*event));
	event->token = op->token;
	event->error = error;
	if (op->use == OPERATION || op->use == LED) {
		event->kind = error ? GGAS_FAILED : GGAS_DONE;
		push(op->use == LED ? &e->free_sends : &e->free_operations, op);
		op->use = op->use == LED ? SEND : OPERATION;
		return true;
	}
	event->kind = GGAS_UNSENT;
	push(op->use == SEND ? &e->free_sends : &e->unposted, op);
	return op->use == SEND && error;
}

static int poll_error(struct ggas_endpoint *e, struct ggas_event *event)
{
	struct fi_cq_err_entry entry = { 0 };
	ssize_t r = fi_cq_readerr(e->cq, &entry, 0);

	if (r == -FI_EAGAIN)
		return 0;
	if (r < 0)
		return (int)r;
	return entry.op_context ? ended(e, entry.op_context, -(entry.err ? entry.err : FI_EOTHER), event) : 0;
}

static bool understand(struct ggas_endpoint *e, const struct fi_cq_data_entry *entry, struct ggas_event *event)
{
	struct op *op = entry->op_context;

	if (entry->flags & FI_REMOTE_CQ_DATA && !(entry->flags & FI_RECV)) {
		*event = (struct ggas_event){ .kind = GGAS_WRITTEN, .immediate = (uint32_t)entry->data };
		return true;
	}
	if (op->use != RECEIVE)
		return ended(e, op, 0, event);
	*event = (struct ggas_event){ .kind = GGAS_MESSAGE, .bytes = op->buffer, .len = entry->len };
	push(&e->unposted, op);
	return true;
}

/* The library gives whole buffers, so nobody needs to take anything before it returns. */
static int endpoint_poll(struct ggas_endpoint *e, struct ggas_event events[GGAS_EVENTS_MAX], ggas_taker take, void *whose)
{
	struct fi_cq_data_entry entries[GGAS_EVENTS_MAX];
	int count = 0, r = post(e);
	ssize_t n;

	(void)take;
	(void)whose;
	if (r)
		return r;
	n = fi_cq_read(e->cq, entries, GGAS_EVENTS_MAX);
	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL)
		return poll_error(e, events);
	if (n < 0)
		return (int)n;
	for (ssize_t i = 0; i < n; i++)
		count += understand(e, &entries[i], &events[count]);
	return count;
}

static int descriptor(struct ggas_endpoint *e)
{
	int fd = -1;

	if (!e->sleeps || fi_control(&e->cq->fid, FI_GETWAIT, &fd))
		return -1;
	return fd;
}

static int arm(struct ggas_endpoint *e)
{
	struct fid *queue = &e->cq->fid;
	int r;

	/* A sender finds no buffer while we sleep on those that the caller has seen. */
	if (post(e) || e->unposted)
		return 1;
	r = fi_trywait(e->fabric, &queue, 1);
	return r == -FI_EAGAIN ? 1 : r;
}

const struct ggas_wire ggas_libfabric = {
	.message_max = GGAS_MESSAGE_MAX,
	.load = ggas_libfabric_load,
	.version = version,
	.explain = explain,
	.list = ggas_libfabric_list,
	.open = endpoint_open,
	.close = endpoint_close,
	.address = address,
	.insert = insert,
	.remove = peer_remove,
	.reg = reg,
	.unreg = unreg,
	.import = import,
	.forget = forget,
	.send = endpoint_send,
	.room = room,
	.write = endpoint_write,
	.write_behind = endpoint_write_behind,
	.read = endpoint_read,
	.poll = endpoint_poll,
	.descriptor = descriptor,
	.arm = arm,
};
