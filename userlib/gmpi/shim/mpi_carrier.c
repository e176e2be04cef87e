// SPDX-License-Identifier: MIT OR Apache-2.0
/* The daemon's calls, by the MPI library whose mpicc compiles this. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "gmpi_layout.h"
#include "mpi_carrier.h"

static MPI_Comm *comms;
static MPI_Comm plain;
static MPI_Comm alone;
static int comm_count;
/* `window` is MPI_WIN_NULL where the process is its only member: Open MPI 4.1 has no windows of one member (MPI_ERR_WIN). */
static struct win {
	MPI_Win window;
	char *base;
} *wins;
static int win_count;
static MPI_Request *requests;
static uint64_t request_room;
static int initialized_here;

/* The error class of GMPI for an MPI error. */
static int class_of(int error)
{
	static const struct {
		int mpi, gmpi;
	} classes[] = {
		{ MPI_ERR_BUFFER, GMPI_ERR_BUFFER }, { MPI_ERR_COUNT, GMPI_ERR_COUNT }, { MPI_ERR_TYPE, GMPI_ERR_TYPE },
		{ MPI_ERR_TAG, GMPI_ERR_TAG }, { MPI_ERR_COMM, GMPI_ERR_COMM }, { MPI_ERR_RANK, GMPI_ERR_RANK },
		{ MPI_ERR_REQUEST, GMPI_ERR_REQUEST }, { MPI_ERR_ROOT, GMPI_ERR_ROOT }, { MPI_ERR_OP, GMPI_ERR_OP },
		{ MPI_ERR_ARG, GMPI_ERR_ARG }, { MPI_ERR_TRUNCATE, GMPI_ERR_TRUNCATE }, { MPI_ERR_INTERN, GMPI_ERR_INTERN },
		{ MPI_ERR_WIN, GMPI_ERR_WIN }, { MPI_ERR_DISP, GMPI_ERR_DISP },
		{ MPI_ERR_NO_MEM, GMPI_ERR_NO_MEM }, { MPI_ERR_UNKNOWN, GMPI_ERR_UNKNOWN },
	};
	int class = MPI_ERR_OTHER;

	if (error == MPI_SUCCESS)
		return GMPI_SUCCESS;
	MPI_Error_class(error, &class);
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (classes[i].mpi == class)
			return classes[i].gmpi;
	return GMPI_ERR_OTHER;
}

static MPI_Datatype type_of(int type)
{
	switch (type) {
	case GMPI_CHAR: return MPI_CHAR;
	case GMPI_SIGNED_CHAR: return MPI_SIGNED_CHAR;
	case GMPI_UNSIGNED_CHAR: return MPI_UNSIGNED_CHAR;
	case GMPI_SHORT: return MPI_SHORT;
	case GMPI_UNSIGNED_SHORT: return MPI_UNSIGNED_SHORT;
	case GMPI_INT: return MPI_INT;
	case GMPI_UNSIGNED: return MPI_UNSIGNED;
	case GMPI_LONG: return MPI_LONG;
	case GMPI_UNSIGNED_LONG: return MPI_UNSIGNED_LONG;
	case GMPI_LONG_LONG: return MPI_LONG_LONG;
	case GMPI_UNSIGNED_LONG_LONG: return MPI_UNSIGNED_LONG_LONG;
	case GMPI_FLOAT: return MPI_FLOAT;
	case GMPI_DOUBLE: return MPI_DOUBLE;
	default: return MPI_BYTE;
	}
}

static MPI_Op op_of(int op)
{
	switch (op) {
	case GMPI_MAX: return MPI_MAX;
	case GMPI_MIN: return MPI_MIN;
	case GMPI_PROD: return MPI_PROD;
	case GMPI_LAND: return MPI_LAND;
	case GMPI_BAND: return MPI_BAND;
	case GMPI_LOR: return MPI_LOR;
	case GMPI_BOR: return MPI_BOR;
	case GMPI_LXOR: return MPI_LXOR;
	case GMPI_BXOR: return MPI_BXOR;
	default: return MPI_SUM;
	}
}

static int keep_comm(MPI_Comm comm, int *number)
{
	MPI_Comm *more = realloc(comms, (comm_count + 1) * sizeof(*comms));

	if (!more)
		return GMPI_ERR_INTERN;
	comms = more;
	comms[comm_count] = comm;
	*number = comm_count++;
	return GMPI_SUCCESS;
}

/* A place for a request. */
static int free_request(uint64_t *number)
{
	uint64_t room = request_room ? 2 * request_room : 64;
	MPI_Request *more;

	for (*number = 0; *number < request_room; (*number)++)
		if (requests[*number] == MPI_REQUEST_NULL)
			return GMPI_SUCCESS;
	more = realloc(requests, room * sizeof(*requests));
	if (!more)
		return GMPI_ERR_INTERN;
	for (uint64_t i = request_room; i < room; i++)
		more[i] = MPI_REQUEST_NULL;
	requests = more;
	request_room = room;
	return GMPI_SUCCESS;
}

int gmpi_shim_version(void) { return GMPI_SHIM_VERSION; }

/* Begins. `why` says what is wrong where it is refused. */
int gmpi_shim_open(char *why, size_t room)
{
	int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE, number;
	MPI_Comm world;

	MPI_Initialized(&initialized);
	MPI_Finalized(&finalized);
	if (finalized) {
		snprintf(why, room,
			 "MPI has been finalized in this process and cannot be initialized again, which is a rule of MPI. GMPI finalizes "
			 "what it initialized when it is closed: open it once, or have the program call MPI_Init_thread with "
			 "MPI_THREAD_MULTIPLE before the first time and MPI_Finalize behind the last");
		return GMPI_ERR_OTHER;
	}
	if (!initialized) {
		/* This thread makes all calls. */
		if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
			snprintf(why, room, "MPI_Init_thread failed: start the program with this library's mpirun");
			return GMPI_ERR_OTHER;
		}
		initialized_here = 1;
		/* MPICH asks these of errors that it finds in MPI_Test, whatever communicator the request is of. */
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	} else {
		MPI_Query_thread(&provided);
		if (provided < MPI_THREAD_MULTIPLE) {
			snprintf(why, room,
				 "the program has initialized MPI without MPI_THREAD_MULTIPLE, so the daemon's thread may not call it: "
				 "ask MPI_Init_thread for it, or leave MPI to GMPI");
			return GMPI_ERR_OTHER;
		}
	}
	/* The program may have opened it before: numbers begin anew, and what was not freed lives on unused. */
	comm_count = win_count = 0;
	if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
		return GMPI_ERR_OTHER;
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	if (keep_comm(world, &number))
		return GMPI_ERR_INTERN;
	if (MPI_Comm_dup(MPI_COMM_WORLD, &plain) != MPI_SUCCESS)
		return GMPI_ERR_OTHER;
	MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
	if (MPI_Comm_dup(MPI_COMM_SELF, &world) != MPI_SUCCESS)
		return GMPI_ERR_OTHER;
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	if (keep_comm(world, &number))
		return GMPI_ERR_INTERN;
	if (MPI_Comm_dup(MPI_COMM_SELF, &alone) != MPI_SUCCESS)
		return GMPI_ERR_OTHER;
	MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
	return GMPI_SUCCESS;
}

void gmpi_shim_name(char *name, size_t room)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int len = 0;

	MPI_Get_library_version(version, &len);
	/* "Open MPI v4.1.4, package: ...", "MPICH Version:<tab>5.0.2<newline>..." */
	version[strcspn(version, ",\n")] = 0;
	for (char *tab = version; (tab = strchr(tab, '\t'));)
		memmove(tab, tab + 1, strlen(tab));
	snprintf(name, room, "%s", version);
}

/* Whether it takes pointers to GPU memory. */
int gmpi_shim_takes_gpu(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
	return MPIX_Query_cuda_support();
#elif defined(MPICH_NUMVERSION) && defined(MPIX_GPU_SUPPORT_CUDA)
	int is = 0;
	return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is) == MPI_SUCCESS && is;
#else
	return 0;
#endif
}

int gmpi_shim_place(int comm, int32_t *rank, int32_t *size)
{
	if (comm < 0 || comm >= comm_count || comms[comm] == MPI_COMM_NULL)
		return GMPI_ERR_COMM;
	MPI_Comm_rank(comms[comm], rank);
	MPI_Comm_size(comms[comm], size);
	return GMPI_SUCCESS;
}

/* A put or get of a process to itself, over at once: a message, as the library may have to copy GPU memory. Its request is a send to nobody. */
static int start_alone(const struct gmpi_shim_call *call, MPI_Request *request)
{
	char *part = wins[call->comm].base + call->displacement;
	int puts = call->kind == GMPI_SHIM_PUT;
	int error = MPI_Sendrecv(puts ? call->from : part, call->count, MPI_BYTE, 0, 0, puts ? part : call->to, call->count, MPI_BYTE, 0, 0,
				 alone, MPI_STATUS_IGNORE);

	return error != MPI_SUCCESS ? error : MPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, alone, request);
}

static int start(const struct gmpi_shim_call *call, MPI_Request *request)
{
	const void *from = call->from ? call->from : MPI_IN_PLACE;
	MPI_Datatype type = type_of(call->type);
	int one_sided = call->kind == GMPI_SHIM_PUT || call->kind == GMPI_SHIM_GET;
	MPI_Comm comm = one_sided ? MPI_COMM_NULL : comms[call->comm];
	int any = call->tag == GMPI_ANY_TAG ? MPI_ANY_TAG : call->tag;
	int count = call->count;

	if (one_sided && wins[call->comm].window == MPI_WIN_NULL)
		return start_alone(call, request);
	switch (call->kind) {
	case GMPI_SHIM_SEND:
		return MPI_Isend(call->from, count, type, call->rank, call->tag, comm, request);
	case GMPI_SHIM_RECV:
		return MPI_Irecv(call->to, count, type, call->rank == GMPI_ANY_SOURCE ? MPI_ANY_SOURCE : call->rank, any, comm,
				 request);
	case GMPI_SHIM_BARRIER:
		return MPI_Ibarrier(comm, request);
	case GMPI_SHIM_BCAST:
		return MPI_Ibcast(call->to, count, type, call->rank, comm, request);
	case GMPI_SHIM_REDUCE:
		return MPI_Ireduce(from, call->to, count, type, op_of(call->op), call->rank, comm, request);
	case GMPI_SHIM_ALLREDUCE:
		return MPI_Iallreduce(from, call->to, count, type, op_of(call->op), comm, request);
	case GMPI_SHIM_ALLGATHER:
		return MPI_Iallgather(from, count, type, call->to, count, type, comm, request);
	case GMPI_SHIM_ALLTOALL:
		return MPI_Ialltoall(from, count, type, call->to, count, type, comm, request);
	/* At the root the block that a gather takes, and that a scatter leaves, may be in place; elsewhere that is no buffer. */
	case GMPI_SHIM_GATHER:
		return MPI_Igather(from, count, type, call->to, count, type, call->rank, comm, request);
	case GMPI_SHIM_SCATTER:
		return MPI_Iscatter(call->from, count, type, call->to ? call->to : MPI_IN_PLACE, count, type, call->rank, comm, request);
	case GMPI_SHIM_PUT:
		return MPI_Rput(call->from, count, MPI_BYTE, call->rank, (MPI_Aint)call->displacement, count, MPI_BYTE,
				wins[call->comm].window, request);
	case GMPI_SHIM_GET:
		return MPI_Rget(call->to, count, MPI_BYTE, call->rank, (MPI_Aint)call->displacement, count, MPI_BYTE,
				wins[call->comm].window, request);
	default:
		return MPI_ERR_ARG;
	}
}

/* The caller has checked communicators and windows. */
int gmpi_shim_start(const struct gmpi_shim_call *call, uint64_t *number)
{
	int error = free_request(number);

	if (error)
		return error;
	error = start(call, &requests[*number]);
	if (error != MPI_SUCCESS)
		requests[*number] = MPI_REQUEST_NULL;
	return class_of(error);
}

static void tell(struct gmpi_shim_status *out, const MPI_Status *status)
{
	MPI_Count bytes = 0;

	out->source = status->MPI_SOURCE == MPI_ANY_SOURCE ? GMPI_ANY_SOURCE : status->MPI_SOURCE;
	out->tag = status->MPI_TAG == MPI_ANY_TAG ? GMPI_ANY_TAG : status->MPI_TAG;
	/* A count that is an int has no more than 2 GiB, and what is told here is what is stored. */
	MPI_Get_elements_x(status, MPI_BYTE, &bytes);
	out->bytes = bytes == MPI_UNDEFINED ? 0 : bytes;
}

int gmpi_shim_test(uint64_t number, int32_t *over, struct gmpi_shim_status *out)
{
	MPI_Status status;
	int error;

	memset(&status, 0, sizeof(status));
	*over = 0;
	error = MPI_Test(&requests[number], over, &status);
	if (error != MPI_SUCCESS) {
		*over = 1;
		requests[number] = MPI_REQUEST_NULL;
		return class_of(error);
	}
	if (*over)
		tell(out, &status);
	return GMPI_SUCCESS;
}

/* Gives a receive up; anything else goes on. */
void gmpi_shim_forget(uint64_t number, int32_t receives)
{
	if (requests[number] == MPI_REQUEST_NULL)
		return;
	if (receives)
		MPI_Cancel(&requests[number]);
	MPI_Request_free(&requests[number]);
}

/* Blocking calls, as a host program makes them, on a communicator that kernels do not know. */
int gmpi_shim_send(const void *from, int bytes, int rank)
{
	return class_of(MPI_Send(from, bytes, MPI_BYTE, rank, 0, plain));
}

int gmpi_shim_receive(void *to, int bytes, int rank)
{
	return class_of(MPI_Recv(to, bytes, MPI_BYTE, rank, 0, plain, MPI_STATUS_IGNORE));
}

int gmpi_shim_probe(int comm, int rank, int tag, int32_t *found, struct gmpi_shim_status *out)
{
	MPI_Status status;
	int error = MPI_Iprobe(rank == GMPI_ANY_SOURCE ? MPI_ANY_SOURCE : rank, tag == GMPI_ANY_TAG ? MPI_ANY_TAG : tag,
			       comms[comm], found, &status);

	if (error == MPI_SUCCESS && *found)
		tell(out, &status);
	return class_of(error);
}

/* -1 in `number`: in none. */
int gmpi_shim_split(int comm, int has_color, int color, int key, int32_t *number)
{
	MPI_Comm made;
	int error = MPI_Comm_split(comms[comm], has_color ? color : MPI_UNDEFINED, key, &made);

	*number = -1;
	if (error != MPI_SUCCESS || made == MPI_COMM_NULL)
		return class_of(error);
	MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
	return keep_comm(made, number);
}

/* MPI_Comm_free is collective, and who frees here waits for nobody: the communicator lives on unused until the end. */
void gmpi_shim_free(int comm)
{
	comms[comm] = MPI_COMM_NULL;
}

int gmpi_shim_window(int comm, void *base, uint64_t bytes, int32_t *number)
{
	struct win *more = realloc(wins, (win_count + 1) * sizeof(*wins));
	struct win *win;
	int error, members;

	if (!more)
		return GMPI_ERR_INTERN;
	wins = more;
	win = &wins[win_count];
	*win = (struct win){ .window = MPI_WIN_NULL, .base = base };
	error = MPI_Comm_size(comms[comm], &members);
	if (error == MPI_SUCCESS && members > 1) {
		error = MPI_Win_create(base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, comms[comm], &win->window);
		if (error == MPI_SUCCESS) {
			MPI_Win_set_errhandler(win->window, MPI_ERRORS_RETURN);
			error = MPI_Win_lock_all(0, win->window);
		}
	}
	if (error != MPI_SUCCESS)
		return class_of(error);
	*number = win_count++;
	return GMPI_SUCCESS;
}

/* Gives everyone 8 bytes; waits. */
int gmpi_shim_gather(int comm, uint64_t own, uint64_t *all)
{
	return class_of(MPI_Allgather(&own, 8, MPI_BYTE, all, 8, MPI_BYTE, comms[comm]));
}

int gmpi_shim_flush(int win, int rank)
{
	MPI_Win window = wins[win].window;
	int error;

	if (window == MPI_WIN_NULL)
		return GMPI_SUCCESS;
	error = rank < 0 ? MPI_Win_flush_all(window) : MPI_Win_flush(rank, window);
	if (error == MPI_SUCCESS)
		error = MPI_Win_sync(window);
	return class_of(error);
}

int gmpi_shim_close(void)
{
	int error = MPI_SUCCESS;

	for (int i = 0; i < win_count && error == MPI_SUCCESS; i++) {
		if (wins[i].window == MPI_WIN_NULL)
			continue;
		error = MPI_Win_unlock_all(wins[i].window);
		if (error == MPI_SUCCESS)
			error = MPI_Win_free(&wins[i].window);
	}
	win_count = 0;
	/* A program with an MPI of its own goes on, and may open it again and again. */
	for (int i = 0; i < 2 && error == MPI_SUCCESS; i++)
		error = MPI_Comm_free(&comms[i]);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_free(&plain);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_free(&alone);
	if (error == MPI_SUCCESS && initialized_here)
		error = MPI_Finalize();
	return class_of(error);
}
