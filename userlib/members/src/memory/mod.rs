//! Memory that processes of a host share: sealed memory without a name, files of a network's directory, the arena.

mod arena;
mod file;
mod part;
mod segment;

pub use arena::{ARENA_BYTES, Arena, ArenaBlock};
pub(crate) use file::{File, FileError};
pub use part::Part;
pub use segment::{Mapping, PAGE, SegmentError, check_file_size, create, sealed_len};
