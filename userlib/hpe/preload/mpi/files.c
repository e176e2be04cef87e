/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files of MPI: what is written is staged before, and what was read is copied to the device. */
#include <stdio.h>

#include "requests.h"
#include "stage.h"

/* As hpe_mpi_fail, by the file's handler, which by default lets the program go on. */
static int fail(MPI_File file, int error, const char *call, const char *why)
{
	fprintf(stderr, "ggas-hpe: %s: %s\n", call, why);
	PMPI_File_call_errhandler(file, error);
	return error;
}

static int begin(struct stage *stage, const void *buffer, int count, MPI_Datatype type, enum use use, MPI_File file,
		 const char *call)
{
	struct range range;
	int error;

	*stage = (struct stage){ .buffer = (void *)buffer };
	if (count <= 0 || !hpe_mpi_is_device(buffer))
		return MPI_SUCCESS;
	error = hpe_mpi_range(count, type, &range);
	if (error)
		return fail(file, error, call, "this datatype does not go with memory of a device");
	error = hpe_mpi_begin(stage, buffer, &range, use);
	stage->of_file = 1;
	if (error)
		fail(file, error, call, "cannot copy from the device's memory: freed, too short, or none left here");
	return error;
}

/* Behind a call, whose status says how much came. */
static int end(struct stage *stage, MPI_Status *status, int error, MPI_File file, const char *call)
{
	int result = hpe_mpi_end(stage, status, error);

	if (result != error)
		fail(file, result, call, "cannot copy to the device's memory: freed, or too short");
	return result;
}

/* A call, with an offset or without: `place` its parameter, `at` the argument. */
#define CALL(name, constant, use, place, at) \
int MPI_File_##name(MPI_File file, place constant void *buffer, int count, MPI_Datatype type, MPI_Status *status) \
{ \
	struct stage stage; \
	MPI_Status own, *to; \
	int error = begin(&stage, buffer, count, type, use, file, "MPI_File_" #name); \
\
	if (error) \
		return error; \
	to = stage.host && status == MPI_STATUS_IGNORE ? &own : status; \
	error = PMPI_File_##name(file, at stage.buffer, count, type, to); \
	return end(&stage, (use) == WRITE ? to : NULL, error, file, "MPI_File_" #name); \
}

/* One that does not block. */
#define ICALL(name, constant, use, place, at) \
int MPI_File_##name(MPI_File file, place constant void *buffer, int count, MPI_Datatype type, MPI_Request *request) \
{ \
	struct stage stage; \
	int error = begin(&stage, buffer, count, type, use, file, "MPI_File_" #name); \
\
	if (error) \
		return error; \
	error = PMPI_File_##name(file, at stage.buffer, count, type, request); \
	return hpe_mpi_keep(&stage, NULL, *request, error, MPI_COMM_NULL, "MPI_File_" #name); \
}

/* One whose second half names the buffer again, long after. */
#define SPLIT(name, constant, place, at) \
int MPI_File_##name(MPI_File file, place constant void *buffer, int count, MPI_Datatype type) \
{ \
	if (hpe_mpi_is_device(buffer)) \
		return fail(file, MPI_ERR_BUFFER, "MPI_File_" #name, \
			    "takes no memory of a device: use the form with a request (MPI_File_iread_all and so on)"); \
	return PMPI_File_##name(file, at buffer, count, type); \
}

#define OFFSET MPI_Offset offset,
#define AT offset,

CALL(read, , WRITE, , )
CALL(read_all, , WRITE, , )
CALL(read_shared, , WRITE, , )
CALL(read_ordered, , WRITE, , )
CALL(read_at, , WRITE, OFFSET, AT)
CALL(read_at_all, , WRITE, OFFSET, AT)
CALL(write, const, READ, , )
CALL(write_all, const, READ, , )
CALL(write_shared, const, READ, , )
CALL(write_ordered, const, READ, , )
CALL(write_at, const, READ, OFFSET, AT)
CALL(write_at_all, const, READ, OFFSET, AT)

ICALL(iread, , WRITE, , )
ICALL(iread_all, , WRITE, , )
ICALL(iread_shared, , WRITE, , )
ICALL(iread_at, , WRITE, OFFSET, AT)
ICALL(iread_at_all, , WRITE, OFFSET, AT)
ICALL(iwrite, const, READ, , )
ICALL(iwrite_all, const, READ, , )
ICALL(iwrite_shared, const, READ, , )
ICALL(iwrite_at, const, READ, OFFSET, AT)
ICALL(iwrite_at_all, const, READ, OFFSET, AT)

SPLIT(read_all_begin, , , )
SPLIT(read_ordered_begin, , , )
SPLIT(read_at_all_begin, , OFFSET, AT)
SPLIT(write_all_begin, const, , )
SPLIT(write_ordered_begin, const, , )
SPLIT(write_at_all_begin, const, OFFSET, AT)
