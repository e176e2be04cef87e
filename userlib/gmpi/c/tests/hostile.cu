/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <initializer_list>

#include "hostile_check.cuh"
#include "hostile_handles.cuh"

GGAS_FN void hostile_messages(const hostile_check &check, GMPI_Comm comm, int me)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	int flag = 1;
	WANT(GMPI_ERR_COUNT, GMPI_Send(buf, data, -1, MPI_LONG, me, 0, comm));
	WANT(GMPI_ERR_COUNT, GMPI_Recv(buf, data, -hostile_many - 1, MPI_LONG, me, 0, comm, MPI_STATUS_IGNORE));
	WANT(GMPI_ERR_BUFFER, GMPI_Send(buf, data, hostile_many, MPI_LONG, me, 0, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Send(buf, nullptr, 1, MPI_LONG, me, 0, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Recv(buf, nullptr, 1, MPI_LONG, me, 0, comm, MPI_STATUS_IGNORE));
	for (int type : { 0, -1, 3, 0x0103, 0x0e04, 0x7fffff08 })
		WANT(GMPI_ERR_TYPE, GMPI_Send(buf, data, 1, type, me, 0, comm));
	for (int rank : { -5, 1000, hostile_many, -hostile_many - 1 }) {
		WANT(GMPI_ERR_RANK, GMPI_Send(buf, data, 1, MPI_LONG, rank, 0, comm));
		WANT(GMPI_ERR_RANK, GMPI_Recv(buf, data, 1, MPI_LONG, rank, 0, comm, MPI_STATUS_IGNORE));
		WANT(GMPI_ERR_RANK, GMPI_Probe(buf, rank, 0, comm, MPI_STATUS_IGNORE));
	}
	WANT(GMPI_ERR_RANK, GMPI_Send(buf, data, 1, MPI_LONG, MPI_ANY_SOURCE, 0, comm));
	for (int tag : { -2, -hostile_many - 1 }) {
		WANT(GMPI_ERR_TAG, GMPI_Send(buf, data, 1, MPI_LONG, me, tag, comm));
		WANT(GMPI_ERR_TAG, GMPI_Iprobe(buf, me, tag, comm, &flag, MPI_STATUS_IGNORE));
	}
	WANT(GMPI_ERR_TAG, GMPI_Send(buf, data, 1, MPI_LONG, me, MPI_ANY_TAG, comm));
	/* What is wrong with one half keeps the other from being begun. */
	WANT(GMPI_ERR_COUNT, GMPI_Sendrecv(buf, data, 1, MPI_LONG, me, 3, data, -1, MPI_LONG, me, 3, comm, MPI_STATUS_IGNORE));
	WANT(GMPI_ERR_RANK, GMPI_Sendrecv(buf, data, 1, MPI_LONG, me, 3, data + 1, 1, MPI_LONG, 99, 3, comm, MPI_STATUS_IGNORE));
	WANT(GMPI_SUCCESS, GMPI_Iprobe(buf, me, 3, comm, &flag, MPI_STATUS_IGNORE));
	WANT(0, flag);
	LATER(GMPI_ERR_COUNT, GMPI_Isend(buf, data, -1, MPI_LONG, me, 0, comm, place));
	LATER(GMPI_ERR_BUFFER, GMPI_Irecv(buf, data, hostile_many, MPI_LONG, me, 0, comm, place));
	LATER(GMPI_ERR_TYPE, GMPI_Irecv(buf, data, 1, 0x0103, me, 0, comm, place));
	LATER(GMPI_ERR_RANK, GMPI_Isend(buf, data, 1, MPI_LONG, 1000, 0, comm, place));
	WANT(GMPI_ERR_COUNT, GMPI_Echo(buf, 31));
	WANT(GMPI_ERR_COUNT, GMPI_Echo(buf, ~0u));
}

GGAS_FN void hostile_collectives(const hostile_check &check, GMPI_Comm comm)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	WANT(GMPI_ERR_COUNT, GMPI_Bcast(buf, data, -1, MPI_LONG, 0, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Bcast(buf, data, hostile_many, MPI_LONG, 0, comm));
	for (int root : { -1, 1000, hostile_many }) {
		WANT(GMPI_ERR_ROOT, GMPI_Bcast(buf, data, 1, MPI_LONG, root, comm));
		WANT(GMPI_ERR_ROOT, GMPI_Gather(buf, data, 1, MPI_LONG, data + 8, 1, MPI_LONG, root, comm));
		WANT(GMPI_ERR_ROOT, GMPI_Reduce(buf, data, data + 8, 1, MPI_LONG, MPI_SUM, root, comm));
	}
	for (int op : { 0, -1, 11, hostile_many }) {
		WANT(GMPI_ERR_OP, GMPI_Allreduce(buf, data, data + 8, 1, MPI_LONG, op, comm));
		LATER(GMPI_ERR_OP, GMPI_Iallreduce(buf, data, data + 8, 1, MPI_LONG, op, comm, place));
	}
	WANT(GMPI_ERR_OP, GMPI_Allreduce(buf, data, data + 8, 1, MPI_DOUBLE, MPI_BAND, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Allreduce(buf, data, nullptr, 1, MPI_LONG, MPI_SUM, comm));
	WANT(GMPI_ERR_COUNT, GMPI_Allreduce(buf, data, data + 8, -1, MPI_LONG, MPI_SUM, comm));
	WANT(GMPI_ERR_COUNT, GMPI_Allgather(buf, data, 2, MPI_LONG, data + 8, 1, MPI_LONG, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Alltoall(buf, data, hostile_many, MPI_LONG, data, hostile_many, MPI_LONG, comm));
	WANT(GMPI_ERR_ARG, GMPI_Alltoall(buf, GMPI_IN_PLACE, 1, MPI_LONG, data, 1, MPI_LONG, comm));
	WANT(GMPI_ERR_TYPE, GMPI_Scatter(buf, data, 1, -1, data + 8, 1, MPI_LONG, 0, comm));
	LATER(GMPI_ERR_COUNT, GMPI_Ialltoall(buf, data, -1, MPI_LONG, data + 8, -1, MPI_LONG, comm, place));
}

/* Any number. */
GGAS_FN void hostile_types(const hostile_check &check)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	MPI_Datatype made, copy;
	int size = 0;
	WANT(GMPI_SUCCESS, GMPI_Type_vector(3, 1, 2, MPI_LONG, &made));
	WANT(GMPI_ERR_TYPE, GMPI_Send(buf, data, 1, made, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_SUCCESS, GMPI_Type_commit(&made));
	copy = made;
	WANT(GMPI_ERR_BUFFER, GMPI_Send(buf, data, hostile_many / 3, made, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_ERR_COUNT, GMPI_Send(buf, data, hostile_many, made, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_ERR_TYPE, GMPI_Bcast(buf, data, 1, made, 0, MPI_COMM_SELF));
	/* Freed while it is under way. */
	WANT(GMPI_SUCCESS, GMPI_Irecv(buf, data + 16, 1, made, 0, 6, MPI_COMM_SELF, place));
	WANT(GMPI_SUCCESS, GMPI_Type_free(&made));
	WANT(GMPI_ERR_TYPE, GMPI_Type_free(&made));
	WANT(GMPI_ERR_TYPE, GMPI_Type_commit(&made));
	WANT(GMPI_ERR_TYPE, GMPI_Type_size(made, &size));
	WANT(GMPI_ERR_TYPE, GMPI_Send(buf, data, 1, made, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_SUCCESS, GMPI_Send(buf, data, 1, copy, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_SUCCESS, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	/* Elements that overlap, and those that reach out of all memory. */
	WANT(GMPI_SUCCESS, GMPI_Type_vector(4, 2, 1, MPI_LONG, &made));
	WANT(GMPI_SUCCESS, GMPI_Type_commit(&made));
	WANT(GMPI_ERR_TYPE, GMPI_Recv(buf, data, 1, made, 0, 6, MPI_COMM_SELF, MPI_STATUS_IGNORE));
	WANT(GMPI_SUCCESS, GMPI_Type_vector(2, 1, -100000, MPI_LONG, &made));
	WANT(GMPI_SUCCESS, GMPI_Type_commit(&made));
	WANT(GMPI_ERR_BUFFER, GMPI_Send(buf, data, 1, made, 0, 6, MPI_COMM_SELF));
	WANT(GMPI_ERR_ARG, GMPI_Type_commit(nullptr));
	WANT(GMPI_ERR_ARG, GMPI_Type_free(nullptr));
	/* Whatever bytes stand where a type should: memory that is not attached is never touched. Of what is begun nobody is sent anything. */
	uint64_t words[sizeof(made) / 8];
	static_assert(sizeof(words) == sizeof(made), "it has no other bytes");
	for (uint64_t round = 0; round < 120; round++) {
		for (uint64_t i = 0; i < sizeof(words) / 8; i++) {
			uint64_t number = hostile_number(round * 8 + i);
			words[i] = round % 3 == 0 ? number : round % 3 == 1 ? number >> 40 : number & 0xffff00000003;
		}
		__builtin_memcpy(&made, words, sizeof(made));
		made.base = round % 2 ? GMPI_LONG : made.base;
		GMPI_Send(buf, data, static_cast<int>(round % 7) - 1, made, MPI_PROC_NULL, 7, MPI_COMM_SELF);
		hostile_set(place, 0);
		if (!GMPI_Irecv(buf, data, 1, made, 0, 7, MPI_COMM_SELF, place))
			GMPI_Request_free(buf, place);
		GMPI_Type_size(made, &size);
	}
	GMPI_Synchronize(buf);
}

/* Told at once, as no daemon has part in it. */
GGAS_FN void hostile_direct(const hostile_check &check, GMPI_Comm comm, int me)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	MPI_Datatype made;
	int flag = 0;
	hostile_set(place, 0);
	WANT(GMPI_ERR_COUNT, GMPI_Send(buf, data, -1, MPI_LONG, me, 0, comm));
	WANT(GMPI_ERR_COUNT, GMPI_Send(buf, data, hostile_many, MPI_LONG, me, 0, comm));
	WANT(GMPI_ERR_BUFFER, GMPI_Recv(buf, nullptr, 1, MPI_LONG, me, 0, comm, MPI_STATUS_IGNORE));
	WANT(GMPI_ERR_TYPE, GMPI_Isend(buf, data, 1, 0, me, 0, comm, place));
	WANT(GMPI_SUCCESS, GMPI_Type_vector(4, 2, 1, MPI_LONG, &made));
	WANT(GMPI_ERR_TYPE, GMPI_Isend(buf, data, 1, made, me, 0, comm, place));
	WANT(GMPI_SUCCESS, GMPI_Type_commit(&made));
	WANT(GMPI_ERR_TYPE, GMPI_Irecv(buf, data, 1, made, me, 0, comm, place));
	for (int rank : { -5, 1000, hostile_many, -hostile_many - 1, MPI_ANY_SOURCE }) {
		WANT(GMPI_ERR_RANK, GMPI_Send(buf, data, 1, MPI_LONG, rank, 0, comm));
		WANT(GMPI_ERR_RANK, GMPI_Irecv(buf, data, 1, MPI_LONG, rank, 0, comm, place));
	}
	WANT(GMPI_ERR_TAG, GMPI_Isend(buf, data, 1, MPI_LONG, me, -2, comm, place));
	WANT(GMPI_ERR_CALL, GMPI_Iprobe(buf, me, 0, comm, &flag, MPI_STATUS_IGNORE));
	WANT(GMPI_ERR_CALL, GMPI_Send_init(buf, data, 1, MPI_LONG, me, 0, comm, place));
	/* More at once than there is room for: the last ones are refused, and all others arrive. */
	int begun = 0, error = GMPI_SUCCESS;
	for (; begun < 200 && !error; begun += !error)
		error = GMPI_Irecv(buf, data, 1, MPI_LONG, me, 0, comm, place + begun);
	WANT(GMPI_ERR_NO_MEM, error);
	for (int i = 0; i < begun; i++)
		WANT(GMPI_SUCCESS, GMPI_Send(buf, data + 1, 1, MPI_LONG, me, 0, comm));
	WANT(GMPI_SUCCESS, GMPI_Waitall(buf, begun, place, MPI_STATUSES_IGNORE));
	/* Twice, in one place and as a copy. */
	WANT(GMPI_SUCCESS, GMPI_Irecv(buf, data, 1, MPI_LONG, me, 1, comm, place));
	uint64_t handle = place[0];
	WANT(GMPI_SUCCESS, GMPI_Send(buf, data + 1, 1, MPI_LONG, me, 1, comm));
	WANT(GMPI_SUCCESS, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	hostile_set(place, handle);
	WANT(GMPI_SUCCESS, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	hostile_set(place, handle + 1);
	WANT(GMPI_ERR_REQUEST, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	hostile_set(place, handle + 1);
	WANT(GMPI_ERR_REQUEST, GMPI_Test(buf, place, &flag, MPI_STATUS_IGNORE));
	hostile_set(place, handle | uint64_t(0xffff) << GMPI_REQUEST_PEER_SHIFT);
	WANT(GMPI_ERR_REQUEST, GMPI_Request_free(buf, place));
}

GGAS_FN void hostile_window(const hostile_check &check, GMPI_Win win, int me)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA;
	auto flushed = [&](int wanted, int begun, uint32_t line) {
		check.want(GMPI_SUCCESS, begun, line);
		check.want(wanted, GMPI_Win_flush(buf, me, win), line);
		check.want(GMPI_SUCCESS, GMPI_Win_flush_all(buf, win), line);
	};
	constexpr GMPI_Aint bytes = HOSTILE_WORDS * 8;
	for (GMPI_Aint beyond : { bytes, bytes - 4, ~GMPI_Aint(0), ~GMPI_Aint(0) - 7, GMPI_Aint(1) << 63 }) {
		flushed(GMPI_ERR_DISP, GMPI_Put(buf, data, 1, MPI_LONG, me, beyond, 1, MPI_LONG, win), __LINE__);
		flushed(GMPI_ERR_DISP, GMPI_Get(buf, data, 1, MPI_LONG, me, beyond, 1, MPI_LONG, win), __LINE__);
	}
	for (int rank : { -7, 1000, hostile_many })
		flushed(GMPI_ERR_RANK, GMPI_Put(buf, data, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win), __LINE__);
	flushed(GMPI_ERR_COUNT, GMPI_Put(buf, data, 2, MPI_LONG, me, 0, 1, MPI_LONG, win), __LINE__);
	flushed(GMPI_ERR_COUNT, GMPI_Get(buf, data, -1, MPI_LONG, me, 0, -1, MPI_LONG, win), __LINE__);
	flushed(GMPI_ERR_TYPE, GMPI_Put(buf, data, 1, 0, me, 0, 1, 0, win), __LINE__);
	flushed(GMPI_ERR_BUFFER, GMPI_Get(buf, nullptr, 1, MPI_LONG, me, 0, 1, MPI_LONG, win), __LINE__);
	flushed(GMPI_ERR_BUFFER, GMPI_Put(buf, data, hostile_many, MPI_LONG, me, 0, hostile_many, MPI_LONG, win), __LINE__);
	flushed(GMPI_SUCCESS, GMPI_Put(buf, data, 1, MPI_LONG, MPI_PROC_NULL, ~GMPI_Aint(0), 1, MPI_LONG, win), __LINE__);
	for (int rank : { -7, 1000 })
		WANT(GMPI_ERR_RANK, GMPI_Win_flush(buf, rank, win));
}

GGAS_FN void hostile_without(const hostile_check &check, uint64_t handle, bool window)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	int number = 0;
	if (window) {
		WANT(GMPI_SUCCESS, GMPI_Put(buf, data, 1, MPI_LONG, 0, 0, 1, MPI_LONG, handle));
		WANT(GMPI_ERR_WIN, GMPI_Win_flush(buf, 0, handle));
		WANT(GMPI_ERR_WIN, GMPI_Win_flush_all(buf, handle));
		WANT(GMPI_ERR_WIN, GMPI_Win_fence(buf, 0, handle));
		return;
	}
	WANT(GMPI_ERR_COMM, GMPI_Send(buf, data, 1, MPI_LONG, 0, 0, handle));
	WANT(GMPI_ERR_COMM, GMPI_Recv(buf, data, 1, MPI_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, handle, MPI_STATUS_IGNORE));
	WANT(GMPI_ERR_COMM, GMPI_Barrier(buf, handle));
	WANT(GMPI_ERR_COMM, GMPI_Comm_rank(buf, handle, &number));
	LATER(GMPI_ERR_COMM, GMPI_Isend(buf, data, 1, MPI_LONG, 0, 0, handle, place));
	LATER(GMPI_ERR_COMM, GMPI_Ibarrier(buf, handle, place));
}

/* More than the rings have room for. */
GGAS_FN void hostile_leaves(const hostile_check &check)
{
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	for (int i = 0; i < 200; i++)
		GMPI_Irecv(check.buf, data, 1, MPI_LONG, MPI_ANY_SOURCE, 100 + i, MPI_COMM_WORLD, place + i);
	GMPI_Recv_init(check.buf, data, 1, MPI_LONG, 0, 99, MPI_COMM_SELF, place);
	GMPI_Start(check.buf, place);
}

GGAS_KERNEL(hostile, hostile_args)
{
	auto *buf = reinterpret_cast<gmpi_buf_t *>(args.buf);
	auto *words = reinterpret_cast<uint64_t *>(args.memory);
	hostile_check check = { buf, words };
	int me = 0, flag = 0;
	switch (args.what) {
	case HOSTILE_BARRIER:
		WANT(GMPI_SUCCESS, GMPI_Barrier(buf, args.handle));
		break;
	case HOSTILE_COUNTS:
		WANT(GMPI_SUCCESS, GMPI_Comm_rank(buf, args.handle, &me));
		hostile_messages(check, args.handle, me);
		/* What is wrong at one member alone the others wait for. */
		if (args.handle == MPI_COMM_SELF)
			hostile_collectives(check, args.handle);
		break;
	case HOSTILE_HANDLES:
		hostile_handles(check);
		break;
	case HOSTILE_TYPES:
		hostile_types(check);
		break;
	case HOSTILE_DIRECT:
		WANT(GMPI_SUCCESS, GMPI_Comm_rank(buf, args.handle, &me));
		hostile_direct(check, args.handle, me);
		break;
	case HOSTILE_WINDOW:
		WANT(GMPI_SUCCESS, GMPI_Comm_rank(buf, MPI_COMM_WORLD, &me));
		hostile_window(check, args.handle, me);
		break;
	case HOSTILE_NO_WINDOW:
	case HOSTILE_NO_COMM:
		hostile_without(check, args.handle, args.what == HOSTILE_NO_WINDOW);
		break;
	case HOSTILE_LEAVES:
		hostile_leaves(check);
		break;
	case HOSTILE_WAITS:
		GMPI_Recv(buf, words + HOSTILE_DATA, 1, MPI_LONG, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		break;
	case HOSTILE_SENDS:
		WANT(GMPI_SUCCESS, GMPI_Comm_rank(buf, MPI_COMM_WORLD, &me));
		WANT(GMPI_SUCCESS, GMPI_Sendrecv(buf, words + HOSTILE_PLACES, 1, MPI_LONG, me, 77, words + HOSTILE_DATA + 1, 1, MPI_LONG, me, 77,
						 MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		WANT(1, words[HOSTILE_DATA + 1] == words[HOSTILE_PLACES]);
		break;
	case HOSTILE_PAUSES:
		GMPI_Irecv(buf, words + HOSTILE_DATA, 1, MPI_LONG, MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, words + HOSTILE_PLACES);
		while (!flag)
			GMPI_Test(buf, words + HOSTILE_PLACES, &flag, MPI_STATUS_IGNORE);
		break;
	case HOSTILE_SPINS:
		for (volatile uint64_t *word = words + HOSTILE_DATA; word;)
			*word = *word + 1;
		break;
	default:
		break;
	}
}

int hostile_run(gmpi_t *gmpi, const hostile_args *args, unsigned grid, unsigned block, unsigned timeout_ms)
{
	return GMPI_RUN(gmpi, hostile, grid, block, *args, timeout_ms);
}
