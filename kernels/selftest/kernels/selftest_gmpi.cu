// SPDX-License-Identifier: MIT OR Apache-2.0
// GMPI calls that the host lists, made by threads, warps and blocks.
#include "ggas/gmpi.cuh"

#include "selftest.h"

namespace selftest_gmpi_calls
{

struct place {
	gmpi_buf_t *buf;
	MPI_Request *requests;
	MPI_Status *statuses;
};

GGAS_FN void *pointer(uint64_t at) { return reinterpret_cast<void *>(at); }
GGAS_FN int number(uint64_t argument) { return static_cast<int>(argument); }
/* The code of a predefined one, or the address of one that was made. */
GGAS_FN MPI_Datatype type(uint64_t argument)
{
	return argument >> 32 && argument != ~uint64_t(0) ? *reinterpret_cast<const MPI_Datatype *>(argument) : MPI_Datatype(number(argument));
}

template <ggas_scope Scope> GGAS_FN int messages(const place &at, const selftest_gmpi_call &call, MPI_Status *status, int *value)
{
	const uint64_t *a = call.arguments;
	MPI_Request *request = at.requests + call.request;
	switch (call.function) {
	case GMPI_CALL_ISEND:
		return GMPI_Isend<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5], request);
	case GMPI_CALL_IRECV:
		return GMPI_Irecv<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5], request);
	case GMPI_CALL_SEND_INIT:
		return GMPI_Send_init<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5],
					     request);
	case GMPI_CALL_RECV_INIT:
		return GMPI_Recv_init<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5],
					     request);
	case GMPI_CALL_SEND:
		return GMPI_Send<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5]);
	case GMPI_CALL_RECV:
		return GMPI_Recv<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), number(a[4]), a[5], status);
	case GMPI_CALL_PROBE:
		return GMPI_Probe<Scope>(at.buf, number(a[0]), number(a[1]), a[2], status);
	case GMPI_CALL_IPROBE:
		return GMPI_Iprobe<Scope>(at.buf, number(a[0]), number(a[1]), a[2], value, status);
	case GMPI_CALL_WAIT:
		return GMPI_Wait<Scope>(at.buf, request, status);
	case GMPI_CALL_WAITALL:
		return GMPI_Waitall<Scope>(at.buf, number(a[0]), request, status);
	case GMPI_CALL_START:
		return GMPI_Start<Scope>(at.buf, request);
	case GMPI_CALL_STARTALL:
		return GMPI_Startall<Scope>(at.buf, number(a[0]), request);
	case GMPI_CALL_REQUEST_FREE:
		return GMPI_Request_free<Scope>(at.buf, request);
	case GMPI_CALL_TEST:
		return GMPI_Test<Scope>(at.buf, request, value, status);
	default:
		return -1;
	}
}

/* Two ints in one argument. */
GGAS_FN int second(uint64_t argument) { return static_cast<int>(argument >> 32); }

template <ggas_scope Scope> GGAS_FN int several(const place &at, const selftest_gmpi_call &call, MPI_Status *status, int *value)
{
	const uint64_t *a = call.arguments;
	MPI_Request *requests = at.requests + call.request;
	auto *types = reinterpret_cast<const MPI_Datatype *>(a[7]);
	int index = 0, error;
	switch (call.function) {
	case GMPI_CALL_WAITANY:
		return GMPI_Waitany<Scope>(at.buf, number(a[0]), requests, value, status);
	case GMPI_CALL_TESTANY:
		error = GMPI_Testany<Scope>(at.buf, number(a[0]), requests, &index, value, status);
		*value |= index << 1;
		return error;
	case GMPI_CALL_WAITSOME:
		return GMPI_Waitsome<Scope>(at.buf, number(a[0]), requests, value, static_cast<int *>(pointer(a[1])), status);
	case GMPI_CALL_TESTSOME:
		return GMPI_Testsome<Scope>(at.buf, number(a[0]), requests, value, static_cast<int *>(pointer(a[1])), status);
	case GMPI_CALL_TESTALL:
		return GMPI_Testall<Scope>(at.buf, number(a[0]), requests, value, status);
	case GMPI_CALL_GET_STATUS:
		return GMPI_Request_get_status<Scope>(at.buf, requests, value, status);
	case GMPI_CALL_SENDRECV:
		if (a[7])
			return GMPI_Sendrecv<Scope>(at.buf, pointer(a[0]), number(a[2]), types[0], number(a[4]), number(a[5]), pointer(a[1]),
						    second(a[2]), types[1], second(a[4]), second(a[5]), a[6], status);
		return GMPI_Sendrecv<Scope>(at.buf, pointer(a[0]), number(a[2]), number(a[3]), number(a[4]), number(a[5]), pointer(a[1]),
					    second(a[2]), second(a[3]), second(a[4]), second(a[5]), a[6], status);
	default:
		return -1;
	}
}

template <ggas_scope Scope> GGAS_FN int later(const place &at, const selftest_gmpi_call &call)
{
	const uint64_t *a = call.arguments;
	MPI_Request *request = at.requests + call.request;
	switch (call.function) {
	case GMPI_CALL_IBARRIER:
		return GMPI_Ibarrier<Scope>(at.buf, a[0], request);
	case GMPI_CALL_IBCAST:
		return GMPI_Ibcast<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), number(a[3]), a[4], request);
	case GMPI_CALL_IREDUCE:
		return GMPI_Ireduce<Scope>(at.buf, pointer(a[0]), pointer(a[1]), number(a[2]), number(a[3]), number(a[4]), number(a[5]),
					   a[6], request);
	case GMPI_CALL_IALLREDUCE:
		return GMPI_Iallreduce<Scope>(at.buf, pointer(a[0]), pointer(a[1]), number(a[2]), number(a[3]), number(a[4]), a[5],
					      request);
	case GMPI_CALL_IALLGATHER:
		return GMPI_Iallgather<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]),
					      number(a[5]), a[6], request);
	case GMPI_CALL_IALLTOALL:
		return GMPI_Ialltoall<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]),
					     number(a[5]), a[6], request);
	case GMPI_CALL_IGATHER:
		return GMPI_Igather<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]), number(a[5]),
					   number(a[6]), a[7], request);
	case GMPI_CALL_ISCATTER:
		return GMPI_Iscatter<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]), number(a[5]),
					    number(a[6]), a[7], request);
	default:
		return -1;
	}
}

template <ggas_scope Scope> GGAS_FN int others(const place &at, const selftest_gmpi_call &call, int *value)
{
	const uint64_t *a = call.arguments;
	switch (call.function) {
	case GMPI_CALL_BARRIER:
		return GMPI_Barrier<Scope>(at.buf, a[0]);
	case GMPI_CALL_BCAST:
		return GMPI_Bcast<Scope>(at.buf, pointer(a[0]), number(a[1]), type(a[2]), number(a[3]), a[4]);
	case GMPI_CALL_REDUCE:
		return GMPI_Reduce<Scope>(at.buf, pointer(a[0]), pointer(a[1]), number(a[2]), number(a[3]), number(a[4]), number(a[5]),
					  a[6]);
	case GMPI_CALL_ALLREDUCE:
		return GMPI_Allreduce<Scope>(at.buf, pointer(a[0]), pointer(a[1]), number(a[2]), number(a[3]), number(a[4]), a[5]);
	case GMPI_CALL_ALLGATHER:
		return GMPI_Allgather<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]),
					     number(a[5]), a[6]);
	case GMPI_CALL_ALLTOALL:
		return GMPI_Alltoall<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]),
					    number(a[5]), a[6]);
	case GMPI_CALL_GATHER:
		return GMPI_Gather<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]), number(a[5]),
					  number(a[6]), a[7]);
	case GMPI_CALL_SCATTER:
		return GMPI_Scatter<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), pointer(a[3]), number(a[4]), number(a[5]),
					   number(a[6]), a[7]);
	case GMPI_CALL_PUT:
		return GMPI_Put<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), number(a[3]), a[4], number(a[5]),
				       number(a[6]), a[7]);
	case GMPI_CALL_GET:
		return GMPI_Get<Scope>(at.buf, pointer(a[0]), number(a[1]), number(a[2]), number(a[3]), a[4], number(a[5]),
				       number(a[6]), a[7]);
	case GMPI_CALL_WIN_FLUSH:
		return GMPI_Win_flush<Scope>(at.buf, number(a[0]), a[1]);
	case GMPI_CALL_WIN_FENCE:
		return GMPI_Win_fence<Scope>(at.buf, number(a[0]), a[1]);
	case GMPI_CALL_COMM_PLACE: {
		int rank = -1, size = -1;
		int error = GMPI_Comm_rank<Scope>(at.buf, a[0], &rank);
		error = error ? error : GMPI_Comm_size<Scope>(at.buf, a[0], &size);
		*value = rank | size << 16;
		return error;
	}
	case GMPI_CALL_ECHO:
		return GMPI_Echo<Scope>(at.buf, static_cast<uint32_t>(a[0]));
	case SELFTEST_GMPI_SYNCHRONIZE:
		return GMPI_Synchronize<Scope>(at.buf);
	case SELFTEST_GMPI_COUNT:
		return GMPI_Get_count(at.statuses + a[0], type(a[1]), value);
	case SELFTEST_GMPI_UNKNOWN:
		return ggas_impl::gmpi_call<Scope, true>(at.buf, __LINE__, static_cast<uint32_t>(a[0]),
							 ggas_impl::gmpi_nothing(), a[1]);
	default:
		return -1;
	}
}

/* By one thread. */
GGAS_FN int types(const selftest_gmpi_call &call, int *value)
{
	const uint64_t *a = call.arguments;
	auto *made = reinterpret_cast<MPI_Datatype *>(a[0]);
	auto ints = [](uint64_t at) { return reinterpret_cast<const int *>(at); };
	auto *extent = reinterpret_cast<MPI_Aint *>(a[1]);
	switch (call.function) {
	case SELFTEST_GMPI_TYPE_VECTOR:
		return GMPI_Type_vector(number(a[1]), number(a[2]), number(a[3]), type(a[4]), made);
	case SELFTEST_GMPI_TYPE_CONTIGUOUS:
		return GMPI_Type_contiguous(number(a[1]), type(a[2]), made);
	case SELFTEST_GMPI_TYPE_SUBARRAY:
		return GMPI_Type_create_subarray(number(a[1]), ints(a[2]), ints(a[3]), ints(a[4]), second(a[1]), type(a[5]), made);
	case SELFTEST_GMPI_TYPE_COMMIT:
		return GMPI_Type_commit(made);
	case SELFTEST_GMPI_TYPE_FREE:
		return GMPI_Type_free(made);
	default: {
		int error = GMPI_Type_size(type(a[0]), value);
		return error ? error : GMPI_Type_get_extent(type(a[0]), extent, extent + 1);
	}
	}
}

template <ggas_scope Scope> GGAS_FN int until_over(const place &at, const selftest_gmpi_call &call, MPI_Status *status)
{
	int flag = 0, error = 0;
	for (uint32_t attempt = 1; !flag && !error; attempt++) {
		error = GMPI_Test<Scope>(at.buf, at.requests + call.request, &flag, status);
		ggas_pause(attempt);
	}
	return error;
}

template <ggas_scope Scope> GGAS_FN int see(const place &at, const selftest_gmpi_call &call, MPI_Status *status)
{
	const uint64_t *a = call.arguments;
	int error = GMPI_Recv<Scope>(at.buf, pointer(a[0]), number(a[1]), MPI_LONG, number(a[3]), number(a[4]), a[5], status);
	auto *words = reinterpret_cast<const uint64_t *>(a[0]);
	for (uint64_t i = 0; i < a[1]; i++)
		error = words[i] == a[6] + i ? error : MPI_ERR_OTHER;
	return error;
}

GGAS_FN void fill(const uint64_t *a)
{
	auto *words = reinterpret_cast<uint64_t *>(a[0]);
	for (uint64_t i = ggas_thread(); i < a[1]; i += ggas_threads())
		words[i] = a[2] + i;
}

/* `mine` of the callers' scope: those that make the call. */
template <ggas_scope Scope> GGAS_FN void make(const place &at, selftest_gmpi_call &call, bool mine)
{
	if (call.function == SELFTEST_GMPI_FILL)
		return fill(call.arguments);
	if (!mine)
		return;
	MPI_Status *status = call.status == ~0u ? nullptr : at.statuses + call.status;
	int value = 0;
	int error;
	if (call.function >= SELFTEST_GMPI_TYPE_VECTOR && call.function <= SELFTEST_GMPI_TYPE_EXTENT)
		error = ggas_impl::gmpi_team<Scope>::all::thread() == 0 ? types(call, &value) : 0;
	else if (call.function == SELFTEST_GMPI_TEST_UNTIL)
		error = until_over<Scope>(at, call, status);
	else if (call.function == SELFTEST_GMPI_SEE)
		error = see<Scope>(at, call, status);
	else if ((error = messages<Scope>(at, call, status, &value)) < 0 && (error = several<Scope>(at, call, status, &value)) < 0 &&
		 (error = later<Scope>(at, call)) < 0)
		error = others<Scope>(at, call, &value);
	/* All callers get the same. */
	ggas_atomic_max(&call.error, static_cast<uint32_t>(error), ggas_order::relaxed);
	if (ggas_impl::gmpi_team<Scope>::all::thread() == 0)
		call.value = static_cast<uint32_t>(value);
}

} /* namespace selftest_gmpi_calls */

GGAS_KERNEL(ggas_selftest_gmpi, selftest_gmpi)
{
	using namespace selftest_gmpi_calls;
	uint64_t first = uint64_t(ggas_block()) * args.count;
	auto *calls = reinterpret_cast<selftest_gmpi_call *>(args.calls) + first;
	place at = { reinterpret_cast<gmpi_buf_t *>(args.buf), reinterpret_cast<MPI_Request *>(args.requests) + first,
		     reinterpret_cast<MPI_Status *>(args.statuses) + first };
	for (uint32_t i = 0; i < args.count; i++) {
		switch (calls[i].scope) {
		case SELFTEST_PUT_THREAD:
			make<ggas_scope::thread>(at, calls[i], ggas_thread() == 0);
			break;
		case SELFTEST_PUT_WARP:
			make<ggas_scope::warp>(at, calls[i], ggas_warp() == 0);
			break;
		default:
			make<ggas_scope::block>(at, calls[i], true);
			break;
		}
		ggas_syncthreads();
	}
}
