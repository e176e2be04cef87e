/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints how many devices there are, or why none. */
#include "ggas_hpe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	int devices = ggas_hpe_devices();

	if (devices < 0)
		printf("%d %s\n", devices, errno == EINVAL ? "EINVAL" : errno == ENODEV ? "ENODEV" : "another");
	else
		printf("%d\n", devices);
	/* One number too many: the text says from where they count, and what sets how many. */
	if (devices > 0 && (ggas_hpe_alloc(devices, 8) || errno != ENODEV || !strstr(ggas_hpe_error(), "GGAS_HPE_DEVICES")))
		printf("%s\n", ggas_hpe_error());
	return 0;
}
