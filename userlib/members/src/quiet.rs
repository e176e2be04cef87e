//! Threads of the library: named, and with all signals blocked, so that the program's own threads get its signals.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow};

/// Starts a thread that handles no signals.
///
/// A program may wait for its signals with `sigwait`, blocked in all of its threads: one of ours that took them would
/// end it.
///
/// # Errors
/// The system's, when it gives no thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // Before it starts, since it inherits our mask.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = Builder::new().name(name.into()).spawn(body);
    before.thread_set_mask()?;
    thread
}
