//! GMPI over our own messages: scripts of calls that kernels of the CPU executor make, among nodes in this process.

mod collectives;
mod errors;
mod limits;
mod messages;
mod windows;
mod world;
