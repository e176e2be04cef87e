//! [`HostMemory`]: the declared ranges of this process, and access to them.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};

use super::flight::InFlight;
use super::reading::{is_read, read};
use super::table::{Span, Table};
use super::{DeviceCopier, MemoryError, Ticket, TicketState};

/// How long [`HostMemory::remove_range`] waits for copies in flight.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What lies behind a declared range.
#[derive(Clone)]
pub enum RangeKind {
    /// Memory of this process; the bus address is its address.
    Host,
    /// Memory of a device, reached through its copier.
    Device(Arc<dyn DeviceCopier>),
}

/// Ranges declared in this process. One is shared by all cards of a process.
///
/// Reading threads take no lock: the table is swapped as a whole, and a removal waits until nobody uses an older
/// one, so after [`HostMemory::remove_range`] no card touches the range.
pub struct HostMemory {
    /// The table in force, which the state keeps.
    pub(super) table: AtomicPtr<Table>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// As declared, sorted by start; may overlap and repeat.
    declared: Vec<Span>,
    table: Arc<Table>,
    /// Tables that a reader may still use.
    retired: Vec<Arc<Table>>,
    pub(super) copiers: Vec<Arc<dyn DeviceCopier>>,
    pub(super) in_flight: Vec<InFlight>,
    /// Copies that no copier carries out, so far.
    others: u64,
}

impl Default for HostMemory {
    fn default() -> Self {
        let state = State::default();
        HostMemory { table: AtomicPtr::new(Arc::as_ptr(&state.table).cast_mut()), state: Mutex::new(state) }
    }
}

impl HostMemory {
    /// Memory with nothing declared.
    pub fn new() -> Arc<HostMemory> {
        Arc::default()
    }

    /// Declares a range. Ranges of one kind may overlap and repeat; each declaration is removed on its own.
    ///
    /// # Errors
    /// [`MemoryError::BadAddress`] for an empty or wrapping range, or one that overlaps a range of another kind.
    ///
    /// # Safety
    /// Until [`HostMemory::remove_range`] returned, `len` bytes at `address` stay mapped readable and writable (for
    /// [`RangeKind::Device`]: allocated and valid for its copier), and tolerate access by others at any time.
    pub unsafe fn add_range(&self, kind: RangeKind, address: u64, len: usize) -> Result<(), MemoryError> {
        let bad = MemoryError::BadAddress { address, len };
        let end = address.checked_add(len as u64).filter(|end| *end > address).ok_or(bad)?;
        let mut state = self.state();
        let copier = match kind {
            RangeKind::Host => None,
            RangeKind::Device(copier) => Some(state.copier_index(&copier).ok_or(bad)?),
        };
        let span = Span { start: address, end, copier };
        let conflicts = |s: &Span| s.copier != copier && s.start < end && s.end > address;
        if let Some(other) = state.table.spans.iter().find(|span| conflicts(span)) {
            tracing::debug!("{len} bytes at {address:#x} of copier {copier:?} conflict with {other:?}");
            return Err(bad);
        }
        let at = state.declared.partition_point(|s| s.start <= address);
        state.declared.insert(at, span);
        self.publish(&mut state);
        Ok(())
    }

    /// Takes back one declaration of exactly this range. When it returns, no card touches the range any more,
    /// except where another declaration still covers it.
    ///
    /// # Errors
    /// [`MemoryError::BadAddress`] where it was not declared; [`MemoryError::Busy`] where a device copy does not
    /// end: the range is undeclared then, but must stay allocated.
    pub fn remove_range(&self, address: u64, len: usize) -> Result<(), MemoryError> {
        let end = address.wrapping_add(len as u64);
        let mut state = self.state();
        let at = state.declared.iter().position(|s| s.start == address && s.end == end);
        state.declared.remove(at.ok_or(MemoryError::BadAddress { address, len })?);
        let number = self.publish(&mut state);
        drop(state);
        self.wait_quiet(number, address, end)
    }

    /// As [`remove_range`](Self::remove_range), of many ranges at once: in a time that does not grow with their square.
    /// Returns what became of each.
    pub fn remove_ranges(&self, ranges: &[(u64, usize)]) -> Vec<Result<(), MemoryError>> {
        let ends = |&(address, len): &(u64, usize)| (address, address.wrapping_add(len as u64));
        // How many declarations of each range are to go; afterwards, those that were not found.
        let mut asked = HashMap::<(u64, u64), usize>::new();
        ranges.iter().for_each(|range| *asked.entry(ends(range)).or_default() += 1);
        let mut take = |start, end| match asked.get_mut(&(start, end)) {
            Some(left @ 1..) => {
                *left -= 1;
                true
            }
            _ => false,
        };
        let mut state = self.state();
        state.declared.retain(|span| !take(span.start, span.end));
        let number = self.publish(&mut state);
        drop(state);
        let gone = |range: &(u64, usize)| match ends(range) {
            (start, end) if take(start, end) => Err(MemoryError::BadAddress { address: start, len: range.1 }),
            (start, end) => self.wait_quiet(number, start, end),
        };
        ranges.iter().map(gone).collect()
    }

    /// Waits until nobody touches a range that tables from `number` on do not have.
    fn wait_quiet(&self, number: u64, address: u64, end: u64) -> Result<(), MemoryError> {
        // For other threads, and for devices: their time is real.
        let mut backoff = Backoff::on(Ladder::NEIGHBOUR, Clock::REAL, REMOVE_TIMEOUT);
        while !self.quiet(number, address, end) {
            backoff
                .pause()
                .map_err(|waited| MemoryError::Busy { address, waited_ms: waited.as_millis() as u64 })?;
        }
        Ok(())
    }

    /// Whether no reader holds a table older than `number`, and no device copy of the range is in flight.
    fn quiet(&self, number: u64, start: u64, end: u64) -> bool {
        let mut state = self.state();
        let State { retired, in_flight, copiers, .. } = &mut *state;
        retired.retain(is_used);
        fence(Ordering::Acquire);
        let read = retired.iter().any(|table| table.number < number);
        // Nobody may be left to ask for these copies, so ask here.
        let mut touching = in_flight.iter_mut().filter(|copy| copy.touches(start, end));
        !read && touching.all(|copy| copy.ended(copiers))
    }

    /// Puts the declarations into force; returns the new table's number.
    fn publish(&self, state: &mut State) -> u64 {
        let table = Arc::new(Table::new(&state.declared));
        let number = table.number;
        self.table.store(Arc::as_ptr(&table).cast_mut(), Ordering::SeqCst);
        state.retired.push(std::mem::replace(&mut state.table, table));
        state.retired.retain(is_used);
        number
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Calls `access` with a table of ranges that stays true until it returns. With a session's table first, which
    /// may lack ranges that were declared since: `access` touches memory only where it finds the range.
    #[inline]
    pub(super) fn with_table<R>(
        &self,
        access: impl Fn(&Table) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        let (memory, table) = SESSION.get();
        if std::ptr::eq(memory, self) {
            // SAFETY: the session that set the pointer holds the table, and clears the pointer before it lets go.
            let found = access(unsafe { &*table });
            if !matches!(found, Err(MemoryError::BadAddress { .. })) {
                return found;
            }
        } else if memory.is_null()
            // SAFETY: kept until `read` returns.
            && let Some(found) = read(&self.table, |table| access(unsafe { &*table }))
        {
            return found;
        }
        let table = self.state().table.clone();
        access(&table)
    }

    /// Has the copier of this number start a copy of its, and remembers it; `None`, or an error of its: it did not. The caller still holds the
    /// table of ranges, so a removal that does not see the copy yet waits for the caller.
    ///
    /// Nobody waits for the start: that of a copy of memory which is not page-locked may take as long as the copy.
    pub(super) fn launch(
        &self,
        index: u16,
        mut copy: InFlight,
        start: impl FnOnce(&dyn DeviceCopier) -> Result<Option<u64>, MemoryError>,
    ) -> Result<Option<Ticket>, MemoryError> {
        let copier = self.state().copiers.get(usize::from(index)).cloned();
        let copier = copier.ok_or(MemoryError::Device { address: copy.destination })?;
        let Some(id) = start(&*copier)? else { return Ok(None) };
        copy.ticket = Ticket { copier: index, id };
        self.state().in_flight.push(copy);
        Ok(Some(Ticket { copier: index, id }))
    }
}

/// Whether somebody reads a table that is in force no more: by a counted reference, or as `reading` has it.
fn is_used(table: &Arc<Table>) -> bool {
    Arc::strong_count(table) > 1 || is_read(table)
}

thread_local! {
    /// The memory that this thread has a session with, and its table.
    pub(super) static SESSION: Cell<(*const HostMemory, *const Table)> =
        const { Cell::new((std::ptr::null(), std::ptr::null())) };
}

/// Ends the thread's session, also on the way of a panic.
pub(super) struct EndSession;

impl Drop for EndSession {
    fn drop(&mut self) {
        SESSION.set((std::ptr::null(), std::ptr::null()));
    }
}

impl State {
    /// Takes a copy out if the device is done with it. One that is not known has failed.
    pub(super) fn take_ended(&mut self, ticket: Ticket) -> Option<InFlight> {
        let Some(at) = self.in_flight.iter().position(|copy| copy.ticket == ticket) else {
            return Some(InFlight { ticket, state: TicketState::Failed, ..InFlight::new(0, None, 0) });
        };
        self.in_flight[at].ended(&self.copiers).then(|| self.in_flight.swap_remove(at))
    }

    /// Whether memory with this copier, if it has one, is CUDA's.
    pub(super) fn is_cuda(&self, copier: Option<u16>) -> bool {
        let copier = copier.and_then(|copier| self.copiers.get(usize::from(copier)));
        copier.is_some_and(|copier| copier.is_cuda())
    }

    /// For a copy that no copier carries out.
    pub(super) fn ticket_of_others(&mut self) -> Ticket {
        self.others += 1;
        Ticket { copier: u16::MAX, id: self.others }
    }

    fn copier_index(&mut self, copier: &Arc<dyn DeviceCopier>) -> Option<u16> {
        let known = self.copiers.iter().position(|c| Arc::ptr_eq(c, copier));
        let index = known.unwrap_or_else(|| {
            self.copiers.push(copier.clone());
            self.copiers.len() - 1
        });
        u16::try_from(index).ok().filter(|index| *index != u16::MAX)
    }
}

#[cfg(test)]
mod tests;
