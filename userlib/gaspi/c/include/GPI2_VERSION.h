/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef GPI2_VERSION_H
#define GPI2_VERSION_H

/* The interface that this library has. */
#define GASPI_MAJOR_VERSION 1
#define GASPI_MINOR_VERSION 6
#define GASPI_REVISION 0
#define GASPI_VERSION (GASPI_MAJOR_VERSION + GASPI_MINOR_VERSION / 10.0f + GASPI_REVISION / 100.0f)

#endif /* GPI2_VERSION_H */
