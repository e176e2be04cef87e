/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of rdma-core that are used, looked up when the libraries are opened. */
#ifndef GGAS_RDMA_LOAD_H
#define GGAS_RDMA_LOAD_H

#include "headers.h"

#define GGAS_RDMA_VERBS(of)                                                                                  \
	of(ibv_get_device_list) of(ibv_free_device_list) of(ibv_get_device_name) of(ibv_open_device)         \
		of(ibv_close_device) of(ibv_alloc_pd) of(ibv_dealloc_pd) of(ibv_create_cq) of(ibv_destroy_cq) \
			of(ibv_create_qp) of(ibv_destroy_qp) of(ibv_modify_qp) of(ibv_query_gid)              \
				of(ibv_query_port) of(ibv_reg_mr) of(ibv_reg_dmabuf_mr) of(ibv_dereg_mr)
#define GGAS_RDMA_MLX5(of) of(mlx5dv_is_supported) of(mlx5dv_init_obj)

#define GGAS_RDMA_POINTER(name) __typeof__(&name) name;

struct ggas_rdma_calls {
	GGAS_RDMA_VERBS(GGAS_RDMA_POINTER)
	GGAS_RDMA_MLX5(GGAS_RDMA_POINTER)
};

extern struct ggas_rdma_calls ggas_rdma_calls;

#endif
