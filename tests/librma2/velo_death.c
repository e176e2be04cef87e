/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A peer that is killed: sends to it say so soon, and the port works on. */
#include <signal.h>

#include "velo.h"

int main(void)
{
	struct job job = join_job();
	velo2_port_t port;
	velo2_connection_t to, to_self;
	velo2_ret_t result;
	uint32_t peer, i;
	double start;

	VOK(velo2_open(&port));
	exchange(&job, address_of(&port));
	peer = (uint32_t)job.told[1 - job.me];
	to = connect_velo(&port, peer);
	if (job.me == 1) {
		for (i = 0; i < 100; i++)
			send_surely(&to, i);
		heard(&job, 0, SEEN);
		raise(SIGKILL);
	}
	for (i = 0; i < 100; i++)
		take_number(&port, i, peer);
	tell(&job, 1, SEEN, 0);
	start = seconds();
	for (i = 0; (result = send_number(&to, i)) == VELO2_RET_SUCCESS || result == VELO2_RET_TRY_AGAIN; i++)
		CHECK(seconds() - start < PATIENCE);
	VGIVES(VELO2_RET_INVALID_NODE, result);
	VGIVES(VELO2_RET_INVALID_NODE, send_number(&to, i));

	to_self = connect_velo(&port, address_of(&port));
	send_surely(&to_self, 9);
	take_number(&port, 9, address_of(&port));
	no_message(&port);
	VOK(velo2_close(&port));
	OK(rma2_close(job.port));
	return 0;
}
