// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <stdint.h>

#include "coll.h"
#include "selftest.h"

// A collective by a method of the self-test.
bool collective(uint32_t method, uint32_t grid, uint32_t form = SELFTEST_GRID);
// Collectives that hosts start in streams.
bool started(uint32_t kind, uint32_t chunks = 0, bool in_place = false);
// Blocks that meet, of whom one does not wait for the others if `planted`.
bool meeting(bool planted);
