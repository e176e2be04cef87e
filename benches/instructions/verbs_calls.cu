// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of verbs_calls.cpp as kernels, each by itself: benches/instructions/ptx.py counts their instructions for GPUs.
#include "ggas/rma.cuh"
#include "ggas/verbs.cuh"

#define CALL(name, first_type, second_type, call)                                                                      \
	extern "C" __global__ void name(first_type *first, second_type *second, int *result) { *result = call; }
#define STEP(step, scope, format)                                                                                      \
	CALL(post_##step##_##scope##_##format, ggas_ibv_qp, const ggas_ibv_send_wr,                                    \
	     (ggas_ibv_post_send<ggas_ibv_step<step, ggas_ibv_##format>, ggas_scope::scope>(first, *second)))          \
	CALL(poll_##step##_##scope##_##format, ggas_ibv_cq, ggas_ibv_wc,                                               \
	     (ggas_ibv_poll_cq<ggas_ibv_step<step, ggas_ibv_##format>, ggas_scope::scope>(first, second)))
#define STEPS(scope, format)                                                                                           \
	STEP(0, scope, format)                                                                                         \
	STEP(1, scope, format)                                                                                         \
	STEP(2, scope, format)                                                                                         \
	STEP(3, scope, format)                                                                                         \
	STEP(4, scope, format)

STEPS(thread, mlx4)
STEPS(block, mlx4)
STEPS(thread, mlx5)
STEPS(block, mlx5)
CALL(post_rma, ggas_port, const gpu_rma2_peer, (gpu_rma2_put(first, *second, 0x1000, 0x2000, 64, EXTOLL_SPEC_REQUESTER)))
CALL(poll_rma, ggas_port, extoll_noti, (gpu_rma2_noti_take(first, second)))
