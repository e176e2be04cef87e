//! The rings of one port, from the daemon's side (GMPI paper, III B). `kernels/include/ggas/impl/gmpi_ring.h` is the kernel's.
//!
//! The daemon looks for the next attribute, reads element 0, then only what that function needs. Each attribute gets one
//! answer, in order; a kernel writes attribute r + entries only once it has read answer r, so nothing is overrun and no
//! head has to be told.

mod gdrcopy;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ggas::Processor;

pub(crate) use self::store::Store;
use crate::layout::{self, GMPI_ELEMENTS, GMPI_FORM_COUNTED, GMPI_FORM_TAGGED};
use crate::{GmpiError, Placement};

const ELEMENTS: usize = GMPI_ELEMENTS as usize;
/// What counters take, apart from each other.
const COUNTER: usize = 128;

/// What a kernel asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    /// Its running number.
    pub number: u64,
    /// Element 0 and those that the function takes; the others are 0.
    pub elements: [u64; ELEMENTS],
}

impl Attribute {
    /// Which call it is.
    pub fn function(&self) -> u32 {
        function(self.elements[0])
    }

    /// The message that it carries behind so many elements, or shapes; `None`: it carries none.
    pub fn carried(&self, behind: usize) -> Option<Vec<u8>> {
        let bytes = (self.elements[0] >> layout::GMPI_CALL_BYTES_SHIFT) as usize;
        let words =
            self.elements.get(behind..behind + bytes.div_ceil(8)).filter(|words| !words.is_empty())?;
        let mut carried: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        carried.truncate(bytes);
        Some(carried)
    }

    /// Whether statuses are wanted.
    pub fn tells(&self) -> bool {
        self.elements[0] >> layout::GMPI_CALL_QUIET_SHIFT & 1 == 0
    }
}

/// What element 0 names.
fn function(first: u64) -> u32 {
    (first & ((1 << layout::GMPI_CALL_BITS) - 1)) as u32
}

/// Both rings of a port.
#[derive(Debug)]
pub(crate) struct Rings {
    store: Arc<Store>,
    form: u32,
    entries: u64,
    /// Attributes taken, and answers written.
    taken: u64,
    answered: u64,
}

/// How many elements follow element 0 of a call; what cannot be known from it alone is in element 1, and `None` is for functions that there
/// are not.
pub(crate) fn arguments(call: u64, first: impl FnOnce() -> u64) -> Option<usize> {
    let above = call >> layout::GMPI_CALL_BITS;
    let named = named(function(call), first)?;
    match function(call) {
        layout::GMPI_CALL_SEND
        | layout::GMPI_CALL_ISEND
        | layout::GMPI_CALL_SENDRECV
        | layout::GMPI_CALL_ALLREDUCE
        | layout::GMPI_CALL_RECV
        | layout::GMPI_CALL_IRECV
        | layout::GMPI_CALL_SEND_INIT
        | layout::GMPI_CALL_RECV_INIT
            if above > 0 =>
        {
            let bytes = call >> layout::GMPI_CALL_BYTES_SHIFT;
            let is_whole = bytes << layout::GMPI_CALL_BYTES_SHIFT == call - u64::from(function(call));
            let carried = at_most(bytes, 8 * (ELEMENTS - 1 - named));
            (is_whole && carried > 0).then(|| named + carried.div_ceil(8))
        }
        layout::GMPI_CALL_WAITALL
        | layout::GMPI_CALL_STARTALL
        | layout::GMPI_CALL_TESTALL
        | layout::GMPI_CALL_WAITANY
        | layout::GMPI_CALL_TESTANY
        | layout::GMPI_CALL_WAITSOME
        | layout::GMPI_CALL_TESTSOME
        | layout::GMPI_CALL_GET_STATUS => (above <= 1).then_some(named),
        _ => (above == 0).then_some(named),
    }
}

/// The same without a message.
fn named(function: u32, first: impl FnOnce() -> u64) -> Option<usize> {
    Some(match function {
        layout::GMPI_CALL_ISEND
        | layout::GMPI_CALL_IRECV
        | layout::GMPI_CALL_SEND_INIT
        | layout::GMPI_CALL_RECV_INIT
        | layout::GMPI_CALL_REDUCE
        | layout::GMPI_CALL_IALLREDUCE
        | layout::GMPI_CALL_ALLGATHER
        | layout::GMPI_CALL_ALLTOALL
        | layout::GMPI_CALL_GATHER
        | layout::GMPI_CALL_SCATTER => 7,
        layout::GMPI_CALL_SEND
        | layout::GMPI_CALL_RECV
        | layout::GMPI_CALL_ALLREDUCE
        | layout::GMPI_CALL_IBCAST => 6,
        layout::GMPI_CALL_BCAST => 5,
        layout::GMPI_CALL_PROBE | layout::GMPI_CALL_IPROBE => 3,
        layout::GMPI_CALL_PUT
        | layout::GMPI_CALL_GET
        | layout::GMPI_CALL_IREDUCE
        | layout::GMPI_CALL_IALLGATHER
        | layout::GMPI_CALL_IALLTOALL
        | layout::GMPI_CALL_IGATHER
        | layout::GMPI_CALL_ISCATTER => 8,
        layout::GMPI_CALL_SENDRECV => 11,
        layout::GMPI_CALL_WIN_FLUSH | layout::GMPI_CALL_WIN_FENCE | layout::GMPI_CALL_IBARRIER => 2,
        layout::GMPI_CALL_WAIT
        | layout::GMPI_CALL_TEST
        | layout::GMPI_CALL_START
        | layout::GMPI_CALL_REQUEST_FREE
        | layout::GMPI_CALL_BARRIER
        | layout::GMPI_CALL_COMM_PLACE => 1,
        layout::GMPI_CALL_WAITALL
        | layout::GMPI_CALL_STARTALL
        | layout::GMPI_CALL_TESTALL
        | layout::GMPI_CALL_WAITANY
        | layout::GMPI_CALL_TESTANY
        | layout::GMPI_CALL_WAITSOME
        | layout::GMPI_CALL_TESTSOME
        | layout::GMPI_CALL_GET_STATUS => 1 + at_most(first(), layout::GMPI_REQUESTS as usize),
        layout::GMPI_CALL_ECHO => 1 + at_most(first(), ELEMENTS - 2),
        _ => return None,
    })
}

/// A count that an attribute has room for; else the call is refused, and needs none of what it counts.
fn at_most(count: u64, most: usize) -> usize {
    usize::try_from(count).ok().filter(|count| *count <= most).unwrap_or(0)
}

impl Rings {
    /// Rings of `entries` entries, all free.
    pub fn new(processor: &Processor, placement: Placement, entries: u32) -> Result<Rings, GmpiError> {
        let form = if placement == Placement::Tagged { GMPI_FORM_TAGGED } else { GMPI_FORM_COUNTED };
        Rings::within(form, entries, |bytes| Store::new(processor, placement, bytes))
    }

    /// The same in what `store` makes of so many bytes, all zero.
    fn within(
        form: u32,
        entries: u32,
        store: impl FnOnce(usize) -> Result<Store, GmpiError>,
    ) -> Result<Rings, GmpiError> {
        let rings =
            Rings { store: Arc::new(Store::None), form, entries: entries.into(), taken: 0, answered: 0 };
        let store = store(2 * (rings.ring_bytes() + COUNTER))?;
        Ok(Rings { store: Arc::new(store), ..rings })
    }

    fn ring_bytes(&self) -> usize {
        self.entries as usize * ELEMENTS * self.stride()
    }

    /// Bytes of an element with what tells of it.
    fn stride(&self) -> usize {
        if self.form == GMPI_FORM_TAGGED { 16 } else { 8 }
    }

    // Attributes, answers, then the counters of both.
    fn element(&self, ring: usize, number: u64, index: usize) -> usize {
        let slot = (number % self.entries) as usize * ELEMENTS + index;
        ring * self.ring_bytes() + slot * self.stride()
    }

    fn counter(&self, ring: usize) -> usize {
        2 * self.ring_bytes() + ring * COUNTER
    }

    /// Their memory: kernels may write it as long as they may call, whatever becomes of the daemon.
    pub fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    /// What kernels need of them; the rest is 0.
    pub fn port(&self) -> layout::gmpi_port {
        let base = self.store.address();
        layout::gmpi_port {
            requests: base,
            request_tail: base + self.counter(0) as u64,
            answers: base + self.ring_bytes() as u64,
            answer_tail: base + self.counter(1) as u64,
            mask: self.entries as u32 - 1,
            form: self.form,
            ..layout::gmpi_port::default()
        }
    }

    /// How many attributes were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The next attribute, if it is there as a whole. Functions that there are not come with element 0 alone.
    pub fn poll(&mut self) -> Result<Option<Attribute>, GmpiError> {
        let number = self.taken;
        let found = match self.form {
            GMPI_FORM_TAGGED => self.poll_tagged(number)?,
            _ => self.poll_counted(number)?,
        };
        if found.is_some() {
            self.taken += 1;
        }
        Ok(found.map(|elements| Attribute { number, elements }))
    }

    fn poll_counted(&self, number: u64) -> Result<Option<[u64; ELEMENTS]>, GmpiError> {
        if self.store.load(self.counter(0))? <= number {
            return Ok(None);
        }
        let mut elements = [0; ELEMENTS];
        let read = |from: usize, to: usize, elements: &mut [u64; ELEMENTS]| {
            self.store.read(self.element(0, number, from), &mut elements[from..to])
        };
        read(0, 1, &mut elements)?;
        let Some(least) = arguments(elements[0], || 0) else { return Ok(Some(elements)) };
        read(1, 1 + least, &mut elements)?;
        let first = elements[1];
        let all = arguments(elements[0], || first).unwrap_or(least);
        read(1 + least, 1 + all, &mut elements)?;
        Ok(Some(elements))
    }

    fn poll_tagged(&self, number: u64) -> Result<Option<[u64; ELEMENTS]>, GmpiError> {
        let mut elements = [0; ELEMENTS];
        let (mut index, mut needed) = (0, 0);
        while index <= needed {
            let at = self.element(0, number, index);
            if self.store.load(at + 8)? != number + 1 {
                return Ok(None);
            }
            elements[index] = self.store.load(at)?;
            if index <= 1 {
                let first = elements[1];
                needed = arguments(elements[0], || first).unwrap_or(0);
            }
            index += 1;
        }
        Ok(Some(elements))
    }

    /// Answers the oldest attribute that has no answer. At most 32 elements; nothing is written where all are answered.
    pub fn answer(&mut self, elements: &[u64]) -> Result<(), GmpiError> {
        if self.answered == self.taken {
            return Ok(());
        }
        let number = self.answered;
        let elements = &elements[..elements.len().min(ELEMENTS)];
        if self.form == GMPI_FORM_TAGGED {
            // Element 0 last: who sees it sees all.
            for (index, element) in elements.iter().enumerate().rev() {
                let at = self.element(1, number, index);
                self.store.store(at, *element)?;
                self.store.store(at + 8, number + 1)?;
            }
        } else {
            self.store.write(self.element(1, number, 0), elements)?;
            self.store.store(self.counter(1), number + 1)?;
        }
        self.answered += 1;
        Ok(())
    }
}
