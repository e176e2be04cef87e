//! Memory whose payloads nobody looks at.

use std::sync::Arc;

use extoll_abi::Atomic;

use super::{Completion, Foreign, Memory, MemoryError, Ticket, TicketState, Width};

/// As another memory, but payloads are not copied: what travels by reference has its length and its addresses checked and
/// nothing more. All else (queues, tables, small payloads in packets) is real.
pub struct Lengths(pub Arc<dyn Memory>);

impl Memory for Lengths {
    fn session(&self, work: &mut dyn FnMut()) {
        self.0.session(work);
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.0.contains(address, len)
    }

    fn load(&self, address: u64) -> Result<u64, MemoryError> {
        self.0.load(address)
    }

    fn store(&self, address: u64, value: u64) -> Result<(), MemoryError> {
        self.0.store(address, value)
    }

    fn store_entry(&self, address: u64, word: [u64; 2]) -> Result<Completion, MemoryError> {
        self.0.store_entry(address, word)
    }

    fn fetch_compare_add(&self, address: u64, compare: i32, add: i32) -> Result<(bool, i32), MemoryError> {
        self.0.fetch_compare_add(address, compare, add)
    }

    fn fetch_modify(
        &self,
        address: u64,
        width: Width,
        change: &dyn Fn(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        self.0.fetch_modify(address, width, change)
    }

    fn read(&self, source: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.0.read(source, out)
    }

    fn write(&self, destination: u64, bytes: &[u8]) -> Result<Completion, MemoryError> {
        self.0.write(destination, bytes)
    }

    fn copy(&self, destination: u64, source: u64, len: usize) -> Result<Completion, MemoryError> {
        for address in [destination, source] {
            if !self.0.contains(address, len) {
                return Err(MemoryError::BadAddress { address, len });
            }
        }
        Ok(Completion::Done)
    }

    fn copy_foreign(
        &self,
        destination: u64,
        source: &Foreign,
        offset: usize,
        len: usize,
    ) -> Result<Completion, MemoryError> {
        self.0.copy_foreign(destination, source, offset, len)
    }

    fn poll(&self, ticket: Ticket) -> TicketState {
        self.0.poll(ticket)
    }

    fn fetch(&self, source: u64, len: usize) -> Result<Ticket, MemoryError> {
        self.0.fetch(source, len)
    }

    fn modify(&self, address: u64, atomic: Atomic) -> Result<Option<Ticket>, MemoryError> {
        self.0.modify(address, atomic)
    }

    fn fetched(&self, ticket: Ticket) -> Result<Option<Box<[u8]>>, MemoryError> {
        self.0.fetched(ticket)
    }

    fn forget(&self, ticket: Ticket) {
        self.0.forget(ticket);
    }
}
