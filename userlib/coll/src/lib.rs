//! Groups of nodes for collectives.
