/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks of these test programs: the first that fails ends one. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
		exit(1); \
	} \
} while (0)

#endif
