//! Who puts how much to whom by kernels, and by the host in windows, for `ggas map traced:PREFIX`, of a window for which somebody asks (`struct ggas_traced`).

use std::mem::offset_of;
use std::ops::Range;

use extoll_abi::layout::{GGAS_TRACED_RINGS, ggas_traced, ggas_traced_node};
use ggas_kernels::{KernelMem, MemoryError, Processor};
use ggas_members::Trace;
use ggas_rma::{Node, ReportCell};

use crate::WindowError;

/// What kernels of a process move to and from each other one: they count it, and it is in the process's trace once this goes.
#[derive(Debug)]
pub struct Moves {
    trace: Trace,
    of: Members,
    /// `struct ggas_traced_node` by member.
    counts: KernelMem,
}

/// Between whom something is moved: this member, of so many.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) own: usize,
    pub(crate) len: usize,
    /// Where they are nodes of a network, which says whose they are; else they are the ranks of a job.
    pub(crate) nodes: Option<(Node, Vec<u16>)>,
}

impl Members {
    /// The number by which a trace knows another member.
    fn number(&self, member: usize) -> Option<usize> {
        match &self.nodes {
            None => Some(member),
            Some((own, nodes)) => Some(own.device().process_of_part(*nodes.get(member)?)? as usize),
        }
    }
}

/// The words behind a report that kernels count by.
pub type TraceWords = [u64; size_of::<ggas_traced>() / 8];

impl Moves {
    /// Of kernels of rank `rank` of so many, if `GGAS_TRACE` asks for it.
    ///
    /// # Errors
    /// No memory of the processor.
    pub fn asked(processor: &Processor, rank: usize, nodes: usize) -> Result<Option<Moves>, MemoryError> {
        let of = || Members { own: rank, len: nodes, nodes: None };
        Trace::asked(None, rank, Some(nodes)).map(|trace| Moves::new(trace, processor, of())).transpose()
    }

    fn new(trace: Trace, processor: &Processor, of: Members) -> Result<Moves, MemoryError> {
        let counts = processor.alloc(of.len * size_of::<ggas_traced_node>())?;
        Ok(Moves { trace, of, counts })
    }

    /// `struct ggas_traced` of a window of so many bytes, to be behind a report of the kernels.
    pub fn words(&self, bytes: usize) -> TraceWords {
        let mut words = [0; size_of::<ggas_traced>() / 8];
        words[offset_of!(ggas_traced, size) / 8] = bytes as u64;
        words[offset_of!(ggas_traced, counts) / 8] = self.counts.address();
        words[offset_of!(ggas_traced, nodes) / 8] = self.of.len as u64;
        words
    }

    fn add(&mut self) -> Result<(), MemoryError> {
        let words = size_of::<ggas_traced_node>() / 8;
        let counts = self.counts.read_u64s(0, words * self.of.len)?;
        for (member, of_node) in counts.chunks_exact(words).enumerate() {
            let of = |field: usize| of_node[field / 8];
            let put = [offset_of!(ggas_traced_node, put_bytes), offset_of!(ggas_traced_node, puts)];
            let got = [offset_of!(ggas_traced_node, got_bytes), offset_of!(ggas_traced_node, gets)];
            self.moved(member, put.map(of), false);
            self.moved(member, got.map(of), true);
        }
        Ok(())
    }

    /// Bytes to another member, or that were got from it, and how often.
    fn moved(&mut self, member: usize, sum: [u64; 2], is_got: bool) {
        if member == self.of.own || sum == [0; 2] {
            return;
        }
        match self.of.number(member) {
            Some(number) if is_got => self.trace.add_got(number, sum),
            Some(number) => self.trace.add(number, sum),
            None => {
                tracing::warn!("a trace is not complete: whose member {member} of a window is, nobody knows")
            }
        }
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        if let Err(error) = self.add() {
            tracing::warn!("a trace is not complete: {error}");
        }
    }
}

/// What the kernels of a member of this process move.
#[derive(Debug)]
pub(crate) struct Traced {
    moves: Moves,
    /// Lines of rings that were counted before they were cleared.
    before: Vec<u64>,
}

/// Rings that kernels opened.
struct Opened {
    /// Which they are in the table.
    at: usize,
    offset: usize,
    /// Of a ring and what is in front of it.
    each: usize,
    lanes: usize,
}

/// Bytes of data in a line of a ring, and bytes in front of a ring, of which the second word counts the lines that were put.
const OF_LINE: u64 = 12;
const STATE: usize = 64;
const LINES: usize = 8;

/// The word of the report that says how long rings are.
fn ring_bytes(at: usize) -> usize {
    offset_of!(ggas_traced, ring_bytes) / 8 + at
}

impl Traced {
    pub(crate) fn new(trace: Trace, processor: &Processor, of: Members) -> Result<Traced, MemoryError> {
        let before = vec![0; of.len];
        Ok(Traced { moves: Moves::new(trace, processor, of)?, before })
    }

    /// The host moved bytes to another member, or got them from there.
    pub(crate) fn moved(&mut self, member: usize, bytes: usize, is_got: bool) {
        self.moves.moved(member, [bytes as u64, u64::from(bytes > 0)], is_got);
    }

    /// As of [`Moves::words`].
    pub(crate) fn words(&self, bytes: usize) -> TraceWords {
        self.moves.words(bytes)
    }

    /// Adds what was put into rings that kernels opened, or those that begin in `only`, by `word` of this member's part: these are cleared then, or
    /// the window goes. As they closed them: of one that is open it does not count what came since.
    pub(crate) fn rings(
        &mut self,
        report: &ReportCell,
        only: Option<Range<usize>>,
        word: impl Fn(usize) -> Result<u64, WindowError>,
    ) -> Result<(), WindowError> {
        let all: Vec<Opened> =
            (0..GGAS_TRACED_RINGS as usize).map_while(|at| self.opened(report, at)).collect();
        for Opened { at, offset, each, lanes } in all {
            let number = lanes * self.moves.of.len;
            let begins_in =
                |ring: &usize| only.as_ref().is_none_or(|only| only.contains(&(offset + ring * each)));
            let mut counted = 0;
            for ring in (0..number).filter(begins_in) {
                let lines = &mut self.before[ring % self.moves.of.len];
                *lines = lines.saturating_add(word(offset + ring * each + LINES)?);
                counted += 1;
            }
            if counted == number {
                // Their place may be used for something else now: there are none until a kernel opens them again.
                report.set_word(ring_bytes(at), 0);
            }
        }
        Ok(())
    }

    fn opened(&self, report: &ReportCell, at: usize) -> Option<Opened> {
        let key = report.word(offset_of!(ggas_traced, rings) / 8 + at);
        let bytes = report.word(ring_bytes(at)) as usize;
        let each = STATE + (16 << (key & 0xff));
        (key > 0).then(|| Opened {
            at,
            offset: (key >> 8) as usize,
            each,
            lanes: bytes / (each * self.moves.of.len),
        })
    }

    /// Whether there may have been more rings than are counted.
    pub(crate) fn is_full(&self, report: &ReportCell) -> bool {
        self.opened(report, GGAS_TRACED_RINGS as usize - 1).is_some()
    }

    /// Adds the lines of rings to the rest, which is written as this goes.
    pub(crate) fn finish(mut self) {
        for (member, lines) in self.before.into_iter().enumerate() {
            self.moves.moved(member, [OF_LINE.saturating_mul(lines), lines], false);
        }
    }
}
