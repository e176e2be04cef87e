/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* 10,000 cycles (argument 1: so many) of opening, connecting, sending and closing: every VPID comes back, and the process does not grow. */
#include "velo.h"

static void cycles(int count)
{
	int i, k;

	for (i = 0; i < count; i++) {
		velo2_port_t port;
		velo2_connection_t to[16];

		VOK(velo2_open(&port));
		CHECK(velo2_get_vpid(&port) < 251);
		for (k = 0; k < 16; k++)
			to[k] = connect_velo(&port, address_of(&port));
		send_surely(&to[i % 16], (uint32_t)i);
		take_number(&port, (uint32_t)i, address_of(&port));
		/* The other connections end with the port. */
		VOK(velo2_disconnect(&port, &to[i % 8]));
		VOK(velo2_close(&port));
	}
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10000;
	long before, more;

	cycles(count / 10);
	before = resident_kib();
	cycles(count);
	more = resident_kib() - before;
	printf("%d cycles: %ld KiB more\n", count, more);
	CHECK(more < 1024);
	return 0;
}
