/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages to a port of every other node: each gets all of them once and in order, the sender none. */
#include "velo.h"

#define EACH 500u

int main(void)
{
	struct job job = join_job();
	velo2_port_t port;
	velo2_connection_t to_all;
	uint32_t i;
	int rank;

	CHECK(job.per_node == 1);
	VOK(velo2_open(&port));
	exchange(&job, address_of(&port));
	for (rank = 0; rank < job.size; rank++)
		CHECK(VELO2_STATUS_VPID(&job.told[rank]) == velo2_get_vpid(&port));
	VOK(velo2_connect(&port, &to_all, VELO2_MCADDR_PACK(63), velo2_get_vpid(&port)));
	CHECK(to_all.dest.raw & VELO2_MCADDR_PACK(0));
	/* One after the other. */
	for (rank = 0; rank < job.size; rank++) {
		for (i = 0; i < EACH; i++) {
			if (rank == job.me)
				send_surely(&to_all, i);
			else
				take_number(&port, i, (uint32_t)job.told[rank]);
		}
		synchronise(&job);
		no_message(&port);
		synchronise(&job);
	}
	VOK(velo2_disconnect(&port, &to_all));
	VOK(velo2_close(&port));
	OK(rma2_close(job.port));
	return 0;
}
