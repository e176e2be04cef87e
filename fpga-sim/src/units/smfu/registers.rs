//! Register block of the SMFU (spec 6.1), the windows that its intervals are of, and what follows from both: where an access
//! goes.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use extoll_abi::regs::*;
use extoll_abi::smfu::{ENABLE, Interval, NODE, TIMEOUT, TIMEOUT_ERROR, VALID, masked_target};

use ggas_members::memory::Part;

use super::label::{Label, SMFU_MASK_PLACE, SMFU_PLACES};

const FIRST: u64 = EXTOLL_RF_SMFU_STATUS_CONTROL;
const COUNT: usize = ((smfu_target_base(EXTOLL_SMFU_INTERVALS as u32) - FIRST) / 8) as usize;
/// Unit of the timeout register; the specification names none \[inferred\].
const TIMEOUT_TICK: Duration = Duration::from_micros(1);
/// Idle bit of the status.
const IDLE: u64 = 1 << EXTOLL_SMFU_IDLE_SHIFT;

const fn low(bits: u64) -> u64 {
    (1 << bits) - 1
}

/// Bits that a register keeps when software writes it.
fn kept(offset: u64) -> u64 {
    let status = ENABLE.mask()
        | low(EXTOLL_SMFU_ACR_BITS) << EXTOLL_SMFU_ACR_SHIFT
        | low(EXTOLL_SMFU_MSE_BITS) << EXTOLL_SMFU_MSE_SHIFT
        | low(EXTOLL_SMFU_P2NP_BITS) << EXTOLL_SMFU_P2NP_SHIFT
        | low(EXTOLL_SMFU_PASS_PW_BITS) << EXTOLL_SMFU_PASS_PW_SHIFT;
    match offset {
        EXTOLL_RF_SMFU_STATUS_CONTROL => status,
        EXTOLL_RF_SMFU_TRAFFIC_CLASS => 0x333,
        EXTOLL_RF_SMFU_TIMEOUT_CONTROL => TIMEOUT.mask(),
        EXTOLL_RF_SMFU_SENT_NP..=EXTOLL_RF_SMFU_RCVD_RSP => low(EXTOLL_SMFU_COUNTER_BITS),
        EXTOLL_RF_SMFU_O_START_ADDR | EXTOLL_RF_SMFU_T_START_ADDR => low(48),
        EXTOLL_RF_SMFU_N_NODE_OFFSET => low(16),
        EXTOLL_RF_SMFU_ADDR_MASK => EXTOLL_SMFU_ADDR_MASK_MASK,
        EXTOLL_RF_SMFU_INTERVAL_CONTROL..EXTOLL_RF_SMFU_VPID_T_START_ADDR => {
            let stride = EXTOLL_RF_SMFU_INTERVAL_STRIDE;
            match EXTOLL_RF_SMFU_INTERVAL_CONTROL + (offset - EXTOLL_RF_SMFU_INTERVAL_CONTROL) % stride {
                EXTOLL_RF_SMFU_INTERVAL_CONTROL => {
                    VALID.mask() | NODE.mask() | low(EXTOLL_SMFU_FUNCTION_BITS) << EXTOLL_SMFU_FUNCTION_SHIFT
                }
                EXTOLL_RF_SMFU_INTERVAL_COUNT => u64::MAX,
                _ => EXTOLL_SMFU_ADDRESS_MASK,
            }
        }
        EXTOLL_RF_SMFU_VPID_T_START_ADDR.. => EXTOLL_SMFU_ADDRESS_MASK,
        _ => 0,
    }
}

/// Where an access to the window goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub node: u16,
    /// Which of the node's processes has the memory, where it has several: the one that the window names, else by how many
    /// intervals before lead to the same node.
    pub seat: u8,
    /// Of the window that the interval is of; 0 where none is named.
    pub window: u64,
    /// Offset from the target's base.
    pub offset: u64,
    /// Interval that it hit; none in mask mode.
    pub interval: Option<u32>,
}

/// The registers, each a word of its own. Part of a job segment: a change of its layout is a new version of that.
#[repr(C)]
pub(crate) struct Block {
    registers: [AtomicU64; COUNT],
    /// Of each place, whose part of which window is there.
    labels: [AtomicU64; SMFU_PLACES],
    /// How often a label changed.
    changes: AtomicU64,
}

impl Default for Block {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Block { registers: std::array::from_fn(zero), labels: std::array::from_fn(zero), changes: zero(0) }
    }
}

/// The registers of one card, or of a node whose processes share them.
#[derive(Default)]
pub(crate) struct Registers(pub Part<Block>);

impl Registers {
    fn slot(&self, offset: u64) -> Option<&AtomicU64> {
        let offset = offset.checked_sub(FIRST).filter(|offset| offset.is_multiple_of(8))?;
        self.0.registers.get((offset / 8) as usize)
    }

    /// What is at a place; `None` where no window was named.
    pub fn label(&self, place: usize) -> Option<Label> {
        let word = self.0.labels.get(place)?.load(Acquire);
        (word != 0).then(|| Label::of(word))
    }

    pub fn set_label(&self, place: usize, label: Option<Label>) {
        if let Some(word) = self.0.labels.get(place) {
            word.store(label.map_or(0, Label::word), Release);
            // Whoever finds registers as they are written behind this finds this, too.
            self.0.changes.fetch_add(1, AcqRel);
            fence(Release);
        }
    }

    /// A register of this block by a constant offset.
    pub fn get(&self, offset: u64) -> u64 {
        self.slot(offset).map_or(0, |slot| slot.load(Relaxed))
    }

    /// What software reads.
    pub fn read(&self, offset: u64, idle: bool) -> Option<u64> {
        let value = self.slot(offset)?.load(Relaxed);
        let status = offset == EXTOLL_RF_SMFU_STATUS_CONTROL && idle;
        Some(if status { value | IDLE } else { value })
    }

    /// What a software write does; `false` for offsets of other units.
    pub fn write(&self, offset: u64, value: u64) -> bool {
        let Some(slot) = self.slot(offset) else { return false };
        if offset == EXTOLL_RF_SMFU_TIMEOUT_CONTROL {
            // Writing the error bit back clears it.
            let _ = slot.fetch_update(Relaxed, Relaxed, |old| {
                Some(value & TIMEOUT.mask() | old & TIMEOUT_ERROR.mask() & !value)
            });
        } else {
            slot.store(value & kept(offset), Relaxed);
        }
        true
    }

    pub fn enabled(&self) -> bool {
        ENABLE.is_set(self.get(EXTOLL_RF_SMFU_STATUS_CONTROL))
    }

    /// After which time a load fails; `None` if the timeout is 0.
    pub fn timeout(&self) -> Option<Duration> {
        let ticks = TIMEOUT.get(self.get(EXTOLL_RF_SMFU_TIMEOUT_CONTROL)) as u32;
        (ticks > 0).then(|| TIMEOUT_TICK * ticks)
    }

    pub fn set_timeout_error(&self) {
        if let Some(slot) = self.slot(EXTOLL_RF_SMFU_TIMEOUT_CONTROL) {
            slot.fetch_or(TIMEOUT_ERROR.mask(), Relaxed);
        }
    }

    /// Adds one to a 48-bit counter.
    pub fn count(&self, offset: u64) {
        if let Some(slot) = self.slot(offset) {
            let next = |old: u64| Some((old + 1) & low(EXTOLL_SMFU_COUNTER_BITS));
            let _ = slot.fetch_update(Relaxed, Relaxed, next);
        }
    }

    /// Adds one to the posted or non-posted half of an interval's counter.
    pub fn count_interval(&self, interval: u32, posted: bool) {
        if let Some(slot) = self.slot(smfu_count(interval)) {
            let shift = if posted { EXTOLL_SMFU_POSTED_SHIFT } else { EXTOLL_SMFU_NP_SHIFT };
            let mask = low(32) << shift;
            let next = |old: u64| Some(old & !mask | (old & mask).wrapping_add(1 << shift) & mask);
            let _ = slot.fetch_update(Relaxed, Relaxed, next);
        }
    }

    /// Where an access to a bus address goes (spec 6.2). Meanwhile others may free intervals of other windows and use them anew: those
    /// are made invalid, then have no label, then another, and are valid at last. What was read across that counts for nothing.
    pub(super) fn route(&self, address: u64) -> Route {
        loop {
            let changes = self.0.changes.load(Acquire);
            let route = self.hit(address).unwrap_or_else(|| self.masked(address));
            fence(Acquire);
            if self.0.changes.load(Relaxed) == changes {
                return route;
            }
        }
    }

    /// The first interval that holds an address.
    fn hit(&self, address: u64) -> Option<Route> {
        for index in 0..EXTOLL_SMFU_INTERVALS as u32 {
            let control = self.get(smfu_control(index));
            if !VALID.is_set(control) {
                continue;
            }
            fence(Acquire);
            let (start, end) = (self.get(smfu_start(index)), self.get(smfu_end(index)));
            if let Some(target) = (Interval { control, start, end }).target(address) {
                let (window, seat) = match self.label(index as usize) {
                    Some(label) => (label.window, label.seat),
                    None => (0, self.seat(index, target.node)),
                };
                let interval = Some(index);
                return Some(Route { node: target.node, seat, window, offset: target.offset, interval });
            }
        }
        None
    }

    fn masked(&self, address: u64) -> Route {
        let window = self.get(EXTOLL_RF_SMFU_O_START_ADDR);
        let mask = self.get(EXTOLL_RF_SMFU_ADDR_MASK);
        let node_offset = self.get(EXTOLL_RF_SMFU_N_NODE_OFFSET) as u16;
        let target = masked_target(window, mask, node_offset, address);
        let window = self.label(SMFU_MASK_PLACE).map_or(0, |label| label.window);
        Route { node: target.node, seat: 0, window, offset: target.offset, interval: None }
    }

    /// Intervals before this one that lead to `node`. The one for registers is none of them: those are the node's.
    fn seat(&self, index: u32, node: u16) -> u8 {
        let first = EXTOLL_SMFU_RRA_INTERVAL as u32 + 1;
        let leads = |control: u64| VALID.is_set(control) && NODE.get(control) == u64::from(node);
        (first..index).filter(|before| leads(self.get(smfu_control(*before)))).count() as u8
    }

    /// Memory base for accesses that hit interval `interval` at their origin.
    pub fn base(&self, interval: Option<u32>) -> u64 {
        let own = interval.map_or(0, |interval| self.get(smfu_target_base(interval)));
        if own != 0 { own } else { self.get(EXTOLL_RF_SMFU_T_START_ADDR) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const PAGE: u64 = 4096;

    fn show(registers: &Registers, place: u32, window: u64, interval: Interval) {
        registers.set_label(place as usize, Some(Label { window, seat: 3 }));
        registers.write(smfu_start(place), interval.start);
        registers.write(smfu_end(place), interval.end);
        registers.write(smfu_control(place), interval.control);
    }

    fn clear(registers: &Registers, place: u32) {
        registers.write(smfu_control(place), 0);
        registers.set_label(place as usize, None);
    }

    /// An interval goes from below to above what another window has, and back: nothing of that other one ever goes there.
    #[test]
    fn intervals_that_change_catch_nothing_of_others() {
        let registers = Registers::default();
        show(&registers, 2, 9, Interval::new(1, 16 * PAGE, 4 * PAGE));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    for (window, page) in [(5, 2), (6, 32)] {
                        show(&registers, 1, window, Interval::new(7, page * PAGE, 4 * PAGE));
                        clear(&registers, 1);
                        // Time for the other one to read all of it.
                        (0..100).for_each(|_| std::hint::spin_loop());
                    }
                }
            });
            let own = Route { node: 1, seat: 3, window: 9, offset: PAGE + 5, interval: Some(2) };
            let routes = (0..2_000_000).map(|_| registers.route(17 * PAGE + 5)).find(|route| *route != own);
            over.store(true, Relaxed);
            assert_eq!(routes, None);
        });
    }
}
