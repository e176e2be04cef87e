/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parts of the shim for UCX: its calls, and an endpoint over one of its workers.
 *
 * Everything travels as active messages, also what is read and written: the owner of memory looks whether the key allows
 * it. UCX's own keys do not protect memory where there is no hardware for it: over TCP a peer names an address, and the
 * library copies. What is in GPU memory, or goes there, is one message of any length, which UCX moves by its rendezvous.
 */
#ifndef GGAS_UCX_H
#define GGAS_UCX_H

#include "wire.h"

#include <stdbool.h>
#include <stddef.h>

/* Some versions warn of themselves. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <ucp/api/ucp.h>
#pragma GCC diagnostic pop

#if UCP_API_VERSION < UCP_VERSION(1, 13)
#error "UCX is older than 1.13"
#endif

/* The functions that are looked up when the library is opened. */
#define GGAS_UCX_CALLS(call)                                                                                           \
	call(ucp_get_version) call(ucp_init_version) call(ucp_cleanup) call(ucp_config_read) call(ucp_config_modify)    \
	call(ucp_config_release) call(ucp_context_print_info) call(ucp_worker_create) call(ucp_worker_destroy)         \
	call(ucp_worker_get_address) call(ucp_worker_release_address) call(ucp_worker_get_efd) call(ucp_worker_arm)    \
	call(ucp_worker_progress) call(ucp_worker_set_am_recv_handler) call(ucp_ep_create) call(ucp_ep_close_nbx)      \
	call(ucp_am_send_nbx) call(ucp_am_recv_data_nbx) call(ucp_context_query) call(ucp_request_free)                 \
	call(ucs_status_string)

struct ggas_ucx_calls {
#define GGAS_UCX_CALL(name) __typeof__(name) *name;
	GGAS_UCX_CALLS(GGAS_UCX_CALL)
#undef GGAS_UCX_CALL
};

extern struct ggas_ucx_calls ggas_ucx_calls;
#define UCX(name) (ggas_ucx_calls.name)

const char *ggas_ucx_load(const char *path);
int ggas_ucx_list(struct ggas_offer *offers, int room);
/* A context with the transports of a provider, which UCX_TLS names in its own words; `host`, `gpu`: as of open(). */
ucs_status_t ggas_ucx_context(const char *provider, const char *host, bool gpu, ucp_context_h *context);
/* Whether it reaches GPU memory. */
bool ggas_ucx_reaches_gpus(ucp_context_h context);

/* Messages of all peers that are on their way, and of one of them. */
/*
 * A message: 16 KiB of payload in whole fragments of 496 bytes, and what is in front of them. UCX sends it from where it lies, and it comes
 * in one piece, so up to there a message is sooner there than a write, which has to be answered for.
 */
#define MESSAGE_MAX GGAS_MESSAGE_MOST
#define SENDS 256
#define PEER_SENDS 64
/* What is read and written goes in pieces; so many are on their way, to all peers and to one of them. */
#define PIECE (32u << 10)
#define PIECES 32
#define PEER_PIECES 8
#define OPERATIONS 1024
/* Others ask for so much at most before they are answered; so many others than those that were inserted may ask. */
#define CHORES_MAX 65536
#define STRANGERS_MAX 65536
#define BUCKETS 1024

enum kind { MESSAGE = 1, HELLO, READ, DATA, WRITE, ANSWER, LED };

/* In front of all but MESSAGE and HELLO. */
struct head {
	uint64_t from; /* READ, WRITE, LED: the endpoint that asks */
	uint64_t op;   /* its name for the operation */
	uint64_t key;
	uint64_t offset;
	uint64_t len;
	uint32_t immediate;
	uint16_t last, notify; /* WRITE: the last piece; the owner is to be told */
	int32_t status;	       /* DATA, ANSWER */
	uint32_t whole;	       /* READ: not in pieces, since the reader cannot copy */
};

struct peer {
	uint64_t id;
	struct peer *next; /* of its bucket */
	struct peer *next_dead;
	ucp_ep_h ep;
	uint32_t inserted; /* so often by the caller; 0: it said hello itself */
	uint32_t sends, pieces;
	int32_t failed;
	bool greeted, removed, dead;
	size_t address_len;
	char address[];
};

/* What UCX has to send, until it has. */
struct parcel {
	struct ggas_endpoint *e;
	struct parcel *next;
	struct peer *peer;
	struct op *op;	       /* of a piece that is written */
	struct region *region; /* that UCX reads itself; NULL: the bytes are in the buffer, or the operation's */
	char *buffer;
	bool piece;
	enum kind kind;
	struct head head;
	char led[GGAS_HEAD_MAX]; /* LED: what is in front of the bytes */
	size_t led_len;
};
_Static_assert(offsetof(struct parcel, led) == offsetof(struct parcel, head) + sizeof(struct head),
	       "both travel as one");

/* A transfer that the caller began. */
struct op {
	struct op *next;
	struct peer *peer; /* NULL: free */
	struct ggas_endpoint *e;
	uint64_t id;
	uint64_t token;
	char *local;
	uint64_t len, moved;
	uint32_t out; /* pieces that UCX reads, or writes itself */
	int32_t status;
	bool is_write, answered, gpu;
};

/* Something to send as soon as there is room: what a peer read, an answer to it, or the rest of a write. */
struct chore {
	struct chore *next;
	struct peer *peer; /* NULL: it is gone */
	enum kind kind;
	struct head head;
	uint64_t sent;
	struct op *op;
};

struct region {
	struct region *next;
	uint64_t key;
	char *memory;
	uint64_t len;
	uint32_t access;
	uint32_t out; /* UCX reads it so often just now */
	bool gpu;
};

/* What happened, until the caller has it; not what came, which the caller takes while UCX has it. */
struct inbox {
	struct ggas_event *events;
	size_t count, taken, room;
};

struct ggas_endpoint {
	ucp_context_h context;
	ucp_worker_h worker;
	uint64_t id;
	char *address; /* as it travels */
	size_t address_len;
	struct peer *peers[BUCKETS];
	struct region *regions[BUCKETS];
	struct peer *dead; /* to be closed outside of UCX */
	uint32_t strangers, chore_count;
	struct chore *chores, **last_chore;
	bool serving;
	struct parcel sends[SENDS], pieces[PIECES];
	struct parcel *free_sends, *free_pieces;
	char *buffers;
	struct op operations[OPERATIONS], *free_operations;
	struct inbox inbox;
	bool gpu; /* it reaches GPU memory */
	void *cuda; /* context of its GPU, once memory of it is moved */
	int32_t device;
	bool entered;
	/* While the caller polls. */
	ggas_taker take;
	void *whose;
	int broken;
	uint64_t random[32];
	size_t randoms;
};

/* What UCX calls when a message of a kind came. */
typedef __typeof__(*(ucp_am_recv_callback_t)NULL) ggas_ucx_heard;

/* ucx.c */
int ggas_ucx_draw(struct ggas_endpoint *e, uint64_t *number);

/* ucx_peers.c */
int ggas_ucx_set_up_address(struct ggas_endpoint *e);
struct peer *ggas_ucx_peer(const struct ggas_endpoint *e, uint64_t id);
/* Makes its endpoint of UCX, unless it is there. */
int ggas_ucx_connect(struct ggas_endpoint *e, struct peer *peer);
void ggas_ucx_close_ep(struct peer *peer);
/* Says who asks, once. */
int ggas_ucx_greet(struct ggas_endpoint *e, struct peer *peer);
void ggas_ucx_peer_failed(struct ggas_endpoint *e, struct peer *peer, int status);
/* Closes what UCX found dead. Not from inside of UCX. */
void ggas_ucx_bury(struct ggas_endpoint *e);
void ggas_ucx_free_if_over(struct peer *peer);
int ggas_ucx_insert(struct ggas_endpoint *e, const void *bytes, size_t len, uint64_t *made);
int ggas_ucx_remove(struct ggas_endpoint *e, uint64_t which);
ggas_ucx_heard ggas_ucx_on_hello;

/* ucx_gpu.c */
/* Calls of UCX between both may move GPU memory. */
void ggas_ucx_enter_gpu(struct ggas_endpoint *e);
void ggas_ucx_leave_gpu(struct ggas_endpoint *e);
/* Memory of a GPU is moved from now on. */
void ggas_ucx_use_gpu(struct ggas_endpoint *e, const void *memory);
void ggas_ucx_gpu_close(struct ggas_endpoint *e);

/* ucx_parcels.c */
void ggas_ucx_tell(struct ggas_endpoint *e, const struct ggas_event *event);
/*
 * The caller has it at once, as of ggas_taker. Nothing comes but while he polls: of the transports only `self` would bring something while
 * it is sent, and UCX does not take that where peers are watched. What comes while the endpoint is closed nobody hears.
 */
int ggas_ucx_offer(const struct ggas_endpoint *e, const struct ggas_event *event);
ggas_ucx_heard ggas_ucx_on_message;
/* Takes a parcel from its list; NULL: there is none for this peer. */
struct parcel *ggas_ucx_parcel(struct ggas_endpoint *e, struct peer *peer, enum kind kind);
void ggas_ucx_give_back(struct parcel *parcel);
/* 0: the parcel is UCX's, or done with. Otherwise nothing of it was sent, and it is given back. */
int ggas_ucx_launch(struct parcel *parcel, const void *bytes, size_t len);

/* ucx_chores.c */
void ggas_ucx_chores_open(struct ggas_endpoint *e);
void ggas_ucx_chores_close(struct ggas_endpoint *e);
/* NULL: there are too many. */
struct chore *ggas_ucx_add_chore(struct ggas_endpoint *e, struct peer *peer, enum kind kind, const struct head *head);
/* Nothing more comes of the peer. */
void ggas_ucx_drop_chores(struct ggas_endpoint *e, struct peer *peer);
/* Sends what there is room for. */
void ggas_ucx_serve(struct ggas_endpoint *e);

/* ucx_memory.c */
void ggas_ucx_memory_close(struct ggas_endpoint *e);
int ggas_ucx_reg(struct ggas_endpoint *e, void *memory, size_t len, uint32_t access, uint64_t *region, void *key,
		 size_t *key_len);
int ggas_ucx_unreg(struct ggas_endpoint *e, uint64_t region);
ggas_ucx_heard ggas_ucx_on_read, ggas_ucx_on_write, ggas_ucx_on_led;
/* Sends a part of what is read. Whether that was the last one. */
bool ggas_ucx_give(struct ggas_endpoint *e, struct chore *chore);
/* Says what became of a write. Whether there was room. */
bool ggas_ucx_answer(struct ggas_endpoint *e, struct chore *chore);

/* ucx_transfers.c */
void ggas_ucx_transfers_open(struct ggas_endpoint *e);
int ggas_ucx_import(struct ggas_endpoint *e, uint64_t peer, const void *key, size_t len, uint64_t *remote);
void ggas_ucx_forget(struct ggas_endpoint *e, uint64_t remote);
int ggas_ucx_write(struct ggas_endpoint *e, uint64_t peer, const struct ggas_span *span, const uint32_t *immediate,
		   uint64_t token);
int ggas_ucx_write_behind(struct ggas_endpoint *e, uint64_t peer, const void *head, size_t head_len,
			  const struct ggas_span *span, uint32_t immediate, uint64_t token);
int ggas_ucx_read(struct ggas_endpoint *e, uint64_t peer, const struct ggas_span *span, uint64_t token);
ggas_ucx_heard ggas_ucx_on_data, ggas_ucx_on_answer;
/* Sends a part of what is written. Whether that was the last one. */
bool ggas_ucx_put(struct ggas_endpoint *e, struct chore *chore);
void ggas_ucx_fail_operations(struct ggas_endpoint *e, struct peer *peer, int status);
/* UCX does not read a piece of an operation any more. */
void ggas_ucx_piece_over(struct ggas_endpoint *e, struct op *op, int status);

#endif
