/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Handles of requests that there are not, or that are over. */
#ifndef HOSTILE_HANDLES_CUH
#define HOSTILE_HANDLES_CUH

#include <initializer_list>

#include "hostile_check.cuh"

GGAS_FN uint64_t hostile_number(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15;
	i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9;
	return i ^ i >> 27;
}

/* Waits for what is no request end, whatever they say. */
GGAS_FN void hostile_random_handles(const hostile_check &check)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *place = check.words + HOSTILE_PLACES;
	int flag = 0, many = 0, indices[40];
	for (uint64_t round = 0; round < 200; round++) {
		uint64_t number = hostile_number(round);
		/* Of this port, of others that there are, with one bit more. */
		uint64_t handle = round % 4 == 0 ? number : (number & 0xff) | round % 4 << 60 | (round % 8 == 7 ? uint64_t(4) << 60 : 0);
		if (ggas_thread() == 0)
			for (uint64_t i = 0; i < 40; i++)
				place[i] = i ? hostile_number(i * round) : handle;
		ggas_syncthreads();
		if (round % 5 == 0)
			GMPI_Test(buf, place, &flag, MPI_STATUS_IGNORE);
		else if (round % 5 == 1)
			GMPI_Request_free(buf, place);
		else if (round % 5 == 2)
			GMPI_Start(buf, place);
		else if (round % 5 == 3)
			GMPI_Testsome(buf, 40, place, &many, indices, MPI_STATUSES_IGNORE);
		else
			GMPI_Request_get_status(buf, place, &flag, MPI_STATUS_IGNORE);
		ggas_syncthreads();
	}
}

GGAS_FN void hostile_set(uint64_t *place, uint64_t handle)
{
	ggas_syncthreads();
	if (ggas_thread() == 0)
		*place = handle;
	ggas_syncthreads();
}

GGAS_FN void hostile_handles(const hostile_check &check)
{
	gmpi_buf_t *buf = check.buf;
	uint64_t *data = check.words + HOSTILE_DATA, *place = check.words + HOSTILE_PLACES;
	int flag = 0, index = 0;
	hostile_set(place, 0);
	WANT(GMPI_SUCCESS, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	TOLD(GMPI_ERR_REQUEST, GMPI_Start(buf, place));
	WANT(GMPI_ERR_REQUEST, GMPI_Request_free(buf, place));
	/* One that this block has not made yet. */
	hostile_set(place, 1 << 30);
	WANT(GMPI_ERR_REQUEST, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	for (int count : { -1, -hostile_many - 1 }) {
		WANT(GMPI_ERR_COUNT, GMPI_Waitall(buf, count, place, MPI_STATUSES_IGNORE));
		WANT(GMPI_ERR_COUNT, GMPI_Waitany(buf, count, place, &index, MPI_STATUS_IGNORE));
		WANT(GMPI_ERR_COUNT, GMPI_Testall(buf, count, place, &flag, MPI_STATUSES_IGNORE));
		WANT(GMPI_ERR_COUNT, GMPI_Startall(buf, count, place));
	}
	/* The same one in three places, and a copy once more. */
	WANT(GMPI_SUCCESS, GMPI_Irecv(buf, data, 1, MPI_LONG, 0, 4, MPI_COMM_SELF, place));
	uint64_t handle = place[0];
	hostile_set(place + 1, handle);
	hostile_set(place + 2, handle);
	TOLD(GMPI_ERR_REQUEST, GMPI_Start(buf, place));
	WANT(GMPI_SUCCESS, GMPI_Send(buf, data + 1, 1, MPI_LONG, 0, 4, MPI_COMM_SELF));
	WANT(GMPI_SUCCESS, GMPI_Waitall(buf, 3, place, MPI_STATUSES_IGNORE));
	hostile_set(place, handle);
	WANT(GMPI_SUCCESS, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	hostile_set(place, handle);
	WANT(GMPI_ERR_REQUEST, GMPI_Request_free(buf, place));
	/* Persistent ones: started twice, freed under way, used then. */
	WANT(GMPI_SUCCESS, GMPI_Recv_init(buf, data, 1, MPI_LONG, 0, 5, MPI_COMM_SELF, place));
	handle = place[0];
	WANT(GMPI_SUCCESS, GMPI_Start(buf, place));
	TOLD(GMPI_ERR_REQUEST, GMPI_Start(buf, place));
	WANT(GMPI_SUCCESS, GMPI_Request_free(buf, place));
	hostile_set(place, handle);
	WANT(GMPI_ERR_REQUEST, GMPI_Request_free(buf, place));
	hostile_set(place, handle);
	TOLD(GMPI_ERR_REQUEST, GMPI_Start(buf, place));
	WANT(GMPI_SUCCESS, GMPI_Send(buf, data + 1, 1, MPI_LONG, 0, 5, MPI_COMM_SELF));
	/* One that cannot be: told as it is made, and whenever it is started. */
	hostile_set(place, 0);
	TOLD(GMPI_ERR_COUNT, GMPI_Send_init(buf, data, -1, MPI_LONG, 0, 5, MPI_COMM_SELF, place));
	for (int i = 0; i < 2; i++) {
		TOLD(GMPI_ERR_COUNT, GMPI_Start(buf, place));
		WANT(GMPI_ERR_COUNT, GMPI_Wait(buf, place, MPI_STATUS_IGNORE));
	}
	WANT(GMPI_SUCCESS, GMPI_Request_free(buf, place));
	hostile_random_handles(check);
}

#endif
