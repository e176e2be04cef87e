/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Collective calls on the neighbours of a topology, and those with a datatype for each rank: staged whole on both sides. */
#include "call.h"

/* How many send to this process, and how many it sends to. */
struct degree {
	int in, out;
};

static struct degree degree(MPI_Comm comm)
{
	struct degree degree = { 0, 0 };
	int kind = MPI_UNDEFINED, dims = 0, weighted;

	PMPI_Topo_test(comm, &kind);
	if (kind == MPI_CART && !PMPI_Cartdim_get(comm, &dims))
		degree.in = degree.out = 2 * dims;
	if (kind == MPI_GRAPH && !PMPI_Graph_neighbors_count(comm, hpe_mpi_rank(comm), &degree.in))
		degree.out = degree.in;
	if (kind == MPI_DIST_GRAPH)
		PMPI_Dist_graph_neighbors_count(comm, &degree.in, &degree.out, &weighted);
	return degree;
}

/*
 * A call and its form that does not block: parameters, how buffers are staged, arguments. What receives is read first, as neighbours
 * that are MPI_PROC_NULL leave their parts as they are.
 */
#define PAIR(name, iname, parameters, staged, arguments) \
int MPI_##name(parameters) \
{ \
	struct call call = hpe_mpi_call("MPI_" #name, comm, from, to); \
\
	staged \
	return MAKE(call, PMPI_##name(arguments)); \
} \
\
int MPI_##iname(parameters, MPI_Request *request) \
{ \
	struct call call = hpe_mpi_call("MPI_" #iname, comm, from, to); \
\
	staged \
	return START(call, PMPI_##iname(arguments, request)); \
}

#define NEIGHBOURS struct degree near = degree(comm)
#define FROM_NEAR hpe_mpi_stage(&call, &call.from, 0, near.out, sends, from_displs, sent, READ)
#define TO_NEAR hpe_mpi_stage(&call, &call.to, 0, near.in, receives, displs, received, READ | WRITE)

#define EACH const void *from, int sends, MPI_Datatype sent, void *to, int receives, MPI_Datatype received, MPI_Comm comm
#define EACH_ARGUMENTS call.from.buffer, sends, sent, call.to.buffer, receives, received, comm

PAIR(Neighbor_allgather, Ineighbor_allgather, EACH,
     NEIGHBOURS; FROM(sends, sent); TO((MPI_Count)receives * near.in, received, READ | WRITE);, EACH_ARGUMENTS)
PAIR(Neighbor_alltoall, Ineighbor_alltoall, EACH,
     NEIGHBOURS; FROM((MPI_Count)sends * near.out, sent); TO((MPI_Count)receives * near.in, received, READ | WRITE);,
     EACH_ARGUMENTS)

#define GATHERED const void *from, int sends, MPI_Datatype sent, void *to, const int receives[], const int displs[], \
	MPI_Datatype received, MPI_Comm comm
#define GATHERED_ARGUMENTS call.from.buffer, sends, sent, call.to.buffer, receives, displs, received, comm

PAIR(Neighbor_allgatherv, Ineighbor_allgatherv, GATHERED, NEIGHBOURS; FROM(sends, sent); TO_NEAR;, GATHERED_ARGUMENTS)

#define SCATTERED const void *from, const int sends[], const int from_displs[], MPI_Datatype sent, void *to, \
	const int receives[], const int displs[], MPI_Datatype received, MPI_Comm comm
#define SCATTERED_ARGUMENTS call.from.buffer, sends, from_displs, sent, call.to.buffer, receives, displs, received, comm

PAIR(Neighbor_alltoallv, Ineighbor_alltoallv, SCATTERED, NEIGHBOURS; FROM_NEAR; TO_NEAR;, SCATTERED_ARGUMENTS)

#define TYPED(displacement) const void *from, const int sends[], const displacement from_displs[], const MPI_Datatype sent[], \
	void *to, const int receives[], const displacement displs[], const MPI_Datatype received[], MPI_Comm comm

PAIR(Neighbor_alltoallw, Ineighbor_alltoallw, TYPED(MPI_Aint),
     NEIGHBOURS; hpe_mpi_stage_types(&call, &call.from, near.out, sends, NULL, from_displs, sent, READ);
     hpe_mpi_stage_types(&call, &call.to, near.in, receives, NULL, displs, received, READ | WRITE);, SCATTERED_ARGUMENTS)

/* With MPI_IN_PLACE the arguments of what is sent mean nothing. */
PAIR(Alltoallw, Ialltoallw, TYPED(int), int size = hpe_mpi_size(comm);
     if (from != MPI_IN_PLACE)
	hpe_mpi_stage_types(&call, &call.from, size, sends, from_displs, NULL, sent, READ);
     hpe_mpi_stage_types(&call, &call.to, size, receives, displs, NULL, received, READ | WRITE);, SCATTERED_ARGUMENTS)
