//! The network as wires and switches: positions, routes, links that lose nothing, faults, and their registers.

pub mod faults;
pub mod link;
pub mod routing;
pub mod torus;
pub mod xbar;
