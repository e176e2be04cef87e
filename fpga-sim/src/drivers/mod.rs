//! What runs cards in the background, and what time is for them.
//!
//! [`real_time`]: threads that poll. [`deterministic`]: whole networks on one thread, in virtual time, from a seed.

pub mod deterministic;
pub mod real_time;
