//! The table of declared memory: which bus addresses exist, and whose they are.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MemoryError;

/// All declared memory, in disjoint pieces sorted by address.
#[derive(Default)]
pub(super) struct Table {
    pub(super) spans: Vec<Span>,
    /// Larger than that of any older table of the process.
    pub(super) number: u64,
}

/// A disjoint piece of the table; `copier` is none for host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) copier: Option<u16>,
}

impl Table {
    /// The table of these declarations, sorted by start; those of one kind may overlap.
    pub(super) fn new(declared: &[Span]) -> Table {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut spans: Vec<Span> = Vec::with_capacity(declared.len());
        for span in declared {
            match spans.last_mut() {
                Some(last) if last.copier == span.copier && span.start <= last.end => {
                    last.end = last.end.max(span.end);
                }
                _ => spans.push(*span),
            }
        }
        Table { spans, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A span that this thread found lately, and the number of its table.
#[derive(Clone, Copy)]
struct Found {
    table: u64,
    span: Span,
}

/// Source, target and queue of a stream of commands find a place each, wherever they lie: nearly always.
const FOUND: usize = 64;
const NONE: Found = Found { table: 0, span: Span { start: 0, end: 0, copier: None } };

thread_local! {
    /// By a few bits of the address.
    static LATELY: [Cell<Found>; FOUND] = const { [const { Cell::new(NONE) }; FOUND] };
}

/// The span that holds all of `len` bytes at `address`.
#[inline]
pub(super) fn find(table: &Table, address: u64, len: usize) -> Result<Span, MemoryError> {
    let Some(end) = address.checked_add(len as u64) else {
        return Err(MemoryError::BadAddress { address, len });
    };
    LATELY.with(|lately| {
        let place = &lately[(address >> 12) as usize % FOUND];
        let Found { table: number, span } = place.get();
        if number == table.number && span.start <= address && end <= span.end {
            return Ok(span);
        }
        let span = search(table, address, end)?;
        place.set(Found { table: table.number, span });
        Ok(span)
    })
}

#[cold]
fn search(table: &Table, address: u64, end: u64) -> Result<Span, MemoryError> {
    let after = table.spans.partition_point(|span| span.start <= address);
    let span = after.checked_sub(1).and_then(|i| table.spans.get(i)).filter(|span| end <= span.end);
    span.copied().ok_or(MemoryError::BadAddress { address, len: (end - address) as usize })
}

#[inline]
pub(super) fn find_host(table: &Table, address: u64, len: usize, align: u64) -> Result<(), MemoryError> {
    if !address.is_multiple_of(align) {
        return Err(MemoryError::BadAddress { address, len });
    }
    match find(table, address, len)?.copier {
        None => Ok(()),
        Some(_) => Err(MemoryError::Device { address }),
    }
}
