//! Output that a closed pipe cannot turn into a panic.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Writes to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Failed(format!("cannot write to standard output: {error}")),
    })
}

/// Writes to standard error, at once: lines of processes that share it stay whole. A reader that is gone does not
/// matter (`eprintln!` panics then).
pub fn note(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
