//! What carries packets between cards: the [`Fabric`](fabric::Fabric) trait and those who implement it.

pub mod across;
pub mod fabric;
pub mod hosts;
pub mod in_process;
pub mod links;
pub mod shared;
mod wakes;

pub use in_process::network::{Network, NetworkError};
