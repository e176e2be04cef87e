//! The thread that has packets taken while nobody polls, and sleeps on the wire's descriptor when nothing comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use ggas_clock::Clock;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::core::Core;
use super::shared::Shared;
use super::wire::Wire;

/// A nap while others poll: they take the packets.
pub(super) const NAP: Duration = Duration::from_millis(1);
/// Looks in a row that bring nothing, and after which the wire still lets nobody sleep, before the thread naps in between.
const LOOKS: u32 = 16;
const LOOK_NAP: Duration = Duration::from_micros(100);
/// Longest sleep, in milliseconds.
pub(super) const SLEEP_MS: u16 = 100;

/// Wakes the thread when others begin to poll. Else the system would wake it inside of its sleep for each packet, which they have
/// taken before it looks: a trip between two hosts took six times as long for some ms. And when they end: what comes then would wait for
/// the end of its nap.
pub(super) struct Alarm {
    sleeps: AtomicBool,
    naps: AtomicBool,
    /// Milliseconds of a whole nap: tests have longer ones.
    nap_ms: AtomicU16,
    rings: EventFd,
}

impl Alarm {
    pub fn new() -> io::Result<Alarm> {
        let rings = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let nap_ms = AtomicU16::new(NAP.as_millis() as u16);
        Ok(Alarm { sleeps: AtomicBool::new(false), naps: AtomicBool::new(false), nap_ms, rings })
    }

    /// Somebody polls, or the thread is to end.
    #[inline]
    pub fn ring(&self) {
        if self.sleeps.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.sleeps.swap(false, Ordering::AcqRel) {
            let _ = self.rings.write(1); // full: it rings
        }
    }

    /// Nobody polls any more.
    pub fn end_nap(&self) {
        if self.naps.swap(false, Ordering::AcqRel) {
            let _ = self.rings.write(1);
        }
    }

    /// Lets others poll for a while, unless they end before: `over` is asked once it would be heard.
    fn nap(&self, over: impl FnOnce() -> bool) {
        let most_ms = self.nap_ms.load(Ordering::Relaxed);
        self.naps.store(true, Ordering::SeqCst);
        if !over() {
            let _ = poll(&mut [PollFd::new(self.rings.as_fd(), PollFlags::POLLIN)], most_ms);
        }
        if !self.naps.swap(false, Ordering::AcqRel) {
            let _ = self.rings.read();
        }
    }

    /// Whether it naps, and whether it sleeps, and how long its naps are from now on.
    #[cfg(test)]
    pub fn looks(&self) -> (bool, bool, &AtomicU16) {
        (self.naps.load(Ordering::SeqCst), self.sleeps.load(Ordering::SeqCst), &self.nap_ms)
    }

    /// Sleeps on a descriptor. Who rings from now on is heard.
    fn sleep(&self, descriptor: BorrowedFd<'_>, most_ms: u16) {
        self.sleeps.store(true, Ordering::SeqCst);
        let on = [descriptor, self.rings.as_fd()];
        // A signal, or a descriptor that is none: the next look tells.
        let _ = poll(&mut on.map(|on| PollFd::new(on, PollFlags::POLLIN)), most_ms);
        if !self.sleeps.swap(false, Ordering::AcqRel) {
            let _ = self.rings.read(); // who took it from us has written, or is about to: then the next sleep is short
        }
    }
}

/// What the thread does before its next turn.
pub(super) enum Pause {
    None,
    /// Whoever polls takes the packets: for a nap, or until they end.
    WhileOthersPoll,
    /// On the wire's descriptor, for [`SLEEP_MS`] at most.
    Sleep(RawFd),
    Yield,
    For(Duration),
}

/// What the thread knows from turn to turn.
pub(super) struct Watch {
    polls: u64,
    held_back: bool,
    looks: u32,
    /// The card asked on this thread, and nobody else since then.
    ran: bool,
}

impl Watch {
    pub fn new<W: Wire>(shared: &Shared<W>) -> Watch {
        Watch { polls: shared.polls(), held_back: false, looks: 0, ran: false }
    }

    pub fn turn<W: Wire>(&mut self, shared: &Shared<W>) -> Pause {
        let now = shared.polls();
        if std::mem::take(&mut self.ran) {
            self.polls = now;
        }
        if now != std::mem::replace(&mut self.polls, now) && !shared.has_rested(now) {
            // Whoever polls posts, too: short packets may wait for each other, no longer than a nap.
            if !self.held_back {
                shared.with_core(|core| core.hold_back(true));
                self.held_back = true;
            } else if shared.seen.asks.holds() {
                let _ = shared.try_with_core(|core| core.hold_back(true)); // who has it asks, which ends what is held back
            }
            return Pause::WhileOthersPoll;
        }
        // Who has the core moves the wire on, which takes milliseconds where many bytes are on the way.
        let Some(come) = shared.try_with_core(Core::pump) else { return Pause::For(NAP) };
        self.looks = if come { 0 } else { self.looks.saturating_add(1) };
        if come {
            self.ran = true;
            // Else it has no room, or somebody runs it.
            return if shared.run_card() { Pause::None } else { Pause::For(NAP) };
        }
        // Nobody sees to what would be held back from here on.
        self.held_back = false;
        match shared.with_core(|core| core.hold_back(false).then(|| core.arm()).flatten()) {
            Some((descriptor, true)) => {
                self.looks = 0;
                Pause::Sleep(descriptor)
            }
            // Something comes, or a connection is being made, to which the wire sees each millisecond: others may have something to do.
            Some((_, false)) if self.looks < LOOKS => Pause::Yield,
            Some((_, false)) => Pause::For(LOOK_NAP),
            None => Pause::For(NAP),
        }
    }
}

/// The thread's life.
pub(super) fn serve(shared: &Arc<Shared>) {
    let mut watch = Watch::new(shared);
    while !shared.stops() {
        match watch.turn(shared) {
            Pause::None => {}
            Pause::WhileOthersPoll => shared.alarm.nap(|| shared.has_rested(shared.polls())),
            Pause::Sleep(descriptor) => {
                // SAFETY: the endpoint's, which `shared` keeps.
                let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
                shared.alarm.sleep(descriptor, SLEEP_MS);
            }
            Pause::Yield => Clock::REAL.yield_now(),
            Pause::For(time) => Clock::REAL.sleep(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_polling_ends_the_nap() {
        let alarm = Alarm::new().unwrap();
        alarm.nap_ms.store(u16::MAX, Ordering::Relaxed);
        for _ in 0..100 {
            std::thread::scope(|scope| {
                let napper = scope.spawn(|| alarm.nap(|| false));
                while !napper.is_finished() {
                    alarm.end_nap();
                    Clock::REAL.yield_now();
                }
            });
            alarm.nap(|| true); // they have ended by then
        }
    }

    #[test]
    fn who_polls_wakes_the_sleeper_and_later_sleeps_are_whole() {
        let alarm = Alarm::new().unwrap();
        let (silent, _writer) = std::io::pipe().unwrap();
        for _ in 0..100 {
            std::thread::scope(|scope| {
                // A minute: the test has not as long.
                let sleeper = scope.spawn(|| alarm.sleep(silent.as_fd(), u16::MAX));
                while !sleeper.is_finished() {
                    alarm.ring();
                    Clock::REAL.yield_now();
                }
            });
        }
        assert!(alarm.rings.read().is_err(), "a ring was left, which would end the next sleep");
        alarm.ring();
        assert!(alarm.rings.read().is_err(), "nobody sleeps");
    }
}
