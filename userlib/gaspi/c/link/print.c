/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions with a format: Rust cannot define these.
 */
#include <stdarg.h>
#include <stdio.h>

#include "PGASPI.h"

#define MOST 1024

void ggas_gaspi_print(int rank, const char *text);

#define PRINT(rank)                                   \
	do {                                          \
		char text[MOST];                      \
		va_list list;                         \
		va_start(list, fmt);                  \
		vsnprintf(text, sizeof(text), fmt, list); \
		va_end(list);                         \
		ggas_gaspi_print(rank, text);         \
	} while (0)

void pgaspi_printf(const char *fmt, ...)
{
	PRINT(0);
}

void pgaspi_printf_to(gaspi_rank_t rank, const char *fmt, ...)
{
	PRINT(rank);
}

void gaspi_printf(const char *fmt, ...)
{
	PRINT(0);
}

void gaspi_printf_to(gaspi_rank_t rank, const char *fmt, ...)
{
	PRINT(rank);
}
