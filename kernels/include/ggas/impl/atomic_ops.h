/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomic operations by number: those of userlib/abi/src/atomic.rs. */
#ifndef GGAS_IMPL_ATOMIC_OPS_H
#define GGAS_IMPL_ATOMIC_OPS_H

#define GGAS_ATOMIC_ADD		0
#define GGAS_ATOMIC_EXCH	1
#define GGAS_ATOMIC_AND		2
#define GGAS_ATOMIC_OR		3
#define GGAS_ATOMIC_XOR		4
#define GGAS_ATOMIC_MIN		5
#define GGAS_ATOMIC_MAX		6
#define GGAS_ATOMIC_MIN_SIGNED	7
#define GGAS_ATOMIC_MAX_SIGNED	8
#define GGAS_ATOMIC_ADD_FLOAT	9
#define GGAS_ATOMIC_CAS		10

#endif /* GGAS_IMPL_ATOMIC_OPS_H */
