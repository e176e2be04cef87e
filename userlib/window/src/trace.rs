//! Who puts how much to whom by kernels, and by the host in windows, for `ggas map traced:PREFIX`, of a window for which somebody asks (`struct ggas_traced`).

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use extoll_abi::layout::{GGAS_TRACED_RINGS, ggas_traced, ggas_traced_node};
use ggas_kernels::{KernelMem, MemoryError, Processor};
use ggas_members::{Lasting, Trace};
use ggas_rma::{Node, ReportCell};

use crate::WindowError;
use crate::memory::{At, Parts};

/// What kernels of a process move to and from each other one: they count it, and it is in the process's trace once this goes, or the process
/// ends by `exit`.
#[derive(Debug)]
pub struct Moves {
    words: TraceWords,
    _counts: Lasting<Counts>,
}

/// The same until then.
#[derive(Debug)]
struct Counts {
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
        let Some(trace) = Trace::asked(None, rank, Some(nodes)) else { return Ok(None) };
        let of = Members { own: rank, len: nodes, nodes: None };
        let counts = Counts::new(trace, processor, of)?;
        Ok(Some(Moves { words: counts.words(0), _counts: Lasting::new(counts) }))
    }

    /// `struct ggas_traced` of no window, to be behind a report of the kernels.
    pub fn words(&self) -> TraceWords {
        self.words
    }
}

impl Counts {
    fn new(trace: Trace, processor: &Processor, of: Members) -> Result<Counts, MemoryError> {
        let counts = processor.alloc(of.len * size_of::<ggas_traced_node>())?;
        Ok(Counts { trace, of, counts })
    }

    /// `struct ggas_traced` of a window of so many bytes.
    fn words(&self, bytes: usize) -> TraceWords {
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

impl Drop for Counts {
    fn drop(&mut self) {
        if !self.trace.is_own() {
            return;
        }
        if let Err(error) = self.add() {
            self.trace.lose(&format!("what kernels counted cannot be read: {error}"));
        }
    }
}

/// What the kernels of a member of this process move. Lines of rings and the rest are in its trace once this goes.
#[derive(Debug)]
pub(crate) struct Traced {
    moves: Counts,
    /// Lines of rings that were counted before they were cleared.
    before: Vec<u64>,
    /// Where the rings are that kernels opened, and the report behind which they note them.
    part: OwnPart,
    report: Arc<ReportCell>,
}

/// A member's own part of a window.
#[derive(Clone, Debug)]
pub(crate) struct OwnPart {
    pub(crate) parts: Arc<Parts>,
    pub(crate) stride: usize,
    pub(crate) bytes: usize,
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
    pub(crate) fn new(
        trace: Trace,
        processor: &Processor,
        of: Members,
        part: OwnPart,
    ) -> Result<Traced, WindowError> {
        let before = vec![0; of.len];
        let moves = Counts::new(trace, processor, of)?;
        let report = Arc::new(ReportCell::with_words(processor, &moves.words(part.bytes))?);
        Ok(Traced { moves, before, part, report })
    }

    /// The report of the window's kernels.
    pub(crate) fn report(&self) -> &Arc<ReportCell> {
        &self.report
    }

    /// The host moved bytes to another member, or got them from there.
    pub(crate) fn moved(&mut self, member: usize, bytes: usize, is_got: bool) {
        self.moves.moved(member, [bytes as u64, u64::from(bytes > 0)], is_got);
    }

    /// As of [`Moves::words`], of this window.
    pub(crate) fn words(&self) -> TraceWords {
        self.moves.words(self.part.bytes)
    }

    /// A word of this member's part. As it is read where it lies nothing is counted.
    fn word(&self, offset: usize) -> Result<u64, WindowError> {
        let OwnPart { parts, stride, bytes } = &self.part;
        if !offset.is_multiple_of(8) {
            return Err(WindowError::Unaligned(offset));
        }
        if offset.checked_add(8).is_none_or(|end| end > *bytes) {
            return Err(WindowError::Range { offset, len: 8, bytes: *bytes });
        }
        parts.load_u64(self.moves.of.own, At { offset, stride: *stride })
    }

    /// Adds what was put into rings that kernels opened, or those that begin in `only`: these are cleared then, or the window goes.
    /// As they closed them: of one that is open it does not count what came since.
    pub(crate) fn rings(&mut self, only: Option<Range<usize>>) -> Result<(), WindowError> {
        let all: Vec<Opened> = (0..GGAS_TRACED_RINGS as usize).map_while(|at| self.opened(at)).collect();
        for Opened { at, offset, each, lanes } in all {
            let number = lanes * self.moves.of.len;
            let begins_in =
                |ring: &usize| only.as_ref().is_none_or(|only| only.contains(&(offset + ring * each)));
            let mut counted = 0;
            for ring in (0..number).filter(begins_in) {
                let new = self.word(offset + ring * each + LINES)?;
                let lines = &mut self.before[ring % self.moves.of.len];
                *lines = lines.saturating_add(new);
                counted += 1;
            }
            if counted == number {
                // Their place may be used for something else now: there are none until a kernel opens them again.
                self.report.set_word(ring_bytes(at), 0);
            }
        }
        Ok(())
    }

    fn opened(&self, at: usize) -> Option<Opened> {
        let key = self.report.word(offset_of!(ggas_traced, rings) / 8 + at);
        let bytes = self.report.word(ring_bytes(at)) as usize;
        let each = STATE + (16 << (key & 0xff));
        (key > 0).then(|| Opened {
            at,
            offset: (key >> 8) as usize,
            each,
            lanes: bytes / (each * self.moves.of.len),
        })
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if !self.moves.trace.is_own() {
            return;
        }
        if let Err(error) = self.rings(None) {
            self.moves.trace.lose(&format!("rings of a window cannot be read: {error}"));
        }
        // There may have been more rings than are counted.
        if self.opened(GGAS_TRACED_RINGS as usize - 1).is_some() {
            tracing::warn!("a trace counts {GGAS_TRACED_RINGS} sets of rings of a window, and none beyond");
        }
        for (member, lines) in std::mem::take(&mut self.before).into_iter().enumerate() {
            self.moves.moved(member, [OF_LINE.saturating_mul(lines), lines], false);
        }
    }
}
