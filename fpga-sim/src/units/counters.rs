//! Counters of errors and of work done (spec 4.2, 8.3).
//!
//! A `CounterBlock` counts without end. What a register shows follows from the blocks of its node: their sum, less
//! the sum at the last clear, in the register's width. So each process of a node counts in a block that nobody else
//! writes, and clearing a node's counters takes no word with the processes that count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use extoll_abi::regs::{self, ErrorCounter};

use ggas_members::memory::Part;

/// Registers of error counters, four counters each.
const ERROR_REGISTERS: [u64; 9] = [
    regs::EXTOLL_RF_RMA_REQ_ERRORS,
    regs::EXTOLL_RF_RMA_REQ_ERRORS_2,
    regs::EXTOLL_RF_RMA_RESP_ERRORS,
    regs::EXTOLL_RF_RMA_RESP_ERRORS_2,
    regs::EXTOLL_RF_RMA_RESP_ERRORS_3,
    regs::EXTOLL_RF_RMA_COMPL_ERRORS,
    regs::EXTOLL_RF_RMA_COMPL_ERRORS_2,
    regs::EXTOLL_RF_RMA_COMPL_ERRORS_3,
    regs::EXTOLL_RF_RMA_COMPL_ERRORS_4,
];

/// First and last performance register.
const PERF_FIRST: u64 = regs::EXTOLL_RF_RMA_PERF_REQ_PUTS;
const PERF_LAST: u64 = regs::EXTOLL_RF_RMA_PERF_COMPL_LAST;
/// First and last counter of the ATU (spec 4.2).
const ATU_FIRST: u64 = 0xc010;
const ATU_LAST: u64 = 0xc028;

/// Messages of VELO, and what it threw away (spec 7).
const VELO_FIRST: u64 = regs::EXTOLL_RF_VELO_COUNT;
const VELO_LAST: u64 = regs::EXTOLL_RF_VELO_DROPS;

/// Where a block counts errors, performance, the ATU's work, errors of RMA's WCBs, VELO, and errors of its WCBs.
const ERRORS: usize = 0;
const PERF: usize = ERRORS + 4 * ERROR_REGISTERS.len();
const ATU: usize = PERF + 2 * registers(PERF_FIRST, PERF_LAST);
const WCB: usize = ATU + 2 * registers(ATU_FIRST, ATU_LAST);
const VELO: usize = WCB + 3;
const VELO_WCB: usize = VELO + 2 * registers(VELO_FIRST, VELO_LAST);
const COUNTS: usize = VELO_WCB + 3;

const fn registers(first: u64, last: u64) -> usize {
    ((last - first) / 8 + 1) as usize
}

/// A 32-bit counter: one half of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfCounter {
    /// Offset of the register.
    pub register: u64,
    /// In \[63:32\], else in \[31:0\].
    pub high: bool,
}

macro_rules! perf {
    ($($(#[$meta:meta])* $name:ident = $base:ident + $offset:literal, $high:literal;)*) => {
        $(
            $(#[$meta])*
            pub const $name: PerfCounter =
                PerfCounter { register: regs::$base + $offset, high: $high };
        )*
    };
}

// Which register of the responder's and completer's blocks counts what, and the use of the output registers, is
// [inferred]: the specification gives only the ranges.
perf! {
    /// Requester: byte puts.
    REQ_BT_PUT = EXTOLL_RF_RMA_PERF_REQ_PUTS + 0, true;
    /// Requester: quadword puts.
    REQ_QW_PUT = EXTOLL_RF_RMA_PERF_REQ_PUTS + 0, false;
    /// Requester: notification puts.
    REQ_NOTI_PUT = EXTOLL_RF_RMA_PERF_REQ_NOTI_IMM + 0, true;
    /// Requester: immediate puts.
    REQ_IMM_PUT = EXTOLL_RF_RMA_PERF_REQ_NOTI_IMM + 0, false;
    /// Requester: byte gets.
    REQ_BT_GET = EXTOLL_RF_RMA_PERF_REQ_GETS + 0, true;
    /// Requester: quadword gets.
    REQ_QW_GET = EXTOLL_RF_RMA_PERF_REQ_GETS + 0, false;
    /// Requester: locks.
    REQ_LOCK = EXTOLL_RF_RMA_PERF_REQ_LOCKS + 0, true;
    /// Requester: network fragments sent.
    REQ_FRAGMENTS = EXTOLL_RF_RMA_PERF_REQ_OUTPUT + 0, true;
    /// Requester: units of 8 payload bytes sent, each command rounded up.
    REQ_QUADWORDS = EXTOLL_RF_RMA_PERF_REQ_OUTPUT + 0, false;
    /// Requester: interrupts raised.
    REQ_INTERRUPTS = EXTOLL_RF_RMA_PERF_REQ_NOTI + 0, true;
    /// Requester: notifications written.
    REQ_NOTIFICATIONS = EXTOLL_RF_RMA_PERF_REQ_NOTI + 0, false;
    /// Responder: byte gets served.
    RESP_BT_GET = EXTOLL_RF_RMA_PERF_RESP + 0, true;
    /// Responder: quadword gets served.
    RESP_QW_GET = EXTOLL_RF_RMA_PERF_RESP + 0, false;
    /// Responder: locks served.
    RESP_LOCK = EXTOLL_RF_RMA_PERF_RESP + 8, true;
    /// Responder: network fragments sent.
    RESP_FRAGMENTS = EXTOLL_RF_RMA_PERF_RESP + 16, true;
    /// Responder: units of 8 payload bytes sent, each command rounded up.
    RESP_QUADWORDS = EXTOLL_RF_RMA_PERF_RESP + 16, false;
    /// Responder: interrupts raised.
    RESP_INTERRUPTS = EXTOLL_RF_RMA_PERF_RESP_LAST + 0, true;
    /// Responder: notifications written.
    RESP_NOTIFICATIONS = EXTOLL_RF_RMA_PERF_RESP_LAST + 0, false;
    /// Completer: network fragments of byte puts.
    COMPL_BT_PUT = EXTOLL_RF_RMA_PERF_COMPL + 0, true;
    /// Completer: network fragments of quadword puts.
    COMPL_QW_PUT = EXTOLL_RF_RMA_PERF_COMPL + 0, false;
    /// Completer: notification puts.
    COMPL_NOTI_PUT = EXTOLL_RF_RMA_PERF_COMPL + 8, true;
    /// Completer: immediate puts.
    COMPL_IMM_PUT = EXTOLL_RF_RMA_PERF_COMPL + 8, false;
    /// Completer: network fragments of byte get responses.
    COMPL_BT_GET = EXTOLL_RF_RMA_PERF_COMPL + 16, true;
    /// Completer: network fragments of quadword get responses.
    COMPL_QW_GET = EXTOLL_RF_RMA_PERF_COMPL + 16, false;
    /// Completer: lock responses.
    COMPL_LOCK = EXTOLL_RF_RMA_PERF_COMPL + 24, true;
    /// Completer: interrupts raised.
    COMPL_INTERRUPTS = EXTOLL_RF_RMA_PERF_COMPL_LAST + 0, true;
    /// Completer: notifications written.
    COMPL_NOTIFICATIONS = EXTOLL_RF_RMA_PERF_COMPL_LAST + 0, false;
    /// ATU (spec 4.2): pages translated.
    ATU_TRANSLATIONS = EXTOLL_RF_ATU_ENABLE + 0x10, true;
    /// ATU: table entries read from memory.
    ATU_MEMORY_READS = EXTOLL_RF_ATU_ENABLE + 0x10, false;
    /// ATU: entries preloaded.
    ATU_PRELOADS = EXTOLL_RF_ATU_ENABLE + 0x18, true;
    /// ATU: flushes of pages.
    ATU_FLUSHES = EXTOLL_RF_ATU_ENABLE + 0x20, true;
    /// ATU: flushes of a whole VPID.
    ATU_FLUSHES_ALL = EXTOLL_RF_ATU_ENABLE + 0x20, false;
    /// ATU: notify commands.
    ATU_NOTIFICATIONS = EXTOLL_RF_ATU_ENABLE + 0x28, true;
    /// ATU: fences.
    ATU_FENCES = EXTOLL_RF_ATU_ENABLE + 0x28, false;
    /// VELO: messages sent, one for each receiver of a multicast.
    VELO_SENT = EXTOLL_RF_VELO_COUNT + 0, true;
    /// VELO: messages written to mailboxes.
    VELO_RECEIVED = EXTOLL_RF_VELO_COUNT + 0, false;
    /// VELO: messages of and to VPIDs without a mailbox, and to groups without members.
    VELO_DISABLED = EXTOLL_RF_VELO_DROPS + 0, true;
    /// VELO: messages with another protection id than the mailbox's.
    VELO_WRONG = EXTOLL_RF_VELO_DROPS + 0, false;
}

/// What one writer counted. Part of a job segment: a change of its layout is a new version of that.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CounterBlock([AtomicU64; COUNTS]);

impl Default for CounterBlock {
    fn default() -> Self {
        CounterBlock(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl CounterBlock {
    /// Counts an error of a WCB, from any thread.
    #[cold]
    pub fn wcb_error(&self, error: WcbError) {
        self.0[WCB + error as usize].fetch_add(1, Relaxed);
    }

    /// The same for VELO's.
    #[cold]
    pub fn velo_wcb_error(&self, error: WcbError) {
        self.0[VELO_WCB + error as usize].fetch_add(1, Relaxed);
    }

    /// Adds another block's counts, and empties that.
    pub fn take_from(&self, other: &CounterBlock) {
        for (count, other) in self.0.iter().zip(&other.0) {
            let more = other.load(Relaxed);
            if more != 0 {
                count.fetch_add(more, Relaxed);
                other.store(0, Relaxed);
            }
        }
    }
}

/// What a WCB takes for an error (RMA: registers 0x1500008 and 0x1500010).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcbError {
    /// A line stayed partial until the timeout, or until words for another page came.
    Length,
    /// A store behind the last word of a line; in VELO also a header that means nothing.
    TooLong,
    /// A store at an address that is no multiple of 8.
    Unaligned,
}

/// The units' hand on the block of their process. One at a time counts: there is no atomic step in it.
#[derive(Debug, Default)]
pub struct Counters {
    block: Part<CounterBlock>,
    /// An error was counted by this hand since somebody asked.
    failed: AtomicBool,
}

/// Another hand on the same block.
impl Clone for Counters {
    fn clone(&self) -> Counters {
        Counters::new(self.block.clone())
    }
}

impl Counters {
    /// Counts in `block`, whose other writers, if any, touch other counts.
    pub(crate) fn new(block: Part<CounterBlock>) -> Counters {
        Counters { block, failed: AtomicBool::new(false) }
    }

    #[cfg(test)]
    fn block(&self) -> &CounterBlock {
        &self.block
    }

    #[inline]
    fn bump(&self, index: usize, by: u64) {
        let count = &self.block.0[index];
        count.store(count.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Counts one error.
    #[cold]
    pub fn error(&self, counter: ErrorCounter) {
        self.failed.store(true, Relaxed);
        if let Some(i) = ERROR_REGISTERS.iter().position(|r| *r == counter.register) {
            self.bump(ERRORS + 4 * i + (counter.shift as usize / 16) % 4, 1);
        }
    }

    /// Whether an error was counted since the last [`Counters::take_failed`].
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// The same, and forgets it.
    #[inline]
    pub(crate) fn take_failed(&self) -> bool {
        self.has_failed() && self.failed.swap(false, Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn get(&self, counter: PerfCounter) -> u64 {
        self.block.0[counter.index()].load(Relaxed)
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: PerfCounter, count: u32) {
        self.bump(counter.index(), u64::from(count));
    }
}

impl PerfCounter {
    /// Its place in a block.
    #[inline]
    const fn index(self) -> usize {
        let low = match self.register {
            ATU_FIRST..=ATU_LAST => ATU + 2 * ((self.register - ATU_FIRST) / 8) as usize,
            VELO_FIRST..=VELO_LAST => VELO + 2 * ((self.register - VELO_FIRST) / 8) as usize,
            _ => PERF + 2 * ((self.register - PERF_FIRST) / 8) as usize,
        };
        low + self.high as usize
    }
}

/// Counters of a node: the blocks of those who count there.
pub(crate) struct NodeCounters<'a, B> {
    /// Counts at the last clear.
    pub cleared: &'a CounterBlock,
    /// The blocks.
    pub blocks: B,
}

impl<'a, B: Iterator<Item = &'a CounterBlock> + Clone> NodeCounters<'a, B> {
    fn sum(&self, index: usize) -> u64 {
        self.blocks.clone().fold(0, |sum: u64, block| sum.wrapping_add(block.0[index].load(Relaxed)))
    }

    /// Counts since the last clear. The clear is looked at first: counts only grow, so the sum is not below it.
    fn since_clear(&self, index: usize) -> u64 {
        let cleared = self.cleared.0[index].load(Acquire);
        self.sum(index).saturating_sub(cleared)
    }

    fn clear(&self, counts: std::ops::Range<usize>) {
        for index in counts {
            // The largest of several clears at a time: an older sum would bring counts back.
            self.cleared.0[index].fetch_max(self.sum(index), AcqRel);
        }
    }

    /// Reads a counter register; `None` for other offsets.
    pub fn read(&self, offset: u64) -> Option<u64> {
        let halves = |low: usize| self.since_clear(low + 1) << 32 | self.since_clear(low) & 0xffff_ffff;
        let index = |first: u64| 2 * ((offset - first) / 8) as usize;
        let wcb =
            |at: usize| (0..3).fold(0, |word, i| word | self.since_clear(at + i).min(0xffff) << (16 * i));
        Some(match offset {
            PERF_FIRST..=PERF_LAST => halves(PERF + index(PERF_FIRST)),
            ATU_FIRST..=ATU_LAST => halves(ATU + index(ATU_FIRST)),
            VELO_FIRST..=VELO_LAST => halves(VELO + index(VELO_FIRST)),
            regs::EXTOLL_RF_RMA_WCB_ERRORS => wcb(WCB),
            regs::EXTOLL_RF_VELO_WCB_ERRORS => wcb(VELO_WCB),
            _ => {
                let i = ERROR_REGISTERS.iter().position(|r| *r == offset)?;
                (0..4).fold(0, |word, part| word | error_field(self.since_clear(4 * i + part)) << (16 * part))
            }
        })
    }

    /// Writes a register that acts on counters; false where `offset` is none. Error controls clear the counters
    /// of their unit (bit 2); any write to the performance control clears all of those, and one to a counter of VELO
    /// clears that register \[inferred\].
    pub fn write(&self, offset: u64, value: u64) -> bool {
        let registers = match offset {
            regs::EXTOLL_RF_RMA_REQ_ERROR_CONTROL => 0..2,
            regs::EXTOLL_RF_RMA_RESP_ERROR_CONTROL => 2..5,
            regs::EXTOLL_RF_RMA_COMPL_ERROR_CONTROL => 5..9,
            regs::EXTOLL_RF_RMA_PERF_CONTROL => {
                self.clear(PERF..ATU);
                return true;
            }
            VELO_FIRST..=VELO_LAST => {
                let first = VELO + 2 * ((offset - VELO_FIRST) / 8) as usize;
                self.clear(first..first + 2);
                return true;
            }
            _ => return false,
        };
        if regs::ERROR_CLEAR_COUNTS.is_set(value) {
            self.clear(ERRORS + 4 * registers.start..ERRORS + 4 * registers.end);
        }
        true
    }
}

/// 15 bits that begin at 0 again, and the overflow bit that stays (spec 8.3; see [`ErrorCounter::incremented`]).
fn error_field(count: u64) -> u64 {
    count & 0x7fff | u64::from(count > 0x7fff) << 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node<'a>(
        cleared: &'a CounterBlock,
        counters: &'a [Counters],
    ) -> NodeCounters<'a, impl Iterator<Item = &'a CounterBlock> + Clone> {
        NodeCounters { cleared, blocks: counters.iter().map(Counters::block) }
    }

    #[test]
    fn error_counters_count_to_their_overflow_bit_whoever_counts() {
        let (cleared, counters) = (CounterBlock::default(), [Counters::default(), Counters::default()]);
        for counter in regs::ERROR_COUNTERS {
            counters[0].error(*counter);
        }
        let read = |counters: &[Counters], counter: ErrorCounter| {
            node(&cleared, counters).read(counter.register).unwrap()
        };
        for counter in regs::ERROR_COUNTERS {
            assert_eq!(counter.count(read(&counters, *counter)), 1, "{}", counter.name);
        }
        let mut expected = read(&counters, regs::COMPL_TRANS);
        for i in 0..0x18005u32 {
            counters[i as usize % 2].error(regs::COMPL_TRANS);
            expected = regs::COMPL_TRANS.incremented(expected);
        }
        assert_eq!(read(&counters, regs::COMPL_TRANS), expected);
        assert!(regs::COMPL_TRANS.overflowed(expected));
        assert_eq!(regs::COMPL_VPID.count(expected), 1, "the neighbour is untouched");
        assert!(node(&cleared, &counters).write(regs::EXTOLL_RF_RMA_COMPL_ERROR_CONTROL, 4));
        assert_eq!(read(&counters, regs::COMPL_TRANS), 0);
        assert_ne!(read(&counters, regs::REQ_TRANS), 0, "another unit's stay");
        counters[1].error(regs::COMPL_TRANS);
        assert_eq!(regs::COMPL_TRANS.count(read(&counters, regs::COMPL_TRANS)), 1, "counts go on from 0");
    }

    #[test]
    fn halves_of_a_performance_register_are_apart() {
        let (cleared, counters) = (CounterBlock::default(), [Counters::default(), Counters::default()]);
        counters[0].add(REQ_QW_PUT, u32::MAX);
        counters[1].add(REQ_QW_PUT, 2);
        counters[1].add(REQ_BT_PUT, 7);
        counters[0].add(ATU_FLUSHES, 3);
        let read = |offset| node(&cleared, &counters).read(offset);
        assert_eq!(read(REQ_BT_PUT.register), Some(7 << 32 | 1));
        assert_eq!(read(ATU_FLUSHES.register), Some(3 << 32));
        node(&cleared, &counters).write(regs::EXTOLL_RF_RMA_PERF_CONTROL, 0);
        assert_eq!(read(REQ_BT_PUT.register), Some(0));
        assert_eq!(read(ATU_FLUSHES.register), Some(3 << 32), "not a performance counter of the RMA unit");
        assert_eq!(read(ATU_LAST + 8), None);
    }
}
