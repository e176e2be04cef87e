/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A peer that dies: posts to it, and waits that name it, say so soon; others go on. Argument: how it dies. */
#include <signal.h>

#include "job.h"

int main(int argc, char **argv)
{
	struct job job = join_job();
	RMA2_Notification *n = NULL;
	RMA2_Handle self;
	RMA2_ERROR result;
	double start;
	long posts = 0;

	CHECK(argc == 2 && job.size == 2);
	if (job.me == 1) {
		if (strcmp(argv[1], "kill") == 0)
			raise(SIGKILL);
		_exit(0);
	}
	start = seconds();
	GIVES(RMA2_ERR_NO_ROUTE, rma2_noti_noti_match_block(job.port, 77, node_of(&job, 1), vpid_of(&job, 1), &n));
	for (;;) {
		result = rma2_post_notification(job.port, job.to[1], 1, 1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT);
		if (result != RMA2_SUCCESS)
			break;
		posts++;
		CHECK(seconds() - start < PATIENCE / 2);
	}
	CHECK(result == RMA2_ERR_NO_ROUTE && seconds() - start < PATIENCE / 2);
	printf("told after %.0f ms, %ld posts\n", (seconds() - start) * 1e3, posts);

	/* The port works on. */
	self = connect_to(job.port, job.port);
	OK(rma2_post_notification(job.port, self, 5, 6, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
	OK(rma2_noti_noti_match_block(job.port, 5, RMA2_NODEID_ANY, RMA2_VPID_ANY, &n));
	CHECK(n->word0.value == 6);
	OK(rma2_noti_free(job.port, n));
	OK(rma2_close(job.port));
	return 0;
}
