/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * InfiniBand objects as kernels see them (thesis table 5.1, Listings 5.1 and 5.2): the host sets them up, in kernel memory. Addresses
 * are plain 64-bit numbers, valid where the kernel runs. Rust sees them as ggas_verbs::layout.
 *
 * The queues themselves are an adapter's: those of mlx4 (ConnectX-2 and 3) or mlx5 (those after them). No HCA has seen any of this.
 */
#ifndef GGAS_VERBS_LAYOUT_H
#define GGAS_VERBS_LAYOUT_H

#include <stdint.h>

#define GGAS_IBV_MLX4		0	/* formats of queues */
#define GGAS_IBV_MLX5		1

/* The user space context: its doorbells, and the queue pairs by their numbers. */
struct ggas_ibv_ctx {
	uint64_t uar;		/* page of doorbells */
	uint64_t qp_table;	/* uint64_t[qp_mask + 1]: struct ggas_ibv_qp of number & mask, or the next free place behind it */
	uint64_t report;	/* struct ggas_report of bounded waits, or 0 */
	uint64_t timeout_ns;	/* of bounded waits */
	uint32_t qp_mask;
	uint32_t node;
	uint32_t format;	/* GGAS_IBV_MLX* of all its queues */
	uint32_t reserved;
};

/* A completion queue of entries of 32 bytes (mlx4) or 64 (mlx5). */
struct ggas_ibv_cq {
	uint64_t ctx;		/* struct ggas_ibv_ctx */
	uint64_t buffer;
	uint64_t record;	/* uint32_t, big-endian: how many were consumed, 24 bits */
	uint32_t entries;	/* a power of two */
	uint32_t consumed;
};

/* A send or receive queue. */
struct ggas_ibv_wq {
	uint64_t buffer;
	uint64_t record;	/* uint32_t, big-endian: how many were posted, 16 bits; of receive queues, and mlx5's send queues */
	uint64_t ids;		/* uint64_t[entries]: the poster's numbers */
	uint32_t entries;	/* a power of two */
	uint32_t stride;	/* bytes of an entry: a power of two */
	uint32_t most;		/* most that are posted and not complete */
	uint32_t sges;		/* most pieces of local memory */
	uint32_t head;		/* posted */
	uint32_t tail;		/* known to be complete */
};

/* A queue pair. */
struct ggas_ibv_qp {
	uint64_t ctx;		/* struct ggas_ibv_ctx */
	struct ggas_ibv_wq send;
	struct ggas_ibv_wq receive;
	uint32_t number;
	uint32_t doorbell;	/* mlx4: what its doorbell is given, as it lies in memory */
	uint32_t spare;		/* mlx4: entries that an adapter may read ahead: so far behind the head old ones are stamped */
	uint32_t reserved;
	uint64_t ring;		/* its doorbell in the context's page */
};

/* A region of memory, local or of a peer. */
struct ggas_ibv_mr {
	uint64_t address;
	uint64_t bytes;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t lkey_be;	/* the keys as they lie in requests */
	uint32_t rkey_be;
};

struct ggas_ibv_sge {
	uint64_t address;
	uint32_t bytes;
	uint32_t lkey;		/* of a request with static values: as it lies there */
};

#define GGAS_IBV_SGES		4	/* pieces of a request that kernels post */

#define GGAS_IBV_WRITE		0	/* operations: numbers of the verbs */
#define GGAS_IBV_WRITE_IMM	1
#define GGAS_IBV_SEND		2
#define GGAS_IBV_SEND_IMM	3
#define GGAS_IBV_READ		4
#define GGAS_IBV_CMP_SWAP	5
#define GGAS_IBV_FETCH_ADD	6

#define GGAS_IBV_FENCE		1u	/* flags: numbers of the verbs; inline data do not exist here */
#define GGAS_IBV_SIGNALED	2u
#define GGAS_IBV_SOLICITED	4u

/* A request. */
struct ggas_ibv_send_wr {
	uint64_t id;
	uint64_t remote;	/* address at the peer */
	uint64_t compare_add;	/* of atomic operations */
	uint64_t swap;
	uint32_t rkey;		/* of a request with static values: as it lies there */
	uint32_t operation;	/* GGAS_IBV_* */
	uint32_t flags;
	uint32_t immediate;
	uint32_t sges;
	uint32_t reserved;
	struct ggas_ibv_sge sge[GGAS_IBV_SGES];
};

/* A receive. */
struct ggas_ibv_recv_wr {
	uint64_t id;
	uint32_t sges;
	uint32_t reserved;
	struct ggas_ibv_sge sge[GGAS_IBV_SGES];
};

/* What completed. `status` and `operation` are numbers of the verbs (ibv_wc_status, ibv_wc_opcode). */
struct ggas_ibv_wc {
	uint64_t id;
	uint32_t status;
	uint32_t operation;
	uint32_t bytes;
	uint32_t immediate;
	uint32_t qp;
	uint32_t has_immediate;
};

#define GGAS_IBV_WC_SUCCESS		0
#define GGAS_IBV_WC_LOC_LEN_ERR		1
#define GGAS_IBV_WC_LOC_QP_OP_ERR	2
#define GGAS_IBV_WC_LOC_PROT_ERR	4
#define GGAS_IBV_WC_WR_FLUSH_ERR	5
#define GGAS_IBV_WC_BAD_RESP_ERR	7
#define GGAS_IBV_WC_REM_INV_REQ_ERR	9
#define GGAS_IBV_WC_REM_ACCESS_ERR	10
#define GGAS_IBV_WC_REM_OP_ERR		11
#define GGAS_IBV_WC_RETRY_EXC_ERR	12
#define GGAS_IBV_WC_RNR_RETRY_EXC_ERR	13
#define GGAS_IBV_WC_GENERAL_ERR		21

#define GGAS_IBV_WC_SEND		0
#define GGAS_IBV_WC_WRITE		1
#define GGAS_IBV_WC_READ		2
#define GGAS_IBV_WC_CMP_SWAP		3
#define GGAS_IBV_WC_FETCH_ADD		4
#define GGAS_IBV_WC_RECV		128
#define GGAS_IBV_WC_RECV_WRITE_IMM	129

#endif /* GGAS_VERBS_LAYOUT_H */
