/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parts of the shim for libfabric. */
#ifndef GGAS_LIBFABRIC_H
#define GGAS_LIBFABRIC_H

#include "wire.h"

#include <rdma/fabric.h>
#include <sys/socket.h>

/* The interface that is asked for. Newer libraries serve it too. */
#define GGAS_LIBFABRIC_API FI_VERSION(1, 17)

const char *ggas_libfabric_load(const char *path);
int ggas_libfabric_list(struct ggas_offer *offers, int room);
/* What a provider offers for an endpoint as the crate needs it, by its exact name; NULL where it has no such. `host`: NULL, or
 * the address in digits that the endpoint is to have, as far as the provider's are the network's. */
struct fi_info *ggas_libfabric_look(const char *provider, const char *host);
/* accept(), which keeps few connections to which libfabric has not answered. */
int ggas_accept_few(int listener, struct sockaddr *address, socklen_t *len);

#endif
