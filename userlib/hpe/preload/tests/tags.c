/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tags of parts: each is one message's at a time. */
#include "../mpi/tags.h"

#include <stdio.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
		return 1; \
	} \
} while (0)

enum { PAIRS = 16384 };

int main(void)
{
	static char seen[PAIRS];

	/* More than there are, each given back: none is given again soon. */
	for (int i = 0; i < 3 * PAIRS; i++) {
		int tag = hpe_mpi_take_tag();

		CHECK(tag >= 0 && tag + 1 <= 32767 && tag % 2 == 0 && tag / 2 == i % PAIRS);
		hpe_mpi_return_tag(tag);
	}
	for (int i = 0; i < PAIRS; i++) {
		int tag = hpe_mpi_take_tag();

		CHECK(tag >= 0 && !seen[tag / 2]++);
	}
	CHECK(hpe_mpi_take_tag() == -1);
	hpe_mpi_return_tag(2 * 77);
	hpe_mpi_return_tag(2 * 5);
	CHECK(hpe_mpi_take_tag() + hpe_mpi_take_tag() == 2 * 82 && hpe_mpi_take_tag() == -1);
	puts("all well");
	return 0;
}
