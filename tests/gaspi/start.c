/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What can be wrong with a start: by the program itself, without gaspi_run.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"

static void set(const char *name, const char *value)
{
	CHECK(!setenv(name, value, 1));
}

int main(void)
{
	struct rlimit files;
	rlim_t usual;
	char job[64];

	unsetenv("GGAS_RANK");
	GIVES(GASPI_ERR_ENV, gaspi_proc_init(MINUTE));
	snprintf(job, sizeof(job), "gaspi-start-%ld", (long)getpid());
	set("GGAS_RANK", "0");
	GIVES(GASPI_ERR_ENV, gaspi_proc_init(MINUTE));
	set("GGAS_SIZE", "1");
	set("GGAS_JOB", job);
	/* Nobody is found there. */
	set("GGAS_RUNTIME_DIR", "/dev/null/none");
	GIVES(GASPI_ERR_SN, gaspi_proc_init(MINUTE));
	unsetenv("GGAS_RUNTIME_DIR");
	CHECK(!getrlimit(RLIMIT_NOFILE, &files));
	usual = files.rlim_cur;
	files.rlim_cur = 24;
	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	GIVES(GASPI_ERR_EMFILE, gaspi_proc_init(MINUTE));
	files.rlim_cur = usual;
	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	/* The other rank never comes. */
	set("GGAS_SIZE", "2");
	GIVES(GASPI_TIMEOUT, gaspi_proc_init(20));
	set("GGAS_SIZE", "1");
	set("GGAS_DEVICE", "none of these");
	GIVES(GASPI_ERR_DEVICE, gaspi_proc_init(MINUTE));
	set("GGAS_DEVICE", "sim");
	OK(gaspi_proc_init(MINUTE));
	GIVES(GASPI_ERR_MEMALLOC, gaspi_segment_alloc(0, 1ul << 60, GASPI_MEM_INITIALIZED));
	GIVES(GASPI_ERR_MEMALLOC, gaspi_segment_create(0, 1ul << 60, GASPI_GROUP_ALL, MINUTE, GASPI_MEM_INITIALIZED));
	OK(gaspi_segment_alloc(0, 8, GASPI_MEM_INITIALIZED));
	OK(gaspi_proc_term(MINUTE));
	return 0;
}
