//! The host's side of the ring in which kernels of a GPU ask for accesses (`proxy_layout.h`): plain memory, so it is tested without a GPU.

use super::layout::{
    GGAS_PROXY_ANSWERS, GGAS_PROXY_BYTES, GGAS_PROXY_LINES, GGAS_PROXY_UNITS, ggas_proxy, ggas_proxy_answer,
    ggas_proxy_line, ggas_proxy_unit,
};
use crate::memory::{KernelMem, MemoryError};
use crate::processor::Processor;
use crate::trap::Kind;

const LINE: usize = size_of::<ggas_proxy_line>();
const UNIT: usize = size_of::<ggas_proxy_unit>();
const ANSWER: usize = size_of::<ggas_proxy_answer>();
/// Most bytes of a command.
pub(super) const MOST: usize = GGAS_PROXY_BYTES as usize;
/// Bytes that a command line holds itself.
const INLINE: usize = 16;

/// Where things are in the host's memory.
const ANSWERS_AT: usize = GGAS_PROXY_LINES as usize * LINE;
const BYTES_AT: usize = ANSWERS_AT + GGAS_PROXY_ANSWERS as usize * ANSWER;
const TAKEN_AT: usize = BYTES_AT + GGAS_PROXY_ANSWERS as usize * MOST;
const FAILED_AT: usize = TAKEN_AT + 64;
/// These two share no cache line.
const HOST_BYTES: usize = FAILED_AT + 64;

/// An access that a kernel asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub kind: Kind,
    pub address: u64,
    pub block: u32,
    pub thread: u32,
    /// What is stored, or room for what is loaded, or the two words of an atomic operation.
    pub bytes: Vec<u8>,
    /// Who waits, if somebody does.
    pub answer: Option<u32>,
    /// Lines of the ring that it took.
    lines: u64,
}

impl Command {
    /// Bytes of the access.
    pub fn len(&self) -> usize {
        if self.kind.is_atomic() { self.bytes.len() / 2 } else { self.bytes.len() }
    }
}

/// A ring, and what kernels have of it.
pub(super) struct Ring {
    host: KernelMem,
    kernels: KernelMem,
}

impl Ring {
    pub fn new(processor: &Processor) -> Result<Ring, MemoryError> {
        let host = processor.alloc_host(HOST_BYTES)?;
        let kernels = processor.alloc(size_of::<ggas_proxy>())?;
        let at = |offset: usize| host.address() + offset as u64;
        kernels.write_u64s(0, &[0, TAKEN_AT, ANSWERS_AT, BYTES_AT, FAILED_AT].map(at))?;
        Ok(Ring { host, kernels })
    }

    /// Where kernels have it.
    pub fn address(&self) -> u64 {
        self.kernels.address()
    }

    /// Lines that kernels have claimed: once they have ended, all of them are written.
    pub fn claimed(&self) -> Result<u64, MemoryError> {
        self.kernels.load_u64(std::mem::offset_of!(ggas_proxy, next))
    }

    /// Kernels see whether an access failed.
    pub fn tell_failed(&self, failed: bool) {
        self.put(FAILED_AT, failed.into());
    }

    fn word(&self, at: usize) -> u64 {
        self.host.load_u64(at).unwrap_or_default()
    }

    fn put(&self, at: usize, word: u64) {
        // The offsets are the ring's own, within its memory.
        let stored = self.host.store_u64(at, word);
        debug_assert!(stored.is_ok(), "{at} is an offset in the ring");
    }

    /// The command in line `number`, once it is there as a whole.
    pub fn command(&self, number: u64) -> Option<Command> {
        let line = self.line(number);
        let tag = (number / u64::from(GGAS_PROXY_LINES) + 1) as u32;
        let mut units = [(0, 0); GGAS_PROXY_UNITS as usize];
        for (unit, at) in units.iter_mut().zip((line..).step_by(UNIT)) {
            // The tag first: what is behind it in the unit was stored with it.
            let low_tag = self.word(at + 8);
            if (low_tag >> 32) as u32 != tag {
                return None;
            }
            *unit = (self.word(at), low_tag as u32);
        }
        let [(address, what), (first, answer), (second, block)] = units;
        let kind = Kind::new(what & 0xf | (what >> 4 & 0xf) << 8);
        let (thread, len) = (what >> 8 & 0xfff, (what >> 20) as usize + 1);
        let len = len.min(MOST);
        let inline = [first.to_le_bytes(), second.to_le_bytes()];
        let mut lines = 1;
        let bytes = match kind {
            Kind::Store if len > INLINE => {
                lines += len.div_ceil(LINE) as u64;
                self.data(number + 1, len)
            }
            Kind::Store => inline.concat()[..len].to_vec(),
            Kind::Load => vec![0; len],
            Kind::Atomic(_) | Kind::Reduce(_) => {
                inline.iter().flat_map(|word| &word[..len.min(8)]).copied().collect()
            }
            Kind::Settle => Vec::new(),
        };
        let waits = matches!(kind, Kind::Load | Kind::Atomic(_) | Kind::Settle);
        let answer = waits.then_some(answer % GGAS_PROXY_ANSWERS);
        Some(Command { kind, address, block, thread, bytes, answer, lines })
    }

    /// What lies in lines behind a command. They have no tags, so what one of them held may not be taken for one later.
    fn data(&self, first: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.next_multiple_of(LINE));
        for number in (first..).take(len.div_ceil(LINE)) {
            let line = self.line(number);
            for at in (line..line + LINE).step_by(8) {
                bytes.extend(self.word(at).to_le_bytes());
            }
            self.put(line + 8, 0);
        }
        bytes.truncate(len);
        bytes
    }

    fn line(&self, number: u64) -> usize {
        (number % u64::from(GGAS_PROXY_LINES)) as usize * LINE
    }

    /// Gives an answer: what was loaded, or what was there.
    pub fn answer(&self, command: &Command, uses: &mut [u64; GGAS_PROXY_ANSWERS as usize]) {
        let Some(answer) = command.answer.map(|answer| answer as usize) else { return };
        let bytes = &command.bytes[..command.len()];
        for (at, piece) in (BYTES_AT + answer * MOST..).step_by(8).zip(bytes.chunks(8)) {
            self.put(at, word_of(piece));
        }
        let at = ANSWERS_AT + answer * ANSWER;
        self.put(at, word_of(&bytes[..bytes.len().min(8)]));
        self.put(at + 8, 2 * uses[answer] + 1);
        uses[answer] += 1;
    }

    /// The lines of a command are free again; gives the line behind them.
    pub fn take(&self, number: u64, command: &Command) -> u64 {
        let next = number + command.lines;
        self.put(TAKEN_AT, next);
        next
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
