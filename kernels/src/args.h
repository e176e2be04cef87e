/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Argument structures of the library's kernels: fixed-width types, no pointers. Rust sees them through bindgen. */
#ifndef GGAS_ARGS_H
#define GGAS_ARGS_H

#include "coll.h"
#include "copier.h"
#include "engine.h"
#include "gaspi.h"
#include "tn.h"

#endif /* GGAS_ARGS_H */
