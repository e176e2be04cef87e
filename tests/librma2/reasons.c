/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why no port can be opened is one line on standard error, once for each reason; with GGAS_QUIET=1 there is none.
 */
#include <fcntl.h>
#include <unistd.h>

#include "velo.h"

static int file, kept, quiet;

/* Standard error holds this many lines since the last time, and the last of them all of these words. */
static void said(int lines, const char *library, const char *number, const char *reason)
{
	char text[4096];
	ssize_t size = pread(file, text, sizeof text - 1, 0);
	int found = 0;
	char *at;

	text[size < 0 ? 0 : size] = 0;
	for (at = text; *at; at++)
		found += *at == '\n';
	if (quiet)
		lines = 0;
	if (size < 0 || found != lines ||
	    (lines && (!strstr(text, library) || !strstr(text, number) || !strstr(text, reason)))) {
		dprintf(kept, "%d lines with %s, %s and %s were to be there; there are:\n%s", lines, library, number,
			reason, text);
		exit(1);
	}
	if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0)
		exit(1);
}

/* `tries` times, by a setting that opening refuses. */
static void refused(const char *setting, int tries)
{
	RMA2_Port port = NULL;

	setenv("EXTOLL_POST_TIMEOUT", setting, 1);
	while (tries-- > 0)
		if (rma2_open(&port) != RMA2_ERR_NO_DEVICE)
			exit(1);
}

int main(void)
{
	velo2_port_t velo;
	RMA2_Port port;

	quiet = getenv("GGAS_QUIET") && strcmp(getenv("GGAS_QUIET"), "1") == 0;
	file = fileno(tmpfile());
	kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	if (kept < 0 || dup2(file, STDERR_FILENO) < 0)
		return 1;
	refused("soon", 3);
	said(1, "librma2:", "(-17)", "EXTOLL_POST_TIMEOUT=soon: give seconds");
	refused("later", 2);
	said(1, "librma2:", "(-17)", "EXTOLL_POST_TIMEOUT=later");
	refused("soon", 1);
	said(0, "", "", "");
	unsetenv("EXTOLL_POST_TIMEOUT");

	setenv("EXTOLL_VELO_SLOTS", "96", 1);
	if (velo2_open(&velo) != VELO2_RET_ERROR || velo2_open(&velo) != VELO2_RET_ERROR)
		return 1;
	/* The network is made before the mailbox is refused. */
	said(2, "libvelo2:", "(2)", "EXTOLL_VELO_SLOTS=96");
	unsetenv("EXTOLL_VELO_SLOTS");

	/* A null pointer is the program's mistake, not a port that cannot be opened; and success is silent. */
	if (rma2_open(NULL) != RMA2_ERR_INV_VALUE || velo2_open(NULL) != VELO2_RET_ERROR)
		return 1;
	if (rma2_open(&port) != RMA2_SUCCESS || rma2_close(port) != RMA2_SUCCESS)
		return 1;
	said(0, "", "", "");
	return 0;
}
