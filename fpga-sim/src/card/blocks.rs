//! Bytes of a device on their way out: fetched in blocks, the next one while packets are cut from the one that is there.

use crate::memory::runs::Cursor;
use crate::memory::{Memory, MemoryError, Ticket};

/// The first block is short, so that something goes soon; each is twice as long as the one before.
const FIRST: u32 = 16 << 10;
/// The longest: two of them are what a command holds at most.
const LONGEST: u32 = 256 << 10;

/// See the module's description.
#[derive(Default)]
pub(super) struct Blocks {
    /// Where the next one begins, once something was fetched.
    next: Option<Cursor>,
    /// Bytes of the last one.
    len: u32,
    fetching: Option<Ticket>,
    /// The block that is there, and how much of it was taken.
    there: Box<[u8]>,
    taken: usize,
}

impl Blocks {
    /// Whether a block has to be waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.fetching.is_some() && self.there.is_empty()
    }

    /// What is being fetched.
    pub(super) fn fetching(&self) -> Option<Ticket> {
        self.fetching
    }

    /// Fetches what lies at `source`, of which nothing is fetched.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub(super) fn begin(&mut self, memory: &dyn Memory, source: &Cursor) -> Result<(), MemoryError> {
        self.next = Some(source.clone());
        self.fetch(memory)
    }

    fn fetch(&mut self, memory: &dyn Memory) -> Result<(), MemoryError> {
        let len = (2 * self.len).clamp(FIRST, LONGEST);
        let Some(next) = &mut self.next else { return Ok(()) };
        let Some(run) = next.piece(len) else { return Ok(()) };
        self.fetching = Some(memory.fetch(run.address, run.len as usize)?);
        next.advance(run.len);
        self.len = len;
        Ok(())
    }

    /// Writes the next bytes that were fetched to `to`: how many, 0 where none were; `None` while they are on their way.
    ///
    /// # Errors
    /// They do not come.
    pub(super) fn take(&mut self, memory: &dyn Memory, to: &mut [u8]) -> Result<Option<usize>, MemoryError> {
        if self.there.is_empty()
            && let Some(ticket) = self.fetching
        {
            let Some(block) = memory.fetched(ticket).inspect_err(|_| self.fetching = None)? else {
                return Ok(None);
            };
            (self.fetching, self.there, self.taken) = (None, block, 0);
            // Where what follows is the host's, or is no memory, who comes there will see.
            let _ = self.fetch(memory);
        }
        let left = &self.there[self.taken..];
        let len = left.len().min(to.len());
        to[..len].copy_from_slice(&left[..len]);
        self.taken += len;
        if self.taken == self.there.len() {
            (self.there, self.taken) = (Box::default(), 0);
        }
        Ok(Some(len))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::memory::runs::Runs;
    use crate::memory::{DeviceCopier, HostMemory, RangeKind, TicketState};

    /// Copies what was started, one each time that `end` is called.
    #[derive(Default)]
    struct Slow(Mutex<Copies>);

    #[derive(Default)]
    struct Copies {
        /// Where to, where from, and bytes.
        started: Vec<(u64, u64, usize)>,
        ended: usize,
    }

    impl Slow {
        fn lengths(&self) -> Vec<usize> {
            self.0.lock().unwrap().started.iter().map(|copy| copy.2).collect()
        }

        fn end(&self) {
            let copies = &mut *self.0.lock().unwrap();
            let (to, from, len) = copies.started[copies.ended];
            // SAFETY: the memory keeps both until this is over.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
            copies.ended += 1;
        }
    }

    impl DeviceCopier for Slow {
        fn copy(&self, destination: u64, source: u64, len: usize) -> u64 {
            let started = &mut self.0.lock().unwrap().started;
            started.push((destination, source, len));
            started.len() as u64
        }
        fn write_inline(&self, _: u64, _: &[u8]) -> u64 {
            unreachable!("nothing is written")
        }
        fn poll(&self, id: u64) -> TicketState {
            let over = id as usize <= self.0.lock().unwrap().ended;
            if over { TicketState::Done } else { TicketState::Pending }
        }
    }

    #[test]
    fn the_next_block_is_under_way_while_one_is_taken() {
        const LEN: usize = 600 << 10;
        let (memory, device) = (HostMemory::new(), Arc::new(Slow::default()));
        let words: Vec<u64> = (0..LEN as u64 / 8).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let base = words.as_ptr() as u64;
        // SAFETY: undeclared before the words go.
        unsafe { memory.add_range(RangeKind::Device(device.clone()), base, LEN).unwrap() };
        let (mut blocks, mut got) = (Blocks::default(), Vec::new());
        let mut part = [0; 5000];
        assert_eq!(blocks.take(&*memory, &mut part), Ok(Some(0)), "nothing was asked for");
        blocks.begin(&*memory, &Cursor::new(Runs::one(base, LEN as u32))).unwrap();
        for ended in 1.. {
            assert!(blocks.is_waiting() && blocks.take(&*memory, &mut part) == Ok(None));
            assert_eq!(device.lengths().len(), ended, "one at a time");
            device.end();
            let before = got.len();
            while let Ok(Some(len @ 1..)) = blocks.take(&*memory, &mut part) {
                let more = before + device.lengths()[ended - 1] < LEN;
                assert_eq!(device.lengths().len(), ended + usize::from(more), "the next one");
                got.extend_from_slice(&part[..len]);
            }
            if got.len() == LEN {
                break;
            }
        }
        assert!(!blocks.is_waiting() && blocks.take(&*memory, &mut part) == Ok(Some(0)));
        assert_eq!(device.lengths(), [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 104 << 10]);
        let sent: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(got == sent);
        memory.remove_range(base, LEN).unwrap();
    }
}
