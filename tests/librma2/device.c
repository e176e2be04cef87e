/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which device a program gets: argument 1 is the result that opening a port must give, 2 a part of its reason. */
#include "common.h"

int main(int argc, char **argv)
{
	RMA2_Port port = NULL;
	char text[500] = "";
	RMA2_ERROR result = rma2_open(&port);

	rma2_serror(result, text, (int)sizeof text);
	printf("%d: %s\n", (int)result, text);
	CHECK(argc == 3 && (int)result == atoi(argv[1]) && strstr(text, argv[2]));
	CHECK((port != NULL) == (result == RMA2_SUCCESS));
	if (port)
		OK(rma2_close(port));
	return 0;
}
