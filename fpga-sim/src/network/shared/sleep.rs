//! The wake-up thread: has packets taken while nobody polls, and sleeps when nothing comes.
//!
//! While others poll it naps, and senders need no system call. When nobody polls and nothing comes it says so in the
//! doorbell's mode, looks once more and sleeps; the next sender wakes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ggas_clock::Clock;

use super::futex::{wait, wake};
use super::inbox::{ASLEEP, AWAKE, CALLED, Inbox};

/// Naps while others poll, or while packets wait that the card has no room for: the first, and the longest after
/// doubling.
const NAP: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);

/// Polls after which a sleeping thread is roused; and how many make a poller: a call that posts looks a few times, and
/// whoever polls the memory that others put to may call nothing else.
const ROUSE_AFTER: u64 = 64;
/// Looks after the last packet, with the core given away in between, before the thread sleeps: an answer is often on its
/// way, and waking up takes longer.
const LINGER: u32 = 50;
/// A core that comes back later than this is kept by others. Then so many wake-ups end without such looks, since who wakes
/// up goes first and who gives the core away goes last; each time twice as many.
const CROWDED: Duration = Duration::from_micros(500);
const WAKE_UPS: u32 = 16;
const WAKE_UPS_MAX: u32 = 4_096;
/// The turn of the processor that the thread asks for. Linux since 6.12 lets a thread with short turns go first when it
/// wakes up: before the program's thread on the same core that polls memory and gives nothing away.
const TURN: Duration = Duration::from_micros(100);

/// What the thread has to do while nobody polls.
pub(super) trait Receives {
    /// Whether packets wait.
    fn has_news(&self) -> bool;
    /// Has them taken on this thread; whether anything moved.
    fn run_card(&self) -> bool;
}

/// What the thread and the fabric share.
pub(super) struct Sleeper {
    pub inbox: Inbox,
    /// Counted up by whoever polls; one writer at a time.
    polls: AtomicU64,
    stop: AtomicBool,
    /// Whoever polled is about to sleep.
    rest: AtomicBool,
}

impl Sleeper {
    pub fn new(inbox: Inbox) -> Sleeper {
        Sleeper {
            inbox,
            polls: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            rest: AtomicBool::new(false),
        }
    }

    /// Somebody polls.
    #[inline]
    pub fn polled(&self) {
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        // Whoever polls on makes it known, once, so that senders need not wake this process for each packet.
        if polls.is_multiple_of(ROUSE_AFTER) && self.inbox.doorbell().mode.load(Ordering::Relaxed) != AWAKE {
            self.rouse();
        }
    }

    /// Whoever polled sleeps from now on: the thread need not find that out by a nap.
    pub fn rest(&self) {
        let mode = &self.inbox.doorbell().mode;
        if mode.load(Ordering::Relaxed) == AWAKE {
            self.rest.store(true, Ordering::SeqCst);
            wake(mode);
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.rouse();
    }

    /// Has the thread look.
    pub fn rouse(&self) {
        let mode = &self.inbox.doorbell().mode;
        mode.store(AWAKE, Ordering::SeqCst);
        wake(mode);
    }

    /// The thread's life.
    pub fn run(self: &Arc<Sleeper>, fabric: &Weak<impl Receives>) {
        ask_for_short_turns();
        let mode = &self.inbox.doorbell().mode;
        let (mut polls, mut nap, mut linger) = (self.polls.load(Ordering::Relaxed), NAP, Linger::new());
        while !self.stop.load(Ordering::SeqCst) {
            let Some(fabric) = fabric.upgrade() else { return };
            let polled = self.polls.load(Ordering::Relaxed);
            let others =
                polled.wrapping_sub(polls) >= ROUSE_AFTER && !self.rest.swap(false, Ordering::SeqCst);
            polls = polled;
            let news = fabric.has_news();
            if news && !others && fabric.run_card() {
                polls = self.polls.load(Ordering::Relaxed);
                nap = NAP;
                linger.begin();
                continue;
            }
            if !others && !news && linger.goes_on() {
                drop(fabric);
                linger.give_way();
                continue;
            }
            if !others && !news {
                mode.store(ASLEEP, Ordering::SeqCst);
                // Looked at after the mode is out: senders look at the mode after their entry is.
                if fabric.has_news() || self.stop.load(Ordering::SeqCst) {
                    mode.store(AWAKE, Ordering::SeqCst);
                    continue;
                }
                drop(fabric);
                linger.sleeps();
                wait(mode, ASLEEP, None);
                if mode.swap(AWAKE, Ordering::SeqCst) == CALLED {
                    // By a sender: that others polled before says nothing.
                    polls = self.polls.load(Ordering::Relaxed);
                }
                nap = NAP;
                continue;
            }
            drop(fabric);
            wait(mode, AWAKE, Some(nap));
            nap = if self.rest.load(Ordering::SeqCst) { NAP } else { (nap * 2).min(NAP_MAX) };
        }
    }
}

/// Looks for packets behind one that came, before the thread sleeps.
struct Linger {
    left: u32,
    /// Wake-ups to come without such looks.
    without: u32,
    wake_ups: u32,
}

impl Linger {
    fn new() -> Linger {
        Linger { left: 0, without: 0, wake_ups: WAKE_UPS }
    }

    fn begin(&mut self) {
        self.left = if self.without == 0 { LINGER } else { 0 };
    }

    fn goes_on(&self) -> bool {
        self.left > 0
    }

    fn give_way(&mut self) {
        self.left -= 1;
        let given = Clock::REAL.now();
        Clock::REAL.yield_now();
        if Clock::REAL.since(given) > CROWDED {
            (self.left, self.without) = (0, self.wake_ups);
            self.wake_ups = (self.wake_ups * 2).min(WAKE_UPS_MAX);
        } else if self.left == 0 {
            self.wake_ups = WAKE_UPS;
        }
    }

    fn sleeps(&mut self) {
        self.without = self.without.saturating_sub(1);
    }
}

/// Without effect where the system does not know it or does not allow it.
fn ask_for_short_turns() {
    let turn = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        // SAFETY: asks for the priority of this thread, which is kept.
        sched_nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        sched_priority: 0,
        sched_runtime: TURN.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: reads a structure of ours, of the size that it names.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&turn), 0) };
}
