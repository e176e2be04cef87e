//! What a process has of a peer: the way into its inbox, and its arena.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use super::codec::Malformed;
use super::futex::wake;
use super::inbox::{ASLEEP, AWAKE, CALLED, Outbox};
use ggas_members::memory::{self, Mapping, PAGE, SegmentError};

/// A peer's inbox, and how to draw its attention.
pub(super) struct Remote {
    pub outbox: Outbox,
    /// This process.
    me: u32,
    /// System calls made to wake peers; one counter for all.
    wakes: Arc<AtomicU64>,
}

impl Remote {
    pub fn new(outbox: Outbox, me: u32, wakes: Arc<AtomicU64>) -> Remote {
        Remote { outbox, me, wakes }
    }

    /// Tells the peer that there is something in our lane. What was stored before is seen by whoever looks then.
    #[inline]
    pub fn ring(&self) {
        let bell = self.outbox.doorbell();
        // Our entry is out before we look: either we see that the peer does not know, or it sees the entry.
        fence(Ordering::SeqCst);
        let (word, bit) = (&bell.news[self.me as usize / 64], 1 << (self.me % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        if bell.mode.load(Ordering::Relaxed) != AWAKE {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let mode = &self.outbox.doorbell().mode;
        // Whoever finds it called wakes it too: the one that called may have been stopped before it did.
        let _ = mode.compare_exchange(ASLEEP, CALLED, Ordering::SeqCst, Ordering::Relaxed);
        self.wakes.fetch_add(1, Ordering::Relaxed);
        wake(mode);
    }

    /// Asks the peer to look at what this process returned, wants to send, or is.
    pub fn look(&self) {
        self.outbox.lane().control().looks.0.fetch_add(1, Ordering::Release);
        self.ring();
    }
}

/// A peer's arena: mapped on first use, or piece by piece where there is no address space for all of it.
pub(super) struct PeerArena {
    fd: OwnedFd,
    len: u64,
    map: OnceLock<Option<Arc<Mapping>>>,
}

impl PeerArena {
    pub fn new(fd: OwnedFd) -> Result<PeerArena, SegmentError> {
        let len = memory::sealed_len(fd.as_fd(), "an arena")?;
        Ok(PeerArena { fd, len, map: OnceLock::new() })
    }

    /// A mapping that has these bytes, and where in it they begin; `None` where the system refuses. Bytes outside
    /// the arena are an error.
    pub fn reach(&self, offset: u64, len: usize) -> Result<Option<(Arc<Mapping>, usize)>, Malformed> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(Malformed);
        }
        let all = self.map.get_or_init(|| {
            let mapped = Mapping::new(self.fd.as_fd(), 0, usize::try_from(self.len).ok()?, false);
            mapped
                .inspect_err(|e| tracing::debug!("a peer's arena is mapped piece by piece: {e}"))
                .ok()
                .map(Arc::new)
        });
        if let Some(map) = all {
            return Ok(Some((map.clone(), offset as usize)));
        }
        let start = offset / PAGE as u64 * PAGE as u64;
        let within = (offset - start) as usize;
        let piece = Mapping::new(self.fd.as_fd(), start, within + len, false).ok();
        Ok(piece.map(|map| (Arc::new(map), within)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas_members::memory::Arena;

    #[test]
    fn nothing_outside_an_arena_is_reached() {
        let arena = Arena::create(1 << 20).unwrap();
        let peer = PeerArena::new(arena.fd().try_clone_to_owned().unwrap()).unwrap();
        let len = arena.len() as u64;
        for (offset, bytes) in [(0, 1), (4097, 8192), (len - 1, 1), (0, len as usize), (len, 0)] {
            let (map, within) = peer.reach(offset, bytes).unwrap().unwrap();
            assert!(within + bytes <= map.len());
        }
        for (offset, bytes) in
            [(len, 1), (len - 10, 11), (0, len as usize + 1), (u64::MAX, 1), (1, usize::MAX)]
        {
            assert!(peer.reach(offset, bytes).is_err(), "{offset} {bytes}");
        }
    }

    #[test]
    fn an_arena_too_large_to_map_is_mapped_in_pieces() {
        let arena = Arena::create(1 << 20).unwrap();
        let block = arena.alloc(20_000, 4096).unwrap();
        // SAFETY: the block is ours.
        unsafe { block.ptr().add(9000).write(77) };
        let mut peer = PeerArena::new(arena.fd().try_clone_to_owned().unwrap()).unwrap();
        peer.map = OnceLock::from(None);
        let (map, within) = peer.reach(block.offset() + 9000, 100).unwrap().unwrap();
        assert!(map.len() < 8192 && within + 100 <= map.len());
        // SAFETY: inside the mapping.
        assert_eq!(unsafe { map.base().add(within).read() }, 77);
    }
}
