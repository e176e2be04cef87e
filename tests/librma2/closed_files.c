/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A service that has closed its standard files: none of the library's takes their place, so printing goes nowhere. */
#include <fcntl.h>
#include <unistd.h>

#include "job.h"

int main(void)
{
	struct job job;
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100), file;

	CHECK(kept >= 100);
	for (file = 0; file < 3; file++)
		close(file);
	job = join_job();
	for (file = 0; file < 3; file++)
		if (fcntl(file, F_GETFD) >= 0) {
			dprintf(kept, "standard file %d is the library's\n", file);
			return 1;
		}
	synchronise(&job);
	OK(rma2_close(job.port));
	return 0;
}
