/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the crate asks of a library that joins hosts. One table of calls for each library; src/table.rs has the same
 * structures in Rust.
 *
 * Calls on one endpoint come from one thread at a time. None waits for a peer. Where a call returns int, 0 is success,
 * GGAS_AGAIN means that nothing happened and poll() has to be called before the next try, and a negative value is one
 * of the library's error numbers.
 */
#ifndef GGAS_WIRE_H
#define GGAS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define GGAS_AGAIN 1

/* The longest message that each library takes, and the longest of any; the longest address and key, and the longest name, in bytes. */
#define GGAS_MESSAGE_MAX 8192
#define GGAS_MESSAGE_MOST 17408
#define GGAS_ADDRESS_MAX 4096
#define GGAS_KEY_MAX 256
#define GGAS_NAME_MAX 64
/* What may be in front of a write. */
#define GGAS_HEAD_MAX 256
/* Events that one poll() gives at most. */
#define GGAS_EVENTS_MAX 32

/* What a provider can do: bits of ggas_offer.can. */
#define GGAS_CAN_MESSAGES 1u /* reliable messages to any number of peers, in order */
#define GGAS_CAN_MEMORY 2u   /* reads and writes of a peer's memory */
#define GGAS_CAN_NOTIFY 4u   /* a write that tells its target of itself, behind its data */
#define GGAS_CAN_SLEEP 8u    /* a descriptor that is readable when there is something to poll */
#define GGAS_CAN_GPU 16u     /* reads and writes of GPU memory */
#define GGAS_CAN_ORDER 32u   /* writes that tell of themselves and messages come in the order in which they went */
#define GGAS_CAN_RDMA 64u    /* network devices read and write memory themselves */

/* What peers that have the key may do with memory: read and write; nothing, since it is only for our own end; read. */
#define GGAS_ACCESS_ALL 0u
#define GGAS_ACCESS_LOCAL 1u
#define GGAS_ACCESS_READ 2u
/* The memory is a GPU's, of an endpoint that reaches such: together with LOCAL or READ. */
#define GGAS_ACCESS_GPU 16u

/* A provider: one way of a library to reach peers. */
struct ggas_offer {
	char name[GGAS_NAME_MAX];
	char device[GGAS_NAME_MAX]; /* its first network device; empty where it does not fit */
	uint64_t write_max;         /* bytes of one write */
	uint32_t can;               /* GGAS_CAN_*: of an endpoint as open() makes it; 0 where there is none */
	uint32_t reserved;
};

enum ggas_event_kind {
	GGAS_MESSAGE = 1, /* bytes, len: valid until the next poll() */
	GGAS_WRITTEN,     /* a peer's write with immediate data is in our memory */
	GGAS_DONE,        /* the operation token is over: its source may be reused, or its data are there */
	GGAS_FAILED,      /* the operation token failed */
	GGAS_UNSENT,      /* a message to peer token was lost */
	GGAS_GONE,        /* peer token is not reached any more */
	GGAS_LED,         /* to a taker alone: a write_behind() of a peer, not in our memory yet: bytes, len are in front of more, more_len */
};

struct ggas_event {
	uint32_t kind;
	uint32_t immediate;
	uint64_t token;
	const void *bytes;
	uint64_t len;
	int32_t error; /* of GGAS_FAILED, GGAS_UNSENT and GGAS_GONE */
	uint32_t reserved;
	const void *more;
	uint64_t more_len;
};

/*
 * Has an event in the middle of poll(), so that bytes need not be kept: GGAS_MESSAGE, GGAS_LED, GGAS_WRITTEN. Not 0: what is led is taken,
 * and goes to no memory; else GGAS_WRITTEN follows. It calls nothing here.
 */
typedef int (*ggas_taker)(void *whose, const struct ggas_event *event);

struct ggas_endpoint;

/* Both ends of a write or read. */
struct ggas_span {
	void *local;
	uint64_t region; /* of reg() */
	uint64_t remote; /* of import() */
	uint64_t offset; /* within the remote region */
	uint64_t len;
};

struct ggas_wire {
	/* Bytes of a message: GGAS_MESSAGE_MAX or more, at most GGAS_MESSAGE_MOST. */
	size_t message_max;
	/* Opens the library at path, or where the system looks for it. NULL, or why it cannot be used. Once. */
	const char *(*load)(const char *path);
	void (*version)(uint32_t *major, uint32_t *minor);
	const char *(*explain)(int error);
	/* How many providers there are; the first `room` of them. */
	int (*list)(struct ggas_offer *offers, int room);
	/*
	 * At an address of this host, in digits, or wherever the library likes; `gpu`: it is to reach GPU memory, too. NULL: *error,
	 * and *call is what failed.
	 */
	struct ggas_endpoint *(*open)(const char *provider, const char *host, uint32_t gpu, int *error,
				      const char **call);
	void (*close)(struct ggas_endpoint *endpoint);
	int (*address)(struct ggas_endpoint *endpoint, void *bytes, size_t *len);
	/* Makes a peer known; a connection is made by its first message. */
	int (*insert)(struct ggas_endpoint *endpoint, const void *address, size_t len, uint64_t *peer);
	int (*remove)(struct ggas_endpoint *endpoint, uint64_t peer);
	/* Lets peers that have the key access memory (GGAS_ACCESS_*), or uses it as the local end of write() and read(). */
	int (*reg)(struct ggas_endpoint *endpoint, void *memory, size_t len, uint32_t access, uint64_t *region,
		   void *key, size_t *key_len);
	/* GGAS_AGAIN: no access begins any more, but the library still reads there. */
	int (*unreg)(struct ggas_endpoint *endpoint, uint64_t region);
	/* A peer's region, from its key. */
	int (*import)(struct ggas_endpoint *endpoint, uint64_t peer, const void *key, size_t len, uint64_t *remote);
	void (*forget)(struct ggas_endpoint *endpoint, uint64_t remote);
	int (*send)(struct ggas_endpoint *endpoint, uint64_t peer, const void *bytes, size_t len);
	/* Where the next send() takes its bytes from without a copy, message_max of them; NULL: nowhere now. NULL where there is no such call. */
	void *(*room)(struct ggas_endpoint *endpoint);
	/* immediate: NULL, or what the peer is told behind the data. */
	int (*write)(struct ggas_endpoint *endpoint, uint64_t peer, const struct ggas_span *span,
		     const uint32_t *immediate, uint64_t token);
	/* As write(), with head_len bytes, at most GGAS_HEAD_MAX, in front of the span's, which are copied; NULL where there is no such call. */
	int (*write_behind)(struct ggas_endpoint *endpoint, uint64_t peer, const void *head, size_t head_len,
			    const struct ggas_span *span, uint32_t immediate, uint64_t token);
	int (*read)(struct ggas_endpoint *endpoint, uint64_t peer, const struct ggas_span *span, uint64_t token);
	/* Moves things on. The number of events, without those that the taker had, or a negative error. */
	int (*poll)(struct ggas_endpoint *endpoint, struct ggas_event events[GGAS_EVENTS_MAX], ggas_taker take,
		    void *whose);
	/* A descriptor, or -1. It may be slept on when arm() returned 0; 1: poll() first. */
	int (*descriptor)(struct ggas_endpoint *endpoint);
	int (*arm)(struct ggas_endpoint *endpoint);
};

/* src/table.rs asserts the same. */
_Static_assert(sizeof(struct ggas_offer) == 144 && sizeof(struct ggas_event) == 56, "a structure has changed");
_Static_assert(sizeof(struct ggas_span) == 40, "a structure has changed");
_Static_assert(sizeof(struct ggas_wire) == 22 * sizeof(void *), "the table has changed");

extern const struct ggas_wire ggas_libfabric, ggas_ucx;

/*
 * Has an opened library mark the descriptors that it makes, so that children do not inherit them. `others`: what else stands in place of a
 * function of the C library, by name; may be NULL, and give NULL.
 */
void ggas_mark_descriptors(void *library, const void *(*others)(const char *name));

#endif
