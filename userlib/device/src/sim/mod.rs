//! The model as a device: this module plays the kernel driver's role against the card's register interface.

mod network;

pub use extoll_sim::faults::Faults;
pub use extoll_sim::torus::Torus;
pub use network::{BuildError, Progress, SimBuilder, SimNetwork};
