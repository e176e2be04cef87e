/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * launch SIZE PER_NODE PROGRAM [ARGUMENT...]: starts the processes of a job by nothing but their environment, as any
 * launcher may. Ends with 0 if all did; a process that a test has killed itself counts as ended well.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64

static void set(const char *name, long value)
{
	char text[32];

	snprintf(text, sizeof text, "%ld", value);
	setenv(name, text, 1);
}

int main(int argc, char **argv)
{
	pid_t children[MOST];
	int size = argc > 3 ? atoi(argv[1]) : 0, i, failed = 0;
	char name[64];

	if (size < 1 || size > MOST) {
		fprintf(stderr, "launch SIZE PER_NODE PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	snprintf(name, sizeof name, "librma2-%ld", (long)getpid());
	for (i = 0; i < size; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			set("GGAS_RANK", i);
			set("GGAS_SIZE", size);
			set("GGAS_PER_NODE", atoi(argv[2]));
			setenv("GGAS_JOB", name, 1);
			execv(argv[3], argv + 3);
			perror(argv[3]);
			_exit(127);
		}
		if (children[i] < 0) {
			perror("fork");
			return 2;
		}
	}
	for (i = 0; i < size; i++) {
		int status = 0;

		waitpid(children[i], &status, 0);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			fprintf(stderr, "rank %d ended with status %#x\n", i, (unsigned int)status);
			failed = 1;
		}
	}
	return failed;
}
