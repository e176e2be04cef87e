// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

// Messages from kernel to kernel (ggas/impl/gmpi_direct.h) between two members, of short and long ones and those at odd addresses.
bool direct_messages();
// The same requests in one place, waited for once.
bool direct_places();
