/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* 10,000 cycles (argument 1: so many) of opening, connecting, sending and closing: every VPID comes back, and the process does not grow. */
#include "velo.h"

static long resident(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%*s %ld", &pages) == 1);
	fclose(file);
	return pages * 4;
}

static void cycles(int count)
{
	int i, k;

	for (i = 0; i < count; i++) {
		velo2_port_t port;
		velo2_connection_t to[16];

		VOK(velo2_open(&port));
		CHECK(velo2_get_vpid(&port) == 0);
		for (k = 0; k < 16; k++)
			to[k] = connect_velo(&port, address_of(&port));
		VOK(send_number(&to[i % 16], (uint32_t)i));
		take_number(&port, (uint32_t)i, address_of(&port));
		/* The other connections end with the port. */
		VOK(velo2_disconnect(&port, &to[i % 8]));
		VOK(velo2_close(&port));
	}
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10000;
	long before;

	cycles(count / 10);
	before = resident();
	cycles(count);
	CHECK(resident() - before < 2048);
	return 0;
}
