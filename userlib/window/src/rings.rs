//! Rings for packed puts between kernels (`kernels/include/ggas/put.cuh`).

use crate::{Window, WindowError};

/// Bytes before each ring: how far its two ends have come.
const STATE: usize = 64;
/// Bytes of a line: 12 of data, and its flag.
const LINE: usize = 16;
/// Fewest lines of a ring.
const LEAST_LINES: u32 = 8;
/// Messages that [`Rings::for_messages`] makes room for within [`EASY_LINES`]: a receiver tells after each quarter of a
/// ring how far it came, which takes as long as a put.
const EASY_MESSAGES: usize = 64;
const EASY_LINES: std::ops::RangeInclusive<usize> = 4096..=1 << 15;
/// Messages that there is always room for.
const MESSAGES: usize = 8;

/// Rings in the parts of a window: one for each lane and pair of members.
///
/// A lane is a pair of callers, such as the first blocks of two grids, that put to each other. Up to half of a ring
/// is on its way without the receiver taking it, so messages of `n` bytes want `2 * n / 12` lines or more.
///
/// Kernels get `offset`, `lanes` and [`lines_log2`](Self::lines_log2) as their `struct ggas_rings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Where they begin in every part, a multiple of 64.
    pub offset: usize,
    /// Pairs of callers that may put at the same time.
    pub lanes: u32,
    /// Lines of each ring, a power of two from 8 to 2^30.
    pub lines: u32,
}

impl Rings {
    /// Rings at `offset` that take eight messages of `bytes` without waiting for the receiver; smaller ones more: up to
    /// 64 within half a MiB.
    pub fn for_messages(offset: usize, lanes: u32, bytes: usize) -> Rings {
        let each = bytes.div_ceil(12);
        let easy = each.saturating_mul(EASY_MESSAGES).clamp(*EASY_LINES.start(), *EASY_LINES.end());
        let lines = each.saturating_mul(MESSAGES).clamp(easy, 1 << 30).next_power_of_two();
        Rings { offset: offset.next_multiple_of(STATE), lanes, lines: lines as u32 }
    }

    /// First byte behind the rings in a window of `members`; `None` where that is beyond all addresses.
    pub fn end(&self, members: usize) -> Option<usize> {
        let ring = (self.lines as usize).checked_mul(LINE)?.checked_add(STATE)?;
        ring.checked_mul(self.lanes as usize)?.checked_mul(members)?.checked_add(self.offset)
    }

    /// Binary logarithm of [`lines`](Self::lines).
    pub fn lines_log2(&self) -> u32 {
        self.lines.trailing_zeros()
    }

    /// Whether `window` has room for them.
    ///
    /// # Errors
    /// [`WindowError::Rings`], [`WindowError::Range`].
    pub fn check(&self, window: &Window) -> Result<(), WindowError> {
        let wrong = !self.lines.is_power_of_two()
            || !(LEAST_LINES..=1 << 30).contains(&self.lines)
            || self.lanes == 0;
        if wrong || !self.offset.is_multiple_of(STATE) {
            return Err(WindowError::Rings(*self));
        }
        let bytes = window.bytes();
        match self.end(window.len()) {
            Some(end) if end <= bytes => Ok(()),
            end => {
                let len = end.map_or(usize::MAX, |end| end - self.offset);
                Err(WindowError::Range { offset: self.offset, len, bytes })
            }
        }
    }

    /// Clears the rings of this process's members, after a failure: while no kernel uses them, and in all processes
    /// before any uses them again.
    ///
    /// # Errors
    /// As for [`check`](Self::check), and those of [`Window::write`].
    pub fn clear(&self, window: &Window) -> Result<(), WindowError> {
        self.check(window)?;
        let end = self.end(window.len()).unwrap_or(self.offset);
        window.trace_rings(&(self.offset..end))?;
        let zeros = vec![0; (end - self.offset).min(1 << 20)];
        for member in window.local() {
            let mut at = self.offset;
            while at < end {
                let part = zeros.len().min(end - at);
                window.write(member, at, &zeros[..part])?;
                at += part;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_take_a_message_without_waiting() {
        let rings = Rings::for_messages(100, 4, 4096);
        assert_eq!((rings.offset, rings.lines, rings.lines_log2()), (128, 32_768, 15));
        assert_eq!(rings.end(3), Some(128 + 4 * 3 * (64 + 32_768 * 16)));
        assert_eq!(Rings::for_messages(0, 1, 8).lines, 4096);
        assert_eq!(Rings::for_messages(0, 1, 1024).lines, 8192);
        assert_eq!(Rings::for_messages(0, 1, 65_536).lines, 65_536);
        assert_eq!(Rings { offset: 0, lanes: u32::MAX, lines: 1 << 31 }.end(usize::MAX), None);
    }
}
