//! Threads of the library: named, and with the program's signals blocked, so that the program's own threads get them.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// What a thread causes by its own instructions. Were they blocked, Linux would end the process, whatever handler it has.
const OWN: [Signal; 5] = [Signal::SIGBUS, Signal::SIGSEGV, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP];

/// Starts a thread that handles no signals but those that it causes itself.
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
    let mut blocked = SigSet::all();
    OWN.into_iter().for_each(|signal| blocked.remove(signal));
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = Builder::new().name(name.into()).spawn(body);
    before.thread_set_mask()?;
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_blocks_all_signals_but_its_own() {
        let mask = spawn("quiet", SigSet::thread_get_mask).unwrap().join().unwrap().unwrap();
        assert!(OWN.into_iter().all(|signal| !mask.contains(signal)));
        assert!([Signal::SIGTERM, Signal::SIGCHLD].into_iter().all(|signal| mask.contains(signal)));
    }
}
