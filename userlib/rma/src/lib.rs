//! RMA: ports, connections, regions, notifications, locks.
