//! A write-combining buffer as its writer sees it: when to look at its state (spec 2.4).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use extoll_abi::WcbState;

use crate::RegisterMap;
use ggas_clock::{Backoff, Clock, Step};

/// Consumers that find nothing this often, one after the other, look whether the card rejected something.
const PATIENCE: u16 = 256;
/// Ticks after which a writer was away for long: 50 to 270 ms. Cards wait longer for the rest of a line: 1.6 s [inferred].
const AWAY: u64 = 1 << 28;
/// Far longer than a store takes to the card.
const ARRIVED: Duration = Duration::from_millis(2);
/// Far longer than a card waits for the rest of a line.
const SETTLED: Duration = Duration::from_secs(10);

/// The WCB state register of a VPID, and what was last seen of it. One writer at a time.
///
/// Behind a bus each look takes longer than a post. So a writer there looks once in `batch` posts: what the card
/// rejects meanwhile, and all after it, is in the ring and written again in its order.
#[derive(Debug)]
pub(crate) struct Wcb {
    /// Mapped as long as the port lives.
    register: NonNull<AtomicU64>,
    batch: u8,
    /// Posts since the last look; what it said of commits, and whether of rejections.
    unseen: u8,
    committed: u8,
    rejecting: bool,
    /// Times that a consumer found nothing since the last look.
    quiet: u16,
    /// When the last post ended.
    last: Option<u64>,
}

// SAFETY: the register is accessed atomically only.
unsafe impl Send for Wcb {}

impl Wcb {
    /// A buffer that nothing was posted to yet. `batch` 0: the register is memory, and every look is free.
    pub(crate) fn new(registers: &RegisterMap, batch: u8) -> Wcb {
        let register = registers.wcb_state;
        Wcb { register, batch, unseen: 0, committed: 0, rejecting: false, quiet: 0, last: None }
    }

    /// Whether looking is free.
    #[inline]
    pub(crate) fn is_memory(&self) -> bool {
        self.batch == 0
    }

    /// Reads the register.
    #[inline]
    pub(crate) fn look(&mut self) -> WcbState {
        let state = self.peek();
        (self.committed, self.rejecting) = (state.committed(), state.rejected() != 0);
        (self.unseen, self.quiet) = (0, 0);
        state
    }

    /// Reads the register, and remembers nothing.
    #[inline]
    pub(crate) fn peek(&self) -> WcbState {
        // SAFETY: the register is mapped as long as the port lives.
        WcbState(unsafe { self.register.as_ref() }.load(Ordering::Acquire))
    }

    /// Writes the register.
    pub(crate) fn set(&mut self, state: WcbState) {
        // SAFETY: as above.
        unsafe { self.register.as_ref() }.store(state.0, Ordering::Release);
    }

    /// Whether to look before one more is posted; `wp` were posted so far, modulo 256.
    #[inline]
    pub(crate) fn is_due(&self, wp: u8) -> bool {
        self.unseen >= self.batch || self.rejecting || wp.wrapping_sub(self.committed) == u8::MAX
    }

    /// Whether to look for rejections, since a consumer finds nothing.
    #[inline]
    pub(crate) fn is_suspect(&mut self, wp: u8) -> bool {
        if self.batch == 0 || self.rejecting {
            return true;
        }
        self.quiet += u16::from(wp != self.committed);
        self.quiet >= PATIENCE
    }

    /// Something was posted. Says whether the writer was away for long, perhaps while it stored.
    #[inline]
    pub(crate) fn posted(&mut self, clock: &Clock) -> bool {
        self.unseen = self.unseen.saturating_add(1);
        let now = ticks(clock);
        let last = self.last.replace(now);
        last.is_some_and(|last| now.wrapping_sub(last) > AWAY)
    }

    /// After [`posted`](Self::posted) said that the writer was away, `wp` posts in all: whether the last one is lost, and
    /// is to be written again.
    ///
    /// A card gives up a line that stays half written (WCB timeout, spec 2.4, 8.3). Words that are stored afterwards
    /// begin another line, which the next post would complete to something that nobody meant. That shows: the buffer
    /// is not idle, then it is, and one post is neither committed nor rejected. Waits for that, ten seconds at most;
    /// `progress` lets a model work.
    #[cold]
    pub(crate) fn has_lost(&mut self, wp: u8, clock: &Clock, progress: &dyn Fn() -> bool) -> bool {
        let (mut backoff, mut idle) = (Backoff::new(clock, SETTLED), None);
        loop {
            progress();
            let state = self.look();
            let missing = wp.wrapping_sub(state.committed()).wrapping_sub(state.rejected());
            if missing != 1 {
                return false;
            }
            let since = *idle.get_or_insert_with(|| clock.now());
            if !state.idle() {
                idle = None;
            } else if clock.since(since) >= ARRIVED {
                return true;
            }
            match backoff.step() {
                Step::Again => {}
                Step::Sleep(left) => backoff.nap(left),
                Step::Over(waited) => {
                    tracing::error!(
                        "a write-combining buffer is not idle after {waited:?}: {state:?}; a post may be lost"
                    );
                    return false;
                }
            }
        }
    }
}

/// A clock that costs next to nothing; its unit does not matter much.
#[inline]
fn ticks(clock: &Clock) -> u64 {
    if !clock.is_real() {
        return clock.coarse_millis() * 1_000_000;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Clock::REAL.since(*BEGIN.get_or_init(|| Clock::REAL.now())).as_nanos() as u64
    }
}
