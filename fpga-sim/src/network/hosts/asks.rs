//! When the wire need not be asked whether something came: to ask takes a system call, as long as to send.

use std::sync::atomic::{AtomicU8, Ordering};

/// So many asks are left out behind what came or went: the card asks before and after it takes commands, and what came is
/// dealt with, and answered, before.
const SPARE: u8 = 2;
/// No more than so many in a row, whatever comes and goes.
const IN_A_ROW: u8 = 8;

/// See the module's description. Any thread may use it; what two do at once is one ask more or less.
#[derive(Default)]
pub(super) struct Asks {
    spare: AtomicU8,
    in_a_row: AtomicU8,
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
