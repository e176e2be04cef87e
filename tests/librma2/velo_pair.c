/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages between two processes, to and fro and in streams. Argument: bytes of a slot. */
#include "velo.h"

int main(int argc, char **argv)
{
	struct job job;
	velo2_port_t port;
	velo2_connection_t to;
	/* A guest's store to a card takes longer than a message on the model. */
	const uint32_t turns = on_card() ? 500 : 4000, all = on_card() ? 10000 : 60000;
	uint32_t peer, i;

	CHECK(argc == 2 && setenv("EXTOLL_VELO_SLOTS", argv[1], 1) == 0);
	VOK(velo2_open(&port));
	VOK(velo2_close(&port)); /* The node is of the job whichever library is first. */
	job = join_job();
	CHECK(job.size == 2);
	VOK(velo2_open(&port));
	exchange(&job, address_of(&port));
	peer = (uint32_t)job.told[1 - job.me];
	CHECK(peer != address_of(&port));
	to = connect_velo(&port, peer);
	for (i = 0; i < turns; i++) {
		if (job.me == 0)
			send_surely(&to, i);
		take_number(&port, i, peer);
		if (job.me == 1)
			send_surely(&to, i);
	}
	/* Both stream at once: who finds no room receives. */
	{
		uint32_t sent = 0, taken = 0;

		while (taken < all) {
			velo2_ret_t result = VELO2_RET_TRY_AGAIN;

			if (sent < all && sent < taken + 8000)
				result = send_number(&to, sent);
			if (result == VELO2_RET_TRY_AGAIN) {
				take_number(&port, taken++, peer);
				continue;
			}
			VOK(result);
			sent++;
		}
		CHECK(sent == all);
	}
	synchronise(&job);
	no_message(&port);
	VOK(velo2_close(&port));
	OK(rma2_close(job.port));
	return 0;
}
