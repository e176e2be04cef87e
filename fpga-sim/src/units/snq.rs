//! System notification queue: triggers start microcode that reads registers and writes entries to memory, with an
//! interrupt (spec 8.4).
//!
//! The specification has the registers, the format of entries and of microcode. Inferred are:
//!
//! * Writing the queue's base starts it anew: no entries, first lap. It holds `mask + 1` entries; a full one keeps
//!   triggers waiting.
//! * Triggers are latched, run one after the other from the lowest number on, and only while `execute` and their
//!   enable bit are set. `once_enable` is taken by the run that it allows.
//! * The watermark counts entries since the base was written, modulo 2^16. Once as many are there, the interrupt is
//!   raised and the watermark's enable bit cleared: who writes the number of the next entry, with the bit, never
//!   misses one.
//! * WCB error is raised with each error that a WCB counts, RMA error with each that one of RMA's units counts
//!   (whatever bit 24 of its error control says: the specification has its name, `trigger`, only), SMFU timeout
//!   whenever the error bit of the SMFU's timeout control is set.
//! * An instruction's `registers` field is their number less one. A program ends after 256 steps.

use extoll_abi::regs::*;

/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 64;
/// Instructions of the program.
const PROGRAM: usize = 256;
/// Next instruction of the last one.
const END: u8 = 0xff;
/// Bit of the watermark that allows the interrupt.
const WATERMARK_ENABLE: u64 = 1 << 16;
const TIME_MASK: u64 = (1 << 40) - 1;

/// What may start a program: number of its bit and of its first instruction (spec 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trigger {
    /// The timer's period is over.
    Timer = 7,
    /// A load from the window got no answer within the time that the card gives it.
    SmfuTimeout = 12,
    /// A global interrupt.
    Global = 16,
    /// A notification queue or mailbox dropped entries.
    BqError = 21,
    /// A write-combining buffer, RMA's or VELO's, took stores for malformed.
    WcbError = 22,
    /// A VELO message with the interrupt bit.
    VeloNotification = 23,
    /// An RMA notification with the interrupt bit.
    RmaNotification = 25,
    /// A unit of RMA counted an error.
    RmaError = 27,
    /// The network's state changed.
    NetworkState = 28,
}

impl Trigger {
    /// Its bit in the trigger registers.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// An instruction of the program.
#[derive(Clone, Copy)]
struct Instruction(u64);

impl Instruction {
    fn reads(self) -> bool {
        self.0 & 0xf == 3
    }

    fn next(self) -> u8 {
        (self.0 >> 4) as u8
    }

    fn first_slot(self) -> usize {
        (self.0 >> 16 & 7) as usize
    }

    fn registers(self) -> usize {
        (self.0 >> 19 & 7) as usize + 1
    }

    fn address(self) -> u64 {
        (self.0 >> 22 & 0x3f_ffff) * 8
    }

    fn emits(self) -> bool {
        self.0 >> 48 & 1 != 0
    }
}

/// An entry to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bus address.
    pub address: u64,
    /// Payload, then the header, which must become visible last.
    pub word: [u64; 8],
}

/// The unit.
pub struct Snq {
    enable: u32,
    once_enable: u32,
    once: u64,
    base: u64,
    mask: u64,
    watermark: u64,
    irq: [u64; 3],
    execute: bool,
    htax: u64,
    program: Box<[u64; PROGRAM]>,
    pending: u32,
    /// Entries since the base was written.
    written: u64,
    /// Entry that software reads next.
    rp: u64,
}

impl Default for Snq {
    fn default() -> Snq {
        Snq {
            enable: 0,
            once_enable: 0,
            once: 0,
            base: 0,
            mask: 0,
            watermark: 0,
            irq: [0; 3],
            execute: false,
            htax: 0,
            program: Box::new([0; PROGRAM]),
            pending: 0,
            written: 0,
            rp: 0,
        }
    }
}

impl Snq {
    /// Whether microcode may run at all.
    #[inline]
    pub fn executes(&self) -> bool {
        self.execute
    }

    /// Latches triggers, see [`Trigger::bit`].
    pub fn latch(&mut self, triggers: u32) {
        self.pending |= triggers;
    }

    /// Triggers that are latched and have not run.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether [`Snq::run`] would do anything.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.pending != 0 && self.execute && self.pending & self.allowed() != 0 && self.has_room()
    }

    fn allowed(&self) -> u32 {
        self.enable | self.once_enable
    }

    fn has_room(&self) -> bool {
        let used = self.written.wrapping_sub(self.rp) & self.mask;
        // One entry stays free: a full queue and an empty one have the same pointers.
        self.base != 0 && used < self.mask
    }

    /// Runs the program of the next trigger. `read` reads a register, `write` writes an entry.
    pub fn run(&mut self, time: u64, mut read: impl FnMut(u64) -> u64, mut write: impl FnMut(Entry)) {
        let runnable = self.pending & self.allowed();
        if runnable == 0 {
            return;
        }
        let trigger = runnable.trailing_zeros() as u8;
        self.pending &= !(1 << trigger);
        self.once_enable &= !(1 << trigger);
        let (mut payload, mut pc) = ([0u64; 7], trigger);
        for _ in 0..PROGRAM {
            let instruction = Instruction(self.program[usize::from(pc)]);
            if instruction.reads() {
                for i in 0..instruction.registers() {
                    let value = read(instruction.address() + 8 * i as u64);
                    if let Some(slot) = payload.get_mut(instruction.first_slot() + i) {
                        *slot = value;
                    }
                }
            }
            if instruction.emits() && self.has_room() {
                write(self.entry(&payload, time, trigger, pc));
                self.written += 1;
            }
            pc = instruction.next();
            if pc == END {
                return;
            }
        }
    }

    fn entry(&self, payload: &[u64; 7], time: u64, trigger: u8, pc: u8) -> Entry {
        let lap = self.written / (self.mask + 1);
        let flip = (lap + 1) & 1;
        let mut word = [0; 8];
        word[..7].copy_from_slice(payload);
        word[7] = time & TIME_MASK | u64::from(trigger) << 40 | u64::from(pc) << 48 | flip << 63;
        Entry { address: self.base + (self.written & self.mask) * ENTRY_BYTES, word }
    }

    /// Whether an interrupt is due; asking takes it.
    pub fn take_interrupt(&mut self) -> bool {
        let ahead = (self.written as u16).wrapping_sub(self.watermark as u16) as i16;
        let due = self.watermark & WATERMARK_ENABLE != 0 && self.base != 0 && ahead >= 0;
        if due {
            self.watermark &= !WATERMARK_ENABLE;
        }
        due
    }

    /// Reads a register; `None` for offsets of other units.
    pub fn reg_read(&self, offset: u64) -> Option<u64> {
        Some(match offset {
            EXTOLL_RF_SNQ_TRIGGER_ENABLE => self.enable.into(),
            EXTOLL_RF_SNQ_TRIGGER_NOW => self.pending.into(),
            EXTOLL_RF_SNQ_TRIGGER_ONCE_ENABLE => self.once_enable.into(),
            EXTOLL_RF_SNQ_TRIGGER_ONCE => self.once,
            EXTOLL_RF_SNQ_BASE => self.base >> 10,
            EXTOLL_RF_SNQ_MASK => self.mask,
            EXTOLL_RF_SNQ_WP => self.written & self.mask,
            EXTOLL_RF_SNQ_RP => self.rp,
            EXTOLL_RF_SNQ_WATERMARK => self.watermark,
            EXTOLL_RF_SNQ_IRQ..EXTOLL_RF_SNQ_IRQ_END => self.irq[irq(offset)],
            EXTOLL_RF_SNQ_EXECUTE => self.execute.into(),
            EXTOLL_RF_SNQ_HTAX => self.htax,
            EXTOLL_RF_SNQ_PROGRAM..EXTOLL_RF_SNQ_PROGRAM_END => self.program[instruction(offset)],
            _ => return None,
        })
    }

    /// Writes a register; false for offsets of other units.
    pub fn reg_write(&mut self, offset: u64, value: u64) -> bool {
        match offset {
            EXTOLL_RF_SNQ_TRIGGER_ENABLE => self.enable = value as u32,
            EXTOLL_RF_SNQ_TRIGGER_NOW => self.pending |= value as u32,
            EXTOLL_RF_SNQ_TRIGGER_ONCE_ENABLE => self.once_enable = value as u32,
            EXTOLL_RF_SNQ_TRIGGER_ONCE => self.once = value,
            EXTOLL_RF_SNQ_BASE => {
                self.base = value << 10;
                (self.written, self.rp) = (0, 0);
            }
            EXTOLL_RF_SNQ_MASK => self.mask = value & 0xffff,
            EXTOLL_RF_SNQ_WP => {} // read only
            EXTOLL_RF_SNQ_RP => self.rp = value & self.mask,
            EXTOLL_RF_SNQ_WATERMARK => self.watermark = value & (WATERMARK_ENABLE | 0xffff),
            EXTOLL_RF_SNQ_IRQ..EXTOLL_RF_SNQ_IRQ_END => self.irq[irq(offset)] = value,
            EXTOLL_RF_SNQ_EXECUTE => self.execute = value & 1 != 0,
            EXTOLL_RF_SNQ_HTAX => self.htax = value,
            EXTOLL_RF_SNQ_PROGRAM..EXTOLL_RF_SNQ_PROGRAM_END => self.program[instruction(offset)] = value,
            _ => return false,
        }
        true
    }
}

const EXTOLL_RF_SNQ_IRQ_END: u64 = EXTOLL_RF_SNQ_IRQ + 3 * EXTOLL_RF_SNQ_IRQ_STRIDE;
const EXTOLL_RF_SNQ_PROGRAM_END: u64 = EXTOLL_RF_SNQ_PROGRAM + PROGRAM as u64 * EXTOLL_RF_SNQ_PROGRAM_STRIDE;

fn irq(offset: u64) -> usize {
    ((offset - EXTOLL_RF_SNQ_IRQ) / EXTOLL_RF_SNQ_IRQ_STRIDE) as usize
}

fn instruction(offset: u64) -> usize {
    ((offset - EXTOLL_RF_SNQ_PROGRAM) / EXTOLL_RF_SNQ_PROGRAM_STRIDE) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 3;
    const NONE: u64 = 4;
    const EMIT: u64 = 1 << 48;

    fn word(op: u64, next: u64, slot: u64, registers: u64, address: u64) -> u64 {
        op | next << 4 | slot << 16 | (registers - 1) << 19 | (address / 8) << 22
    }

    /// A queue of four entries at 0x4000; trigger 25 reads two registers and emits them.
    fn snq() -> Snq {
        let mut snq = Snq::default();
        for (offset, value) in [
            (EXTOLL_RF_SNQ_MASK, 3),
            (EXTOLL_RF_SNQ_BASE, 0x4000 >> 10),
            (EXTOLL_RF_SNQ_PROGRAM + 8 * 25, word(READ, 40, 5, 2, 0x100)),
            (EXTOLL_RF_SNQ_PROGRAM + 8 * 40, word(NONE, 0xff, 0, 1, 0) | EMIT | 2 << 49),
            (EXTOLL_RF_SNQ_TRIGGER_ENABLE, 1 << 25),
            (EXTOLL_RF_SNQ_EXECUTE, 1),
        ] {
            assert!(snq.reg_write(offset, value));
        }
        snq
    }

    fn run(snq: &mut Snq) -> Vec<Entry> {
        let mut entries = Vec::new();
        while snq.is_ready() {
            snq.run(7, |offset| offset + 1, |entry| entries.push(entry));
        }
        entries
    }

    #[test]
    fn a_trigger_runs_its_program() {
        let mut snq = snq();
        assert!(run(&mut snq).is_empty());
        snq.latch(Trigger::RmaNotification.bit());
        let header = 7 | 25 << 40 | 40 << 48 | 1 << 63;
        let expected = Entry { address: 0x4000, word: [0, 0, 0, 0, 0, 0x101, 0x109, header] };
        assert_eq!(run(&mut snq), [expected]);
        assert_eq!(snq.reg_read(EXTOLL_RF_SNQ_WP), Some(1));
        assert!(run(&mut snq).is_empty(), "the trigger was taken");
    }

    #[test]
    fn the_flip_bit_changes_with_every_lap() {
        let mut snq = snq();
        let mut flips = Vec::new();
        for i in 0..9u64 {
            snq.latch(Trigger::RmaNotification.bit());
            let entries = run(&mut snq);
            assert_eq!(entries[0].address, 0x4000 + 64 * (i % 4));
            flips.push(entries[0].word[7] >> 63);
            snq.reg_write(EXTOLL_RF_SNQ_RP, (i + 1) % 4);
        }
        assert_eq!(flips, [1, 1, 1, 1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_full_queue_keeps_the_trigger() {
        let mut snq = snq();
        for i in 0..4 {
            snq.latch(Trigger::RmaNotification.bit());
            assert_eq!(run(&mut snq).len(), usize::from(i < 3));
        }
        snq.reg_write(EXTOLL_RF_SNQ_RP, 1);
        assert_eq!(run(&mut snq).len(), 1);
    }

    #[test]
    fn disabled_triggers_wait_and_once_is_once() {
        let mut snq = snq();
        snq.reg_write(EXTOLL_RF_SNQ_TRIGGER_ENABLE, 0);
        snq.reg_write(EXTOLL_RF_SNQ_TRIGGER_NOW, 1 << 25);
        assert!(run(&mut snq).is_empty());
        snq.reg_write(EXTOLL_RF_SNQ_TRIGGER_ONCE_ENABLE, 1 << 25);
        assert_eq!(run(&mut snq).len(), 1);
        snq.reg_write(EXTOLL_RF_SNQ_TRIGGER_NOW, 1 << 25);
        assert!(run(&mut snq).is_empty());
        snq.reg_write(EXTOLL_RF_SNQ_TRIGGER_ENABLE, 1 << 25);
        assert_eq!(run(&mut snq).len(), 1);
    }

    #[test]
    fn the_watermark_interrupts_once_and_misses_nothing() {
        let mut snq = snq();
        snq.reg_write(EXTOLL_RF_SNQ_WATERMARK, WATERMARK_ENABLE | 1);
        assert!(!snq.take_interrupt());
        for _ in 0..2 {
            snq.latch(Trigger::RmaNotification.bit());
            run(&mut snq);
        }
        assert!(snq.take_interrupt());
        assert!(!snq.take_interrupt());
        // One entry consumed, two written.
        snq.reg_write(EXTOLL_RF_SNQ_WATERMARK, WATERMARK_ENABLE | 2);
        assert!(snq.take_interrupt());
        snq.reg_write(EXTOLL_RF_SNQ_WATERMARK, WATERMARK_ENABLE | 3);
        assert!(!snq.take_interrupt());
    }

    #[test]
    fn a_program_without_an_end_ends() {
        let mut snq = snq();
        snq.reg_write(EXTOLL_RF_SNQ_PROGRAM + 8 * 25, word(READ, 25, 7, 8, 0x3f_ffff << 3));
        snq.latch(Trigger::RmaNotification.bit());
        assert!(run(&mut snq).is_empty());
    }
}
