// SPDX-License-Identifier: MIT OR Apache-2.0
// Every call of rma.cuh over the loopback NIC.
#pragma once

#include "nic.h"

bool rma_calls_of(const nic_config &config);
