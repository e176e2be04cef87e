// SPDX-License-Identifier: MIT OR Apache-2.0
// Queues over the loopback NIC, and by stores.
#pragma once

#include "nic.h"
#include "selftest.h"

// Two launches of a form of the self-test (SELFTEST_QUEUE_*), by this way (GGAS_WAY_*).
bool by_queues(const nic_config &config, uint32_t way, uint32_t form);
