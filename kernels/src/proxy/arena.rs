//! Addresses that are trapped for kernels of GPUs: one range of the process, of which nothing else is a part, so that kernels compare each
//! address once.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::memory::MemoryError;

/// Of addresses, most that are asked for; a process whose addresses are limited gets less.
const MOST: usize = 1 << 36;
const LEAST: usize = 1 << 29;

/// The range, and what of it is taken, in order.
pub(crate) struct Arena {
    first: u64,
    bytes: usize,
    taken: Mutex<Vec<(u64, usize)>>,
}

static ARENA: OnceLock<Arena> = OnceLock::new();

impl Arena {
    /// That of this process.
    pub fn here() -> Result<&'static Arena, MemoryError> {
        if let Some(arena) = ARENA.get() {
            return Ok(arena);
        }
        let made = Arena::new()?;
        let (first, bytes) = (made.first, made.bytes);
        let arena = ARENA.get_or_init(|| made);
        if arena.first != first {
            // SAFETY: our own mapping, which another thread's has overtaken: nobody has an address in it.
            unsafe { libc::munmap(first as *mut libc::c_void, bytes) };
        }
        Ok(arena)
    }

    fn new() -> Result<Arena, MemoryError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mut bytes = MOST;
        loop {
            // SAFETY: a new inaccessible mapping touches no existing memory.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
            if start != libc::MAP_FAILED {
                return Ok(Arena { first: start as u64, bytes, taken: Mutex::default() });
            }
            if bytes == LEAST {
                return Err(MemoryError::NoMemory { bytes });
            }
            bytes /= 2;
        }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Takes so many: the first gap that has them.
    pub fn take(&self, bytes: usize) -> Result<u64, MemoryError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut start = self.first;
        let mut place = 0;
        for (at, len) in taken.iter() {
            if (at - start) as usize >= bytes {
                break;
            }
            start = at + *len as u64;
            place += 1;
        }
        if bytes as u64 > self.first + self.bytes as u64 - start {
            return Err(MemoryError::NoMemory { bytes });
        }
        taken.insert(place, (start, bytes));
        Ok(start)
    }

    pub fn give(&self, start: u64) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).retain(|(at, _)| *at != start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_used_again_and_nothing_twice() {
        let arena = Arena { first: 4096, bytes: 100, taken: Mutex::default() };
        let [one, two, three] = [40, 20, 40].map(|bytes| arena.take(bytes).unwrap());
        assert_eq!([one, two, three], [4096, 4136, 4156]);
        assert!(arena.take(1).is_err());
        arena.give(two);
        assert!(arena.take(21).is_err());
        assert_eq!((arena.take(12).unwrap(), arena.take(8).unwrap()), (4136, 4148));
        arena.give(one);
        assert_eq!(arena.take(40).unwrap(), 4096);
    }
}
