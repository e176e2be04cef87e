/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What src/raw.rs calls. No HCA has run any of it. */
#ifndef GGAS_RDMA_H
#define GGAS_RDMA_H

#include <stddef.h>
#include <stdint.h>

enum { GGAS_RDMA_NAME = 64, GGAS_RDMA_DEVICES = 64 };

struct ggas_rdma_device {
	char name[GGAS_RDMA_NAME];
	/* mlx5dv knows it. */
	uint32_t direct;
	uint32_t reserved;
};

/* Where a queue pair and its completion queue lie, for kernels that write and read them. Addresses of this process. */
struct ggas_rdma_queues {
	uint64_t send, receive, completions;
	/* Doorbell records: of the queue pair (receives, sends), of the completion queue. */
	uint64_t record, completion_record;
	/* Of the adapter's register, where a request's first 8 bytes ring; two registers of `doorbell_size` in turn, or one. */
	uint64_t doorbell;
	uint32_t doorbell_size;
	uint32_t send_count, send_stride;
	uint32_t receive_count, receive_stride;
	uint32_t completion_count, completion_size;
	uint32_t qpn, cqn;
	uint32_t reserved;
};

struct ggas_rdma_wish {
	uint32_t sends, receives, completions;
	/* Which port of the adapter, from 1, and which of its addresses. */
	uint32_t port, gid;
};

/* Whom a queue pair talks to. */
struct ggas_rdma_peer {
	uint8_t gid[16];
	uint32_t qpn, lid;
	uint32_t send_psn, receive_psn;
	/* Reads and atomic operations at a time. */
	uint32_t reads;
	/* Code of the MTU: 1 is 256 bytes, 5 is 4096. */
	uint32_t mtu;
};

_Static_assert(sizeof(struct ggas_rdma_device) == 72 && sizeof(struct ggas_rdma_queues) == 88 &&
		       sizeof(struct ggas_rdma_wish) == 20 && sizeof(struct ggas_rdma_peer) == 40,
	       "src/raw.rs says the same");

struct ggas_rdma;
struct ggas_rdma_region;

/* Opens the libraries; NULL, or why not. */
const char *ggas_rdma_load(const char *verbs, const char *mlx5);
/* Devices, as many as there are; below 0: an error number. */
int ggas_rdma_list(struct ggas_rdma_device *all);
/* These return 0 or an error number, and name the call that failed. */
int ggas_rdma_open(const char *name, const struct ggas_rdma_wish *wish, struct ggas_rdma **end,
		   struct ggas_rdma_queues *queues, const char **call);
int ggas_rdma_address(struct ggas_rdma *end, uint8_t gid[16], uint32_t *lid, uint32_t *mtu, const char **call);
int ggas_rdma_connect(struct ggas_rdma *end, const struct ggas_rdma_peer *peer, const char **call);
/* fd: a dma-buf of GPU memory, in which the region begins at `offset`; or -1: host memory at `address`. */
int ggas_rdma_register(struct ggas_rdma *end, int fd, uint64_t offset, uint64_t address, uint64_t len,
		       struct ggas_rdma_region **region, uint32_t *lkey, uint32_t *rkey, const char **call);
int ggas_rdma_deregister(struct ggas_rdma_region *region);
void ggas_rdma_close(struct ggas_rdma *end);

#endif
