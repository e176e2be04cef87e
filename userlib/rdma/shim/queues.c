// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A queue pair of a reliable connection on an mlx5 adapter, and where it lies in memory. rdma-core makes it; kernels, not
 * ibv_post_send, then write its requests.
 */
#include "load.h"
#include "rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ggas_rdma {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ggas_rdma_wish wish;
};

struct ggas_rdma_region {
	struct ibv_mr *mr;
};

#define CALL ggas_rdma_calls

/* What failed, and why; a call that does not say why is an EIO. */
static int failed(const char **call, const char *name)
{
	*call = name;
	return errno > 0 ? errno : EIO;
}

int ggas_rdma_list(struct ggas_rdma_device *all)
{
	int count = 0, most = 0;
	struct ibv_device **list;

	errno = 0;
	list = CALL.ibv_get_device_list(&most);
	if (!list)
		return errno == ENOSYS ? 0 : -(errno > 0 ? errno : EIO);
	for (; count < most && count < GGAS_RDMA_DEVICES; count++) {
		memset(&all[count], 0, sizeof(all[count]));
		strncpy(all[count].name, CALL.ibv_get_device_name(list[count]), GGAS_RDMA_NAME - 1);
		all[count].direct = CALL.mlx5dv_is_supported(list[count]);
	}
	CALL.ibv_free_device_list(list);
	return count;
}

static struct ibv_context *opened(const char *name)
{
	struct ibv_device **list = CALL.ibv_get_device_list(NULL);
	struct ibv_context *device = NULL;

	if (!list)
		return NULL;
	errno = ENODEV;
	for (struct ibv_device **at = list; *at && !device; at++)
		if (!strcmp(CALL.ibv_get_device_name(*at), name))
			device = CALL.ibv_open_device(*at);
	CALL.ibv_free_device_list(list);
	return device;
}

static int made(struct ggas_rdma *end, const char **call)
{
	const struct ggas_rdma_wish *wish = &end->wish;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .port_num = wish->port };
	int error;

	end->pd = CALL.ibv_alloc_pd(end->device);
	if (!end->pd)
		return failed(call, "ibv_alloc_pd");
	end->cq = CALL.ibv_create_cq(end->device, wish->completions, NULL, NULL, 0);
	if (!end->cq)
		return failed(call, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = end->cq;
	attr.cap = (struct ibv_qp_cap){ .max_send_wr = wish->sends, .max_recv_wr = wish->receives };
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	end->qp = CALL.ibv_create_qp(end->pd, &attr);
	if (!end->qp)
		return failed(call, "ibv_create_qp");
	state.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*call = "ibv_modify_qp to INIT";
	error = CALL.ibv_modify_qp(end->qp, &state,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return error;
}

static int shown(struct ggas_rdma *end, struct ggas_rdma_queues *queues, const char **call)
{
	struct mlx5dv_qp qp = { 0 };
	struct mlx5dv_cq cq = { 0 };
	struct mlx5dv_obj obj = { .qp = { .in = end->qp, .out = &qp }, .cq = { .in = end->cq, .out = &cq } };
	int error;

	*call = "mlx5dv_init_obj";
	error = CALL.mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ);
	if (error)
		return error > 0 ? error : -error;
	*queues = (struct ggas_rdma_queues){
		.send = (uintptr_t)qp.sq.buf,
		.receive = (uintptr_t)qp.rq.buf,
		.completions = (uintptr_t)cq.buf,
		.record = (uintptr_t)qp.dbrec,
		.completion_record = (uintptr_t)cq.dbrec,
		.doorbell = (uintptr_t)qp.bf.reg,
		.doorbell_size = qp.bf.size,
		.send_count = qp.sq.wqe_cnt,
		.send_stride = qp.sq.stride,
		.receive_count = qp.rq.wqe_cnt,
		.receive_stride = qp.rq.stride,
		.completion_count = cq.cqe_cnt,
		.completion_size = cq.cqe_size,
		.qpn = end->qp->qp_num,
		.cqn = cq.cqn,
	};
	return 0;
}

int ggas_rdma_open(const char *name, const struct ggas_rdma_wish *wish, struct ggas_rdma **out,
		   struct ggas_rdma_queues *queues, const char **call)
{
	struct ggas_rdma *end = calloc(1, sizeof(*end));
	int error;

	errno = 0;
	if (!end)
		return failed(call, "calloc");
	end->wish = *wish;
	end->device = opened(name);
	error = end->device ? made(end, call) : failed(call, "ibv_open_device");
	if (!error)
		error = shown(end, queues, call);
	if (error) {
		ggas_rdma_close(end);
		return error;
	}
	*out = end;
	return 0;
}

int ggas_rdma_address(struct ggas_rdma *end, uint8_t gid[16], uint32_t *lid, uint32_t *mtu, const char **call)
{
	/* The function fills what old callers know of; the rest stays as it is. */
	struct ibv_port_attr port;
	union ibv_gid own;

	memset(&port, 0, sizeof(port));
	errno = 0;
	if (CALL.ibv_query_port(end->device, end->wish.port, (struct _compat_ibv_port_attr *)&port))
		return failed(call, "ibv_query_port");
	if (CALL.ibv_query_gid(end->device, end->wish.port, end->wish.gid, &own))
		return failed(call, "ibv_query_gid");
	memcpy(gid, own.raw, sizeof(own.raw));
	*lid = port.lid;
	*mtu = port.active_mtu;
	return 0;
}

int ggas_rdma_connect(struct ggas_rdma *end, const struct ggas_rdma_peer *peer, const char **call)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = peer->mtu };
	int error;

	attr.dest_qp_num = peer->qpn;
	attr.rq_psn = peer->receive_psn;
	attr.max_dest_rd_atomic = peer->reads;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.dlid = peer->lid;
	attr.ah_attr.port_num = end->wish.port;
	attr.ah_attr.grh.hop_limit = 64;
	attr.ah_attr.grh.sgid_index = end->wish.gid;
	memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	*call = "ibv_modify_qp to RTR";
	error = CALL.ibv_modify_qp(end->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = peer->send_psn };
	attr.max_rd_atomic = peer->reads;
	/* 4.096 us * 2^14 = 67 ms until a packet is sent again. */
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	*call = "ibv_modify_qp to RTS";
	return CALL.ibv_modify_qp(end->qp, &attr,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int ggas_rdma_register(struct ggas_rdma *end, int fd, uint64_t offset, uint64_t address, uint64_t len,
		       struct ggas_rdma_region **out, uint32_t *lkey, uint32_t *rkey, const char **call)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC;
	struct ggas_rdma_region *region = calloc(1, sizeof(*region));

	errno = 0;
	if (!region)
		return failed(call, "calloc");
	region->mr = fd < 0 ? CALL.ibv_reg_mr(end->pd, (void *)(uintptr_t)address, len, access) :
			      CALL.ibv_reg_dmabuf_mr(end->pd, offset, len, address, fd, access);
	if (!region->mr) {
		int error = failed(call, fd < 0 ? "ibv_reg_mr" : "ibv_reg_dmabuf_mr");

		free(region);
		return error;
	}
	*lkey = region->mr->lkey;
	*rkey = region->mr->rkey;
	*out = region;
	return 0;
}

int ggas_rdma_deregister(struct ggas_rdma_region *region)
{
	int error = CALL.ibv_dereg_mr(region->mr);

	if (!error)
		free(region);
	return error;
}

void ggas_rdma_close(struct ggas_rdma *end)
{
	/* In the opposite order; what refuses is left to the kernel, which ends all with the process. */
	if (end->qp)
		CALL.ibv_destroy_qp(end->qp);
	if (end->cq)
		CALL.ibv_destroy_cq(end->cq);
	if (end->pd)
		CALL.ibv_dealloc_pd(end->pd);
	if (end->device)
		CALL.ibv_close_device(end->device);
	free(end);
}
