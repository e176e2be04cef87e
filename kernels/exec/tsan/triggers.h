// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "selftest.h"

// Kernels that trigger puts of a loopback unit, which carries them out on a thread of its own; by stores to its page, or
// through a ring of slots.
bool triggers_of_unit(uint32_t form, bool slots);
// The same carried out by whoever reaches the threshold. `alike`: all puts wait for one trigger, and the table says so.
bool triggers_of_poster(uint32_t form, bool alike = false);
// A trigger of a block's data, without its release if `planted`.
bool trigger_race(bool planted);
