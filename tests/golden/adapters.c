// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Requests and completions of mlx4 and mlx5 as rdma-core's public headers lay them out; prints adapters.txt:
 *	cc adapters.c -o adapters && ./adapters >adapters.txt	(Debian: libibverbs-dev)
 */
#include <endian.h>
#include <infiniband/mlx4dv.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <string.h>

enum { QP = 0x123456, INDEX = 0xfe4d, FENCE = 1, SIGNALED = 2, SOLICITED = 4 };
#define REMOTE 0x1122334455667788ull
#define RKEY 0xaabbccddu

struct request {
	const char *name;
	unsigned code, immediate, flags;
	int is_send, is_atomic;
	uint64_t swap_add, compare;
};

static const struct request requests[] = {
	{ "send", 0x0a, 0, SIGNALED, 1, 0, 0, 0 },
	{ "send-immediate", 0x0b, 0x01020304, SIGNALED | SOLICITED, 1, 0, 0, 0 },
	{ "write", 0x08, 0, SIGNALED, 0, 0, 0, 0 },
	{ "write-unsignaled", 0x08, 0, 0, 0, 0, 0, 0 },
	{ "write-immediate", 0x09, 0x05060708, SIGNALED, 0, 0, 0, 0 },
	{ "read-fenced", 0x10, 0, SIGNALED | FENCE, 0, 0, 0, 0 },
	{ "compare-swap", 0x11, 0, SIGNALED, 0, 1, 0x4444, 0x3333 },
	{ "fetch-add", 0x12, 0, SIGNALED, 0, 1, 0x5555, 0 },
};

static void print(const char *family, const char *kind, const char *name, const void *bytes, size_t n)
{
	printf("%s %s %s = ", family, kind, name);
	for (size_t i = 0; i < n; i++)
		printf("%02x", ((const unsigned char *)bytes)[i]);
	printf("\n");
}

/* What follows the control segment, the same in both families. */
static size_t body(const struct request *r, unsigned char *at)
{
	struct mlx5_wqe_raddr_seg remote = { .raddr = htobe64(REMOTE), .rkey = htobe32(RKEY) };
	struct mlx5_wqe_atomic_seg atomic = { .swap_add = htobe64(r->swap_add), .compare = htobe64(r->compare) };
	struct mlx5_wqe_data_seg data;
	size_t n = 0;

	_Static_assert(sizeof(struct mlx4_wqe_raddr_seg) == sizeof(remote), "one layout");
	_Static_assert(sizeof(struct mlx4_wqe_data_seg) == sizeof(data), "one layout");
	mlx5dv_set_data_seg(&data, 8, 0x0a0b0c0d, 0x0102030405060708ull);
	if (!r->is_send) {
		memcpy(at, &remote, sizeof(remote));
		n += sizeof(remote);
	}
	if (r->is_atomic) {
		memcpy(at + n, &atomic, sizeof(atomic));
		n += sizeof(atomic);
	}
	memcpy(at + n, &data, sizeof(data));
	return n + sizeof(data);
}

static void request4(const struct request *r)
{
	unsigned char bytes[128] = { 0 };
	struct mlx4_wqe_ctrl_seg control = { 0 };
	size_t n = sizeof(control) + body(r, bytes + sizeof(control));

	/* Of an odd round of the ring. */
	control.owner_opcode = htobe32(1u << 31 | r->code);
	control.fence_size = n / 16 | (r->flags & FENCE ? MLX4_WQE_CTRL_FENCE : 0);
	control.srcrb_flags = htobe32((r->flags & SIGNALED ? MLX4_WQE_CTRL_CQ_UPDATE : 0) |
				      (r->flags & SOLICITED ? MLX4_WQE_CTRL_SOLICIT : 0));
	control.imm = htobe32(r->immediate);
	memcpy(bytes, &control, sizeof(control));
	print("mlx4", "request", r->name, bytes, n);
}

static void request5(const struct request *r)
{
	unsigned char bytes[128] = { 0 };
	struct mlx5_wqe_ctrl_seg control = { 0 };
	size_t n = sizeof(control) + body(r, bytes + sizeof(control));
	uint8_t flags = (r->flags & SIGNALED ? MLX5_WQE_CTRL_CQ_UPDATE : 0) | (r->flags & SOLICITED ? MLX5_WQE_CTRL_SOLICITED : 0) |
			(r->flags & FENCE ? MLX5_WQE_CTRL_FENCE : 0);

	mlx5dv_set_ctrl_seg(&control, INDEX, r->code, 0, QP, flags, n / 16, 0, htobe32(r->immediate));
	memcpy(bytes, &control, sizeof(control));
	print("mlx5", "request", r->name, bytes, n);
}

/* A completion of 4,096 bytes; `syndrome`: it failed. */
static void completion(const char *name, int sent, unsigned code4, unsigned code5, unsigned operation, uint32_t immediate, unsigned syndrome)
{
	struct mlx4_cqe four = { .vlan_my_qpn = htobe32(QP), .wqe_index = htobe16(INDEX) };
	struct mlx5_cqe64 five;

	memset(&five, 0, sizeof(five));
	mlx4dv_set_cqe_owner(&four, MLX4_CQE_OWNER_MASK);
	four.owner_sr_opcode |= code4 | (sent ? MLX4_CQE_IS_SEND_MASK : 0);
	five.sop_drop_qpn = htobe32(operation << 24 | QP);
	five.wqe_counter = htobe16(INDEX);
	five.op_own = code5 << 4;
	mlx5dv_set_cqe_owner(&five, 1);
	if (syndrome) {
		((struct mlx4_err_cqe *)&four)->syndrome = syndrome;
		((struct mlx5_err_cqe *)&five)->syndrome = syndrome;
	} else {
		four.byte_cnt = five.byte_cnt = htobe32(4096);
		four.immed_rss_invalid = five.imm_inval_pkey = htobe32(immediate);
	}
	print("mlx4", "completion", name, &four, sizeof(four));
	print("mlx5", "completion", name, &five, sizeof(five));
}

int main(void)
{
	enum { ERROR = MLX4_CQE_OPCODE_ERROR };

	puts("# Made by adapters.c from rdma-core's mlx4dv.h and mlx5dv.h.");
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		request4(&requests[i]);
		request5(&requests[i]);
	}
	completion("send", 1, 0x0a, MLX5_CQE_REQ, 0x0a, 0, 0);
	completion("write", 1, 0x08, MLX5_CQE_REQ, 0x08, 0, 0);
	completion("read", 1, 0x10, MLX5_CQE_REQ, 0x10, 0, 0);
	completion("compare-swap", 1, 0x11, MLX5_CQE_REQ, 0x11, 0, 0);
	completion("fetch-add", 1, 0x12, MLX5_CQE_REQ, 0x12, 0, 0);
	completion("receive", 0, MLX4_RECV_OPCODE_SEND, MLX5_CQE_RESP_SEND, 0, 0, 0);
	completion("receive-immediate", 0, MLX4_RECV_OPCODE_SEND_IMM, MLX5_CQE_RESP_SEND_IMM, 0, 0x01020304, 0);
	completion("receive-write", 0, MLX4_RECV_OPCODE_RDMA_WRITE_IMM, MLX5_CQE_RESP_WR_IMM, 0, 0x05060708, 0);
	completion("send-not-ready", 1, ERROR, MLX5_CQE_REQ_ERR, 0x0a, 0, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	completion("receive-flushed", 0, ERROR, MLX5_CQE_RESP_ERR, 0, 0, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	return 0;
}
