/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <sched.h>
#include <stdlib.h>

#include "ggas_hpe.h"
#include "pipe.h"

/* Parts on their way in, to a device through two buffers, to memory of the host, or, where that is too short, to nowhere. */
struct in {
	struct letter letter;
	char *device, *host;
	char *buffers[2], *pinned;
	void *memory;
	MPI_Request coming[2];
	size_t asked, done;
	int error;
};

static size_t part_at(const struct in *in, size_t at)
{
	return in->letter.bytes - at < in->letter.part ? in->letter.bytes - at : in->letter.part;
}

/* Posts the receive of the next part into a buffer. */
static void ask(struct in *in, int which)
{
	char *to = in->host ? in->host + in->asked : in->buffers[which];

	if (in->asked >= in->letter.bytes)
		return;
	PMPI_Irecv(to, (int)part_at(in, in->asked), MPI_BYTE, in->letter.source, in->letter.tag, hpe_mpi_own(), &in->coming[which]);
	in->asked += part_at(in, in->asked);
}

static void receive(struct in *in, struct out *out)
{
	MPI_Request answer;

	in->coming[0] = in->coming[1] = MPI_REQUEST_NULL;
	ask(in, 0);
	ask(in, 1);
	PMPI_Isend(NULL, 0, MPI_BYTE, in->letter.source, in->letter.tag + 1, hpe_mpi_own(), &answer);
	for (int which = 0; in->done < in->letter.bytes;) {
		size_t bytes = part_at(in, in->done);
		int flag = 0;

		PMPI_Test(&in->coming[which], &flag, MPI_STATUS_IGNORE);
		if (!flag) {
			if (out)
				hpe_mpi_out_moves(out);
			sched_yield();
			continue;
		}
		/* While the part behind is under way. */
		if (in->device && ggas_hpe_copy(in->device + in->done, in->buffers[which], bytes))
			in->error = MPI_ERR_BUFFER;
		in->done += bytes;
		ask(in, which);
		which = 1 - which;
	}
	PMPI_Wait(&answer, MPI_STATUS_IGNORE);
}

/* The first bytes of what came: of elements with gaps as the sender had them. */
static int is_letter(const struct stage *stage, MPI_Status *status, struct letter *letter)
{
	MPI_Count bytes = 0;
	int size, count, at = 0, found = 0;
	char *packed;

	if (!stage->capacity || PMPI_Get_elements_x(status, MPI_BYTE, &bytes) || bytes != LETTER)
		return 0;
	if (stage->dense)
		return hpe_mpi_read_letter((char *)stage->buffer + stage->start, letter);
	if (PMPI_Type_size(stage->type, &size) || size <= 0)
		return 0;
	count = (LETTER + size - 1) / size;
	packed = malloc((size_t)count * (size_t)size);
	if (packed && !PMPI_Pack(stage->buffer, count, stage->type, packed, count * size, &at, hpe_mpi_self()))
		found = hpe_mpi_read_letter(packed, letter);
	free(packed);
	return found;
}

/* Puts a packed message where its elements belong: in steps, as MPI counts packed bytes by an int. */
static void unpack(const struct stage *stage, const char *packed, size_t bytes)
{
	MPI_Aint bound, extent;
	int size = 0;
	size_t left, step;

	if (PMPI_Type_size(stage->type, &size) || size <= 0 || PMPI_Type_get_extent(stage->type, &bound, &extent))
		return;
	step = (1u << 30) / (size_t)size ? (1u << 30) / (size_t)size : 1;
	left = bytes / (size_t)size;
	for (char *to = stage->buffer; left; left -= step) {
		int at = 0;

		step = left < step ? left : step;
		PMPI_Unpack(packed, (int)(step * (size_t)size), &at, to, (int)step, stage->type, hpe_mpi_self());
		packed += step * (size_t)size;
		to += (MPI_Aint)step * extent;
	}
}

int hpe_mpi_in(struct stage *stage, MPI_Status *status, struct out *out)
{
	struct in in = { .error = MPI_SUCCESS };
	int fits;

	if (!is_letter(stage, status, &in.letter))
		return MPI_SUCCESS;
	hpe_mpi_reap(0);
	fits = in.letter.bytes <= stage->capacity;
	if (fits && stage->host && stage->dense)
		in.device = stage->device;
	else if (fits && stage->dense)
		in.host = (char *)stage->buffer + stage->start;
	else if (fits && !(in.memory = in.host = malloc(in.letter.bytes)))
		return MPI_ERR_NO_MEM;
	if (!in.host && !hpe_mpi_take_buffers(in.buffers, &in.pinned, &in.memory, in.letter.part))
		return MPI_ERR_NO_MEM;
	receive(&in, out);
	if (fits && !stage->dense)
		unpack(stage, in.memory, in.letter.bytes);
	hpe_mpi_return_buffers(in.pinned, in.memory);
	PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)in.letter.bytes);
	/* The bytes are where they belong. */
	if (in.device)
		stage->use = READ;
	return fits ? in.error : MPI_ERR_TRUNCATE;
}
