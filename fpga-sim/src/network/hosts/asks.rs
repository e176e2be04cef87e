//! When the wire need not be asked whether something came, and when what is held back goes: to ask takes a system call, as long as
//! to send.

use std::sync::atomic::{AtomicU8, Ordering};

/// So many asks are left out behind what came or went: the card asks before and after it takes commands, and what came is
/// dealt with, and answered, before.
const SPARE: u8 = 2;
/// No more than so many in a row, whatever comes and goes.
const IN_A_ROW: u8 = 8;

/// A packet is held back while the card asks less often than this behind it. Who posts without a pause has it ask twice
/// between two packets.
const HELD: u8 = 3;
/// The same for the news that a long payload was read: an answer to it may come, and takes it along.
const NEWS: u8 = 24;

/// See the module's description. Any thread may use it; what two do at once is one ask more or less.
#[derive(Default)]
pub(super) struct Asks {
    spare: AtomicU8,
    in_a_row: AtomicU8,
    /// 0: nothing is held back; else what is goes when so many asks, this one included, are over.
    held: AtomicU8,
}

impl Asks {
    /// A packet came, or went.
    #[inline]
    pub fn spare(&self) {
        if self.spare.load(Ordering::Relaxed) != SPARE {
            self.spare.store(SPARE, Ordering::Relaxed);
        }
    }

    /// Something waits for what the wire may bring.
    pub fn need(&self) {
        self.spare.store(0, Ordering::Relaxed);
    }

    /// A packet is held back.
    #[inline]
    pub fn hold(&self) {
        self.held.store(HELD, Ordering::Relaxed);
    }

    /// The news that a payload was read is held back.
    pub fn hold_news(&self) {
        if self.held.load(Ordering::Relaxed) == 0 {
            self.held.store(NEWS, Ordering::Relaxed);
        }
    }

    /// Whether something is held back.
    pub fn holds(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    /// Nothing is held back any more.
    pub fn let_go(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// The card asks: whether what is held back has to go now.
    #[inline]
    pub fn ends_hold(&self) -> bool {
        match self.held.load(Ordering::Relaxed) {
            0 => false,
            1 => true,
            held => {
                self.held.store(held - 1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Whether to ask now; where it says no, it will say yes soon.
    #[inline]
    pub fn is_due(&self) -> bool {
        let (spare, in_a_row) = (self.spare.load(Ordering::Relaxed), self.in_a_row.load(Ordering::Relaxed));
        if spare == 0 && in_a_row == 0 {
            return true;
        }
        let due = spare == 0 || in_a_row >= IN_A_ROW;
        let (spare, in_a_row) = if due { (0, 0) } else { (spare - 1, in_a_row + 1) };
        self.spare.store(spare, Ordering::Relaxed);
        self.in_a_row.store(in_a_row, Ordering::Relaxed);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_goes_when_nothing_follows() {
        let asks = Asks::default();
        assert!(!asks.ends_hold());
        for _ in 0..10 {
            asks.hold();
            assert_eq!([asks.ends_hold(), asks.ends_hold()], [false, false]);
        }
        assert!(asks.ends_hold() && asks.ends_hold());
        asks.let_go();
        assert!(!asks.ends_hold());
        asks.hold_news();
        assert_eq!((0..40).filter(|_| asks.ends_hold()).count(), 40 - usize::from(NEWS - 1));
    }

    #[test]
    fn few_asks_are_left_out() {
        let asks = Asks::default();
        assert!(asks.is_due() && asks.is_due());
        asks.spare();
        assert_eq!([asks.is_due(), asks.is_due(), asks.is_due()], [false, false, true]);
        asks.spare();
        asks.need();
        assert!(asks.is_due());
        // Whatever goes.
        let mut due = 0;
        for _ in 0..90 {
            asks.spare();
            due += u32::from(asks.is_due());
        }
        assert_eq!(due, 10);
    }
}
