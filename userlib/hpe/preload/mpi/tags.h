/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tags of parts on the communicator of this library: even ones, and of answers the odd ones behind. MPI promises tags up to 32767
 * (MPI_TAG_UB), so as many messages in parts may be under way from a process as there are pairs.
 */
#ifndef GGAS_HPE_MPI_TAGS_H
#define GGAS_HPE_MPI_TAGS_H

/* A tag that no message under way has; -1: all are taken. */
int hpe_mpi_take_tag(void);
void hpe_mpi_return_tag(int tag);

#endif
