//! [`HostMemory`] as cards use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use extoll_abi::Atomic;

use super::far::Far;
use super::flight::{InFlight, Mover};
use super::foreign::Foreign;
use super::host::{EndSession, HostMemory, SESSION, State};
use super::move_bytes::{copy_last_word_last, copy_streaming, read_bytes};
use super::reading;
use super::runs::Runs;
use super::table::{find, find_host};
use super::{Completion, DeviceCopier, Memory, MemoryError, Ticket, TicketState, WRITE_MAX, Width};
use crate::packet::HoldState;

/// Writes a queue entry; its second word becomes visible last.
///
/// # Safety
/// 16 mapped bytes, aligned.
#[inline]
unsafe fn store_words(address: u64, word: [u64; 2]) {
    // SAFETY: as promised by the caller.
    unsafe {
        AtomicU64::from_ptr(address as *mut u64).store(word[0], Ordering::Relaxed);
        AtomicU64::from_ptr((address + 8) as *mut u64).store(word[1], Ordering::Release);
    }
}

// In all of these the table is held until the access is over: that is what a removal waits for.
impl Memory for HostMemory {
    fn session(&self, work: &mut dyn FnMut()) {
        if !SESSION.get().0.is_null() {
            return work(); // the outer one serves, whatever memory it is of
        }
        let begun = reading::read(&self.table, |table| {
            SESSION.set((self, table));
            let _end = EndSession;
            work();
        });
        if begun.is_none() {
            work();
        }
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.with_table(|table| find(table, address, len)).is_ok()
    }

    fn load(&self, address: u64) -> Result<u64, MemoryError> {
        self.with_table(|table| {
            find_host(table, address, 8, 8)?;
            // SAFETY: aligned host memory, declared while `table` is held.
            Ok(unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Acquire))
        })
    }

    fn store(&self, address: u64, value: u64) -> Result<(), MemoryError> {
        self.with_table(|table| {
            find_host(table, address, 8, 8)?;
            // SAFETY: aligned host memory, declared while `table` is held.
            unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
            Ok(())
        })
    }

    #[inline]
    fn store_entry(&self, address: u64, word: [u64; 2]) -> Result<Completion, MemoryError> {
        let host = self.with_table(|table| {
            find_host(table, address, 16, 16)?;
            // SAFETY: aligned host memory, declared while `table` is held.
            unsafe { store_words(address, word) };
            Ok(Completion::Done)
        });
        if let Err(MemoryError::Device { .. }) = host {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&word[0].to_le_bytes());
            bytes[8..].copy_from_slice(&word[1].to_le_bytes());
            return self.write(address, &bytes);
        }
        host
    }

    fn fetch_compare_add(&self, address: u64, compare: i32, add: i32) -> Result<(bool, i32), MemoryError> {
        self.with_table(|table| {
            find_host(table, address, 4, 4)?;
            // SAFETY: aligned host memory, declared while `table` is held.
            let lock = unsafe { AtomicI32::from_ptr(address as *mut i32) };
            let taken = lock.fetch_update(Ordering::AcqRel, Ordering::Acquire, |value| {
                (value <= compare).then(|| value.wrapping_add(add))
            });
            Ok(match taken {
                Ok(old) => (true, old.wrapping_add(add)),
                Err(value) => (false, value),
            })
        })
    }

    fn fetch_modify(
        &self,
        address: u64,
        width: Width,
        change: &dyn Fn(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        let (taken, seen) = (Ordering::AcqRel, Ordering::Acquire);
        self.with_table(|table| {
            find_host(table, address, width.bytes(), width.bytes() as u64)?;
            if width == Width::Four {
                // SAFETY: aligned host memory, declared while `table` is held.
                let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
                let changed = word.fetch_update(taken, seen, |value| Some(change(value.into()) as u32));
                return Ok(changed.unwrap_or_else(|value| value).into());
            }
            // SAFETY: as above.
            let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
            let changed = word.fetch_update(taken, seen, |value| Some(change(value)));
            Ok(changed.unwrap_or_else(|value| value))
        })
    }

    #[inline]
    fn read(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (to, len) = (out.as_mut_ptr(), out.len());
        self.with_table(|table| {
            find_host(table, source, len, 1)?;
            // SAFETY: host memory, declared while `table` is held; `out` is ours.
            unsafe { read_bytes(to, source as *const u8, len) };
            Ok(())
        })
    }

    fn read_for_others(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (to, len) = (out.as_mut_ptr(), out.len());
        self.with_table(|table| {
            find_host(table, source, len, 1)?;
            // SAFETY: host memory, declared while `table` is held; `out` is ours.
            unsafe { copy_streaming(to, source as *const u8, len) };
            Ok(())
        })
    }

    #[inline]
    fn write(&self, destination: u64, bytes: &[u8]) -> Result<Completion, MemoryError> {
        let len = bytes.len();
        self.with_table(|table| {
            match find(table, destination, len)?.copier {
                Some(copier) if len <= WRITE_MAX => {
                    let copy = InFlight::new(destination, None, len);
                    return self.start(copier, copy, |c| c.write_inline(destination, bytes));
                }
                Some(copier) => {
                    let kept: Arc<Box<[u8]>> = Arc::new(bytes.into());
                    return self.copy_kept(copier, destination, kept.as_ptr(), len, kept);
                }
                None => {}
            }
            // SAFETY: host memory, declared while `table` is held.
            unsafe { copy_last_word_last(destination as *mut u8, bytes.as_ptr(), len) };
            Ok(Completion::Done)
        })
    }

    #[inline]
    fn write_host(&self, destination: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.with_table(|table| {
            find_host(table, destination, bytes.len(), 1)?;
            // SAFETY: host memory, declared while `table` is held.
            unsafe { copy_last_word_last(destination as *mut u8, bytes.as_ptr(), bytes.len()) };
            Ok(())
        })
    }

    fn write_with_entry(
        &self,
        destination: u64,
        bytes: &[u8],
        entry: Option<(u64, [u64; 2])>,
    ) -> Result<(), MemoryError> {
        self.with_table(|table| {
            find_host(table, destination, bytes.len(), 1)?;
            if let Some((at, _)) = entry {
                find_host(table, at, 16, 16)?;
            }
            // SAFETY: host memory, declared while `table` is held.
            unsafe { copy_last_word_last(destination as *mut u8, bytes.as_ptr(), bytes.len()) };
            if let Some((at, word)) = entry {
                // SAFETY: as above, and aligned.
                unsafe { store_words(at, word) };
            }
            Ok(())
        })
    }

    fn copy(&self, destination: u64, source: u64, len: usize) -> Result<Completion, MemoryError> {
        self.with_table(|table| {
            let to = find(table, destination, len)?.copier;
            let from = find(table, source, len)?.copier;
            if let Some(copier) = to.or(from) {
                let copy = InFlight::new(destination, Some(source), len);
                return self.start(copier, copy, |c| c.copy(destination, source, len));
            }
            // SAFETY: both host memory, declared while `table` is held.
            unsafe { copy_last_word_last(destination as *mut u8, source as *const u8, len) };
            Ok(Completion::Done)
        })
    }

    fn copy_foreign(
        &self,
        destination: u64,
        source: &Foreign,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError> {
        let bad = MemoryError::BadAddress { address: destination, len };
        let from = source.part(offset, len).ok_or(bad)?;
        self.with_table(|table| {
            let Some(index) = find(table, destination, len)?.copier else {
                // SAFETY: host memory, declared while `table` is held; `from` is mapped while `source` lives.
                unsafe { copy_last_word_last(destination as *mut u8, from, len) };
                return Ok(Completion::Done);
            };
            self.copy_kept(index, destination, from, len, source.keep())
        })
    }

    fn copy_far(
        &self,
        destination: u64,
        source: &Far,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError> {
        if offset.checked_add(len).is_none_or(|end| end > source.body()) {
            return Err(MemoryError::BadAddress { address: destination, len });
        }
        self.with_table(|table| {
            let copier = find(table, destination, len)?.copier;
            let mut state = self.state();
            if copier.is_some() && !(source.source.reaches_devices() && state.is_cuda(copier)) {
                return Err(MemoryError::Device { address: destination });
            }
            let ticket = state.ticket_of_others();
            // SAFETY: memory declared while `table` is held, and then while the copy is in flight.
            let read = unsafe { source.source.read(offset, destination, len, copier.is_some()) };
            let mover = Some(Mover::Far(source.source.clone(), read));
            state.in_flight.push(InFlight { ticket, mover, ..InFlight::new(destination, None, len) });
            Ok(Completion::Ticket(ticket))
        })
    }

    fn lend(&self, runs: &Runs, until: &Arc<HoldState>, device: bool) -> bool {
        let lent = self.with_table(|table| {
            let mut state = self.state();
            for run in runs.iter() {
                let copier = find(table, run.address, run.len as usize)?.copier;
                if copier.is_some() != device || device && !state.is_cuda(copier) {
                    return Err(MemoryError::Device { address: run.address });
                }
            }
            state.in_flight.retain(|copy| !copy.is_given_back());
            for run in runs.iter() {
                let ticket = state.ticket_of_others();
                let mover = Some(Mover::Lent(until.clone()));
                let read = InFlight::new(run.address, None, run.len as usize);
                state.in_flight.push(InFlight { ticket, mover, ..read });
            }
            Ok(())
        });
        lent.is_ok()
    }

    fn is_device(&self, address: u64, len: usize) -> bool {
        self.with_table(|table| Ok(find(table, address, len)?.copier.is_some())).unwrap_or(false)
    }

    fn copy_then_entry(
        &self,
        destination: u64,
        source: u64,
        len: usize,
        entry: u64,
        word: [u64; 2],
    ) -> Option<Ticket> {
        let ticket = self.with_table(|table| {
            let to = find(table, destination, len)?.copier;
            let from = find(table, source, len)?.copier;
            find_host(table, entry, 16, 16)?;
            let Some(copier) = to.or(from) else { return Ok(None) };
            let copy = InFlight { entry: Some(entry), ..InFlight::new(destination, Some(source), len) };
            self.launch(copier, copy, |c| Ok(c.copy_then_entry(destination, source, len, entry, word)))
        });
        ticket.ok().flatten()
    }

    fn poll(&self, ticket: Ticket) -> TicketState {
        self.state().take_ended(ticket).map_or(TicketState::Pending, |copy| copy.state)
    }

    fn fetch(&self, source: u64, len: usize) -> Result<Ticket, MemoryError> {
        self.with_table(|table| {
            let bad = MemoryError::BadAddress { address: source, len };
            let copier = find(table, source, len)?.copier.ok_or(bad)?;
            let mut buffer = vec![0u8; len].into_boxed_slice();
            let destination = buffer.as_mut_ptr() as u64;
            let copy = InFlight { buffer: Some(buffer), ..InFlight::new(destination, Some(source), len) };
            self.launch(copier, copy, |c| Ok(Some(c.copy(destination, source, len))))?.ok_or(bad)
        })
    }

    fn modify(&self, address: u64, atomic: Atomic) -> Result<Option<Ticket>, MemoryError> {
        let len = atomic.width().bytes();
        self.with_table(|table| {
            let bad = MemoryError::BadAddress { address, len };
            let aligned = address.is_multiple_of(len as u64);
            let copier = find(table, address, len)?.copier.filter(|_| aligned).ok_or(bad)?;
            let buffer = Some(vec![0u8; len].into_boxed_slice());
            let change = InFlight { buffer, modifies: true, ..InFlight::new(address, None, len) };
            self.launch(copier, change, |c| c.modify(address, atomic))
        })
    }

    fn fetched(&self, ticket: Ticket) -> Result<Option<Box<[u8]>>, MemoryError> {
        let Some(copy) = self.state().take_ended(ticket) else { return Ok(None) };
        match (copy.state, copy.buffer) {
            (TicketState::Done, Some(buffer)) => Ok(Some(buffer)),
            _ => Err(MemoryError::Device { address: copy.source.unwrap_or(0) }),
        }
    }

    fn forget(&self, ticket: Ticket) {
        let State { in_flight, copiers, .. } = &mut *self.state();
        in_flight.iter_mut().filter(|copy| copy.ticket == ticket).for_each(|copy| copy.forgotten = true);
        // Those whose devices are not done with them go with the next one.
        in_flight.retain_mut(|copy| !(copy.forgotten && copy.ended(copiers)));
    }
}

impl HostMemory {
    /// Has a device copy what `keep` keeps until then.
    fn copy_kept(
        &self,
        copier: u16,
        destination: u64,
        from: *const u8,
        len: usize,
        keep: Arc<dyn Send + Sync>,
    ) -> Result<Completion, MemoryError> {
        let copy = InFlight { _keep: Some(keep), ..InFlight::new(destination, None, len) };
        self.start(copier, copy, |c| c.copy(destination, from as u64, len))
    }

    /// As [`HostMemory::launch`], of a copy that each copier can start.
    fn start(
        &self,
        copier: u16,
        copy: InFlight,
        start: impl FnOnce(&dyn DeviceCopier) -> u64,
    ) -> Result<Completion, MemoryError> {
        let bad = MemoryError::Device { address: copy.destination };
        self.launch(copier, copy, |c| Ok(Some(start(c))))?.map(Completion::Ticket).ok_or(bad)
    }
}
