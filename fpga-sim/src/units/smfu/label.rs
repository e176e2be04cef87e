//! Which window a part is of, where the unit has several. No card names them: of the model.
//!
//! The processes of a window give it one number, and each process tells its unit which windows it has a part of, and at which interval.
//! Packets carry the number. So the units need not have a window at the same intervals, and an access never reaches a part of
//! another window: where the number is not known, the window was dropped, is not open yet, or is another one.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use extoll_abi::regs::EXTOLL_SMFU_INTERVALS;

/// Places of parts in a unit: its intervals, and one for a window whose nodes address bits name.
pub const SMFU_PLACES: usize = SMFU_MASK_PLACE + 1;
/// The place of a window whose nodes address bits name.
pub const SMFU_MASK_PLACE: usize = EXTOLL_SMFU_INTERVALS as usize;
/// Numbers of windows have so many bits.
pub const SMFU_WINDOW_BITS: u32 = 56;

/// Of a packet that hit no interval.
const NO_INTERVAL: u8 = u8::MAX;

/// What is at a place of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The window's number, not 0.
    pub window: u64,
    /// Which of the processes of its node has the part.
    pub seat: u8,
}

impl Label {
    pub(super) fn of(word: u64) -> Label {
        Label { window: word >> 8, seat: word as u8 }
    }

    pub(super) fn word(self) -> u64 {
        self.window << 8 | u64::from(self.seat)
    }
}

/// What a request says of its way, in `aux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Interval that it hit at its origin; none in mask mode.
    pub interval: Option<u32>,
    /// The window's number; 0 where the origin names none, as a card.
    pub window: u64,
}

impl Way {
    pub fn of(aux: u64) -> Way {
        let interval = (aux as u8 != NO_INTERVAL).then(|| u32::from(aux as u8));
        Way { interval, window: aux >> 8 }
    }

    pub fn aux(self) -> u64 {
        self.window << 8 | self.interval.map_or(u64::from(NO_INTERVAL), u64::from)
    }
}

/// The parts that a process has, by place. Its own: what others of its node have they know.
pub(super) struct Parts {
    windows: [AtomicU64; SMFU_PLACES],
    /// How many there are.
    open: AtomicU64,
    /// There was one: from then on windows are named.
    named: AtomicU64,
}

impl Default for Parts {
    fn default() -> Parts {
        let windows = std::array::from_fn(|_| AtomicU64::new(0));
        Parts { windows, open: AtomicU64::new(0), named: AtomicU64::new(0) }
    }
}

impl Parts {
    /// Says which window the part at a place is of; 0: there is none any more.
    pub fn set(&self, place: usize, window: u64) {
        let Some(word) = self.windows.get(place) else { return };
        let before = word.swap(window, Release);
        // Whoever finds the base that comes behind this finds this, too.
        fence(Release);
        match (before, window) {
            (0, 1..) => drop(self.open.fetch_add(1, Relaxed)),
            (1.., 0) => drop(self.open.fetch_sub(1, Relaxed)),
            _ => {}
        }
        self.named.store(1, Relaxed);
    }

    /// The place of a request's part. Windows mostly have the same intervals at both ends, so that one is looked at first.
    pub fn place(&self, way: Way) -> Option<usize> {
        let likely = way.interval.map_or(SMFU_MASK_PLACE, |interval| interval as usize);
        let has = |place: &usize| self.has(*place, way.window);
        Some(likely).filter(has).or_else(|| (0..SMFU_PLACES).find(has))
    }

    /// Whether there is a part of this window at a place, still, by whoever has read what belongs to it.
    pub fn has_still(&self, place: usize, window: u64) -> bool {
        fence(Acquire);
        self.has(place, window)
    }

    fn has(&self, place: usize, window: u64) -> bool {
        self.windows.get(place).is_some_and(|word| word.load(Acquire) == window)
    }

    /// Whether registers alone say where a request goes: its origin, or this process, is a card's driver, which names no windows, and
    /// there are not several.
    pub fn goes_by_registers(&self, way: Way) -> bool {
        match way.window {
            0 => self.open.load(Relaxed) < 2,
            _ => self.named.load(Relaxed) == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = (1 << SMFU_WINDOW_BITS) - 1;

    #[test]
    fn words_keep_labels_and_ways() {
        for label in [Label { window: WINDOW, seat: 255 }, Label { window: 1, seat: 0 }] {
            assert_eq!(Label::of(label.word()), label);
        }
        for interval in [None, Some(0), Some(63)] {
            for window in [0, 1, WINDOW] {
                let way = Way { interval, window };
                assert_eq!(Way::of(way.aux()), way);
            }
        }
    }

    #[test]
    fn parts_are_found_by_their_window() {
        let parts = Parts::default();
        let way = |interval, window| Way { interval: Some(interval), window };
        assert!(parts.goes_by_registers(way(3, 7)) && parts.goes_by_registers(way(3, 0)));
        parts.set(3, 7);
        assert_eq!([way(3, 7), way(9, 7), way(3, 8)].map(|way| parts.place(way)), [Some(3), Some(3), None]);
        assert!(!parts.goes_by_registers(way(3, 8)) && parts.goes_by_registers(way(3, 0)));
        // Of two windows a packet has to name one.
        parts.set(SMFU_MASK_PLACE, 8);
        assert_eq!(parts.place(Way { interval: None, window: 8 }), Some(SMFU_MASK_PLACE));
        assert!(!parts.goes_by_registers(way(3, 0)));
        parts.set(3, 0);
        assert_eq!(parts.place(way(3, 7)), None);
        assert!(parts.goes_by_registers(way(3, 0)));
        // What comes late for the last one is not taken for a card's.
        parts.set(SMFU_MASK_PLACE, 0);
        assert!(!parts.goes_by_registers(way(3, 7)));
    }
}
