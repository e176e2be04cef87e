//! GGAS: windows of a global GPU address space.
