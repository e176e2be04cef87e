// SPDX-License-Identifier: MIT OR Apache-2.0
// Engines of one process in thread mode, and what their host does: ports that close and open.
#pragma once

// Of what is known of a port only its owner is a writer.
bool engine_bystander();
// Puts of all ways, a get and a lock between two nodes.
bool engine_pair();
// One node: what arrives for a port while another one closes and opens and processes are lost.
bool engine_changes();
