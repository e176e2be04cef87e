/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma-core's headers, without those of its macros that stand before functions that are looked up at run time. */
#ifndef GGAS_RDMA_HEADERS_H
#define GGAS_RDMA_HEADERS_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

#endif
