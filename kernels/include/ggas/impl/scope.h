/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef GGAS_IMPL_SCOPE_H
#define GGAS_IMPL_SCOPE_H

/* Who calls a function together. */
enum class ggas_scope { thread, warp, block };

#endif /* GGAS_IMPL_SCOPE_H */
