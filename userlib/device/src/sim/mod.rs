//! The model as a device: this module plays the kernel driver's role against the card's register interface.
//!
//! At start it writes the registers that the kernel modules write at load, and plays the network management that
//! gives nodes their state. A port is set up as open and mmap do: the lowest free VPID, a queue of segments, an
//! entry in the VPID table; memory is registered through translation tables with flush and confirmation.

mod builder;
mod copier;
mod ends;
mod flush;
mod network;
mod node;
mod peers;
mod port;
mod queue;
mod region;
mod smfu;
mod tables;
mod trigger;
mod velo;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use builder::{BuildError, FabricKind, Progress, SimBuilder};
pub use copier::device_range;
pub use ends::Ends;
pub use extoll_sim::Simulation;
pub use extoll_sim::faults::{Event, FaultError, Faults};
pub use extoll_sim::hosts::{HostsError, HostsFabric, HostsFile, HostsFileError};
pub use extoll_sim::shared::{Cables, JoinError, ProcessFabric};
pub use extoll_sim::timed;
pub use extoll_sim::torus::{Direction, Torus};
pub use network::SimNetwork;
pub use node::SimDevice;

/// State under these locks is consistent between any two statements that can panic, so poisoning says nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
