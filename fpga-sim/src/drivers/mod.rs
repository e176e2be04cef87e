//! What runs cards in the background, and what time is for them.
//!
//! [`real_time`]: threads that poll. [`deterministic`]: whole networks on one thread, in virtual time, from a seed.
//! [`timed`]: whole systems on one thread, in virtual time, at the costs of a parameter file.

pub mod deterministic;
pub(crate) mod naps;
pub mod real_time;
mod tasks;
pub mod timed;
