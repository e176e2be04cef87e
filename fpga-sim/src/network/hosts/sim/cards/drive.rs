//! Who runs a host's card: the thread of the wire, the driver, and the program, in the order of the seed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::world::{EVER, Event, World};
use super::host::{Host, Waits};
use crate::card::Need;
use crate::drivers::naps;
use crate::network::hosts::core::Core;
use crate::network::hosts::sleep::{NAP, Pause, SLEEP_MS};

const US: Duration = Duration::from_micros(1);
/// A program that finds nothing to do looks again after so long: one that waits for something, for as long as it spins, within the
/// naps of the thread, which leaves the wire to it.
const IDLE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(50));
const SPINS: (Duration, Duration) = (Duration::from_micros(600), Duration::from_millis(50));

impl World {
    /// Runs what is to run of a process.
    pub(in super::super) fn step_host(&mut self, who: usize) {
        let (shared, still) = (self.processes[who].shared.clone(), self.processes[who].still_until);
        if still > self.now() {
            return self.step_at(who, still);
        }
        let polls = shared.polls();
        let next = shared.with_core_in_lobby(Core::look);
        for thread in if self.random.bool() { [true, false] } else { [false, true] } {
            match thread {
                true => self.run_watch(who),
                false => self.run_driver(who),
            }
        }
        if self.processes[who].leaves.is_some() {
            shared.pump(); // as who leaves does until all have what it sent
        }
        if self.random.bool() {
            self.consume(who);
        }
        loop {
            let outs = shared.core().take_out();
            if outs.is_empty() {
                break;
            }
            outs.into_iter().for_each(|out| self.obey(who, out));
        }
        self.flush();
        self.watch(who);
        let now = self.now();
        let refused = std::mem::take(&mut self.messages.borrow_mut().refused);
        let host = self.host(who);
        host.reuse_closed();
        // Who begins to poll wakes the thread; so does room, as the wire says.
        if host.sleeps && (shared.polls() != polls || refused) {
            (host.sleeps, host.watch_at) = (false, now + 50 * US);
        }
        let mut at = host.watch_at;
        if host.is_called() {
            (host.driver_at, host.nap) = (now, 0);
        }
        at = at.min(host.driver_at);
        if let Some(next) = next {
            at = at.min(next.duration_since(self.clock.origin()));
        }
        if self.processes[who].leaves.is_some() {
            at = at.min(now + 200 * US);
        }
        self.step_at(who, at);
        self.see_off(who);
    }

    /// A turn of the thread that looks after the wire.
    fn run_watch(&mut self, who: usize) {
        let (now, shared) = (self.now(), self.processes[who].shared.clone());
        let come = self.messages.borrow().has_come(who);
        let host = self.host(who);
        if host.watch_at > now && !(host.sleeps && come) {
            return;
        }
        let pause = host.watch.turn(&*shared);
        host.sleeps = matches!(pause, Pause::Sleep(_));
        host.watch_at = now
            + match pause {
                Pause::None => US,
                Pause::WhileOthersPoll => NAP,
                Pause::Sleep(_) => Duration::from_millis(SLEEP_MS.into()),
                Pause::Yield => 5 * US,
                Pause::For(time) => time,
            };
    }

    /// The driver's turn with the card.
    fn run_driver(&mut self, who: usize) {
        let (now, trusts) = (self.now(), self.trusts);
        let host = self.host(who);
        let called = host.is_called();
        if !called && host.driver_at > now {
            return;
        }
        if called {
            host.nap = 0;
        }
        host.nic.submitted().store(false, Ordering::Release);
        let (moved, need) = host.nic.run_for_driver();
        // Half of all networks have drivers that wait until the network tells, however long that takes.
        let need = if trusts && need == Need::Told { Need::Nothing } else { need };
        let nap = naps::next(host.nap, moved, need);
        host.nap = nap.unwrap_or(0);
        host.driver_at = nap.map_or(EVER, |nap| now + Duration::from_nanos(nap).max(US));
    }

    /// Takes the notifications of a process that its program looks at now.
    fn consume(&mut self, who: usize) -> bool {
        let (now, mut some) = (self.now(), false);
        for at in 0..self.host(who).ports.len() {
            if self.host(who).ports[at].late > now {
                continue;
            }
            while let Some(notification) = self.host(who).next_notification(at) {
                self.notified(who, at, notification);
                some = true;
            }
        }
        some
    }

    /// Has a program go on at once.
    pub(super) fn rouse(&mut self, who: usize) {
        let now = self.now();
        let host = self.host(who);
        if host.program_at > now {
            host.program_at = now;
            self.plan(now, Event::Program(who));
        }
    }

    /// Posts some of what is to be posted.
    fn post_some(&mut self, who: usize) -> bool {
        let some = self.random.u32(1..24).min(self.host(who).to_post);
        for _ in 0..some {
            self.host(who).to_post -= 1;
            self.post_command(who);
            if self.host(who).waits != Waits::Sleeps && self.random.u8(..8) == 0 {
                self.host(who).nic.progress();
            }
        }
        some > 0
    }

    /// A program's turn: takes notifications, posts, polls.
    pub(in super::super) fn run_program(&mut self, who: usize) {
        let now = self.now();
        let process = &self.processes[who];
        if !process.alive || process.leaves.is_some() || self.host(who).program_at != now {
            return;
        }
        let still = self.processes[who].still_until;
        if still > now {
            self.host(who).program_at = still;
            return self.plan(still, Event::Program(who));
        }
        let mut busy = self.consume(who);
        busy |= self.post_some(who);
        let waits = self.host(who).waits;
        let polls = [0, 1, 3, 12][self.random.usize(..4)];
        for _ in 0..if waits == Waits::Sleeps { 0 } else { polls } {
            busy |= self.host(who).nic.progress();
        }
        busy |= self.consume(who);
        let host = self.host(who);
        if busy {
            host.busy_at = now;
        }
        let spins = waits == Waits::Spins && now < host.busy_at + SPINS.1;
        let most = if spins { SPINS.0 } else { IDLE.1 };
        if waits == Waits::Sleeps && !busy || !spins && self.random.u8(..4) == 0 {
            let shared = self.processes[who].shared.clone();
            shared.rest_card();
            let host = self.host(who);
            if !host.sleeps {
                host.watch_at = host.watch_at.min(now + 5 * US); // its nap is over
            }
        }
        self.step_host(who);
        if !self.processes[who].alive {
            return;
        }
        let pause = self.random.u32(5..200) * US;
        let host = self.host(who);
        host.idle = if busy { Duration::ZERO } else { (2 * host.idle).clamp(IDLE.0, most) };
        let at = now + pause + host.idle;
        host.program_at = at;
        self.plan(at, Event::Program(who));
    }
}

impl Host {
    /// Nothing of it runs any more, but what others do with its memory.
    pub(in super::super) fn leave(&self) {
        self.nic.detach();
    }
}
