// SPDX-License-Identifier: MIT OR Apache-2.0
/* Beginning and end of the MPI library whose mpicc compiles this, its communicators and windows. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "gmpi_layout.h"
#include "mpi_carrier.h"
#include "mpi_comms.h"

MPI_Comm *comms;
MPI_Comm plain;
MPI_Comm alone;
static int comm_count;
struct win *wins;
static int win_count;
static int initialized_here;

int class_of(int error)
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
