/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints how many devices there are, or why none. */
#include "ggas_hpe.h"

#include <errno.h>
#include <stdio.h>

int main(void)
{
	int devices = ggas_hpe_devices();

	if (devices < 0)
		printf("%d %s\n", devices, errno == EINVAL ? "EINVAL" : errno == ENODEV ? "ENODEV" : "another");
	else
		printf("%d\n", devices);
	return 0;
}
