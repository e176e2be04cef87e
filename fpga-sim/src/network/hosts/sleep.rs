//! The thread that has packets taken while nobody polls, and sleeps on the wire's descriptor when nothing comes.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;
use nix::poll::{PollFd, PollFlags, poll};

use super::fabric::Shared;

/// A nap while others poll: they take the packets.
const NAP: Duration = Duration::from_millis(1);
/// Longest sleep, in milliseconds: who stops the thread waits so long.
const SLEEP_MS: u16 = 100;

/// The thread's life.
pub(super) fn serve(shared: &Arc<Shared>) {
    let mut polls = shared.polls();
    while !shared.stops() {
        let now = shared.polls();
        if now != polls {
            polls = now;
            // Whoever polls posts, too: short packets may wait for each other, no longer than a nap.
            shared.with_core(|core| core.hold_back(true));
            Clock::REAL.sleep(NAP);
            continue;
        }
        if shared.pump() {
            if !shared.run_card() {
                Clock::REAL.sleep(NAP); // it has no room, or somebody runs it
            }
            polls = shared.polls(); // the card asked on this thread
            continue;
        }
        // Nobody sees to what would be held back from here on.
        match shared.with_core(|core| core.hold_back(false).then(|| core.arm()).flatten()) {
            Some((descriptor, true)) => {
                // SAFETY: the endpoint's, which `shared` keeps.
                let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
                // A signal, or a descriptor that is none: the next look tells.
                let _ = poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], SLEEP_MS);
            }
            Some((_, false)) => {}
            None => Clock::REAL.sleep(NAP),
        }
    }
}
