//! Error and performance counters of the RMA unit (spec 8.3).

use extoll_abi::regs::{self, ErrorCounter};

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
const PERF_REGISTERS: usize = ((PERF_LAST - PERF_FIRST) / 8 + 1) as usize;

/// A 32-bit performance counter: one half of a register.
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
}

/// All counters.
#[derive(Clone, Debug)]
pub struct Counters {
    errors: [u64; ERROR_REGISTERS.len()],
    perf: [u64; PERF_REGISTERS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters { errors: [0; ERROR_REGISTERS.len()], perf: [0; PERF_REGISTERS] }
    }
}

impl Counters {
    /// Counts one error.
    #[cold]
    pub fn error(&mut self, counter: ErrorCounter) {
        if let Some(i) = ERROR_REGISTERS.iter().position(|r| *r == counter.register) {
            self.errors[i] = counter.incremented(self.errors[i]);
        }
    }

    /// Adds to a performance counter; it wraps.
    #[inline]
    pub fn add(&mut self, counter: PerfCounter, count: u32) {
        let register = &mut self.perf[((counter.register - PERF_FIRST) / 8) as usize];
        let (high, low) = ((*register >> 32) as u32, *register as u32);
        let (high, low) =
            if counter.high { (high.wrapping_add(count), low) } else { (high, low.wrapping_add(count)) };
        *register = u64::from(high) << 32 | u64::from(low);
    }

    /// Reads a counter register.
    pub fn read(&self, offset: u64) -> Option<u64> {
        if let Some(i) = ERROR_REGISTERS.iter().position(|r| *r == offset) {
            return Some(self.errors[i]);
        }
        (PERF_FIRST..=PERF_LAST).contains(&offset).then(|| self.perf[((offset - PERF_FIRST) / 8) as usize])
    }

    /// Writes a register that acts on counters; false where `offset` is none. Error controls clear the counters
    /// of their unit (bit 2); any write to the performance control clears all of those \[inferred\].
    pub fn write(&mut self, offset: u64, value: u64) -> bool {
        let registers = match offset {
            regs::EXTOLL_RF_RMA_REQ_ERROR_CONTROL => 0..2,
            regs::EXTOLL_RF_RMA_RESP_ERROR_CONTROL => 2..5,
            regs::EXTOLL_RF_RMA_COMPL_ERROR_CONTROL => 5..9,
            regs::EXTOLL_RF_RMA_PERF_CONTROL => {
                self.perf = [0; PERF_REGISTERS];
                return true;
            }
            _ => return false,
        };
        if regs::ERROR_CLEAR_COUNTS.is_set(value) {
            self.errors[registers].fill(0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_counters_count_to_their_overflow_bit() {
        let mut counters = Counters::default();
        for counter in regs::ERROR_COUNTERS {
            counters.error(*counter);
        }
        for counter in regs::ERROR_COUNTERS {
            assert_eq!(counter.count(counters.read(counter.register).unwrap()), 1, "{}", counter.name);
        }
        (0..0x8000).for_each(|_| counters.error(regs::COMPL_TRANS));
        let value = counters.read(regs::COMPL_TRANS.register).unwrap();
        assert!(regs::COMPL_TRANS.overflowed(value));
        assert_eq!(regs::COMPL_VPID.count(value), 1, "the neighbour is untouched");
        assert!(counters.write(regs::EXTOLL_RF_RMA_COMPL_ERROR_CONTROL, 4));
        assert_eq!(counters.read(regs::COMPL_TRANS.register), Some(0));
        assert_ne!(counters.read(regs::REQ_TRANS.register), Some(0), "another unit's stay");
    }

    #[test]
    fn halves_of_a_performance_register_are_apart() {
        let mut counters = Counters::default();
        counters.add(REQ_QW_PUT, u32::MAX);
        counters.add(REQ_QW_PUT, 2);
        counters.add(REQ_BT_PUT, 7);
        assert_eq!(counters.read(REQ_BT_PUT.register), Some(7 << 32 | 1));
        counters.write(regs::EXTOLL_RF_RMA_PERF_CONTROL, 0);
        assert_eq!(counters.read(REQ_BT_PUT.register), Some(0));
    }
}
