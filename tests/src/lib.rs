//! What scenarios share: the matrix of settings that they run in, ports with verified memory, error counters, and
//! waits that are bounded and say what they waited for.

mod area;
mod bed;
mod errors;
mod matrix;
pub mod sim;
mod wait;

pub use area::{Area, bytes};
pub use bed::{Bed, FENCE_BYTES, FENCE_CLASS, Pair, Seen};
pub use errors::Errors;
pub use matrix::{Setting, Shape, Trouble, each, each_of, settings};
pub use wait::{Ended, LIMIT, until};
