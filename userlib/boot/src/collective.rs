//! Barrier and exchange, over words of the job segment.
//!
//! Each process counts the collective calls that it has entered, in a word of its own (so a barrier's sense never has
//! to be reset, and a death leaves nothing half done), and waits until the others' words have come as far. Who waits
//! knows exactly who is missing.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use extoll_sim::process::{ArenaBlock, ProcessFabric};
use nix::sys::uio::pread;

use crate::{EXCHANGE_MAX, JobError, futex, words};

/// Looks before giving the core away, then before sleeping: with few cores the peer needs ours.
const SPINS: u32 = 100;
const YIELDS: u32 = SPINS + 20;
/// Before the bytes of an exchange lies the call's number.
const HEADER: usize = 8;
/// Low bits of a word that hold a length; the rest is the offset in pages.
const LEN_BITS: u32 = 20;
const PAGE_BITS: u32 = 12;

/// What one process knows of its collective calls.
#[derive(Default)]
pub(crate) struct Collective {
    /// Calls completed.
    done: u64,
    /// Our part in the last two exchanges: peers may still be reading it.
    given: [Option<(u64, ArenaBlock)>; 2],
}

impl Collective {
    /// Keeps what peers may still be reading when this process leaves: a block that is freed becomes zeros for them.
    /// The memory lasts as long as any process has the arena.
    pub(crate) fn keep_given(&self) {
        self.given.iter().flatten().for_each(|(_, block)| block.keep());
    }
}

/// What a wait needs.
pub(crate) struct Meeting<'a> {
    pub(crate) fabric: &'a ProcessFabric,
    /// Counted up with every process that goes.
    pub(crate) losses: &'a AtomicU32,
}

impl Meeting<'_> {
    /// Enters the next call (again, after a time-out) and waits for the others.
    pub(crate) fn barrier(&self, calls: &mut Collective, timeout: Duration) -> Result<(), JobError> {
        let epoch = calls.done + 1;
        self.enter(epoch);
        self.wait_for_all(epoch, timeout)?;
        calls.done = epoch;
        Ok(())
    }

    /// Everyone's bytes, by rank.
    pub(crate) fn exchange(
        &self,
        calls: &mut Collective,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, JobError> {
        if bytes.len() > EXCHANGE_MAX {
            return Err(JobError::TooLong { len: bytes.len(), most: EXCHANGE_MAX });
        }
        let epoch = calls.done + 1;
        let slot = (epoch % 2) as usize;
        // After a time-out, peers may have read what we gave: it stands.
        if calls.given[slot].as_ref().is_none_or(|(given, _)| *given != epoch) {
            // What lies there was for the call before the last. Everyone has entered the last: all have read it.
            calls.given[slot] = Some((epoch, self.give(epoch, bytes)?));
        }
        self.enter(epoch);
        self.wait_for_all(epoch, timeout)?;
        let job = self.fabric.job();
        let all = (0..job.shape().processes())
            .map(|rank| self.take(epoch, rank, bytes))
            .collect::<Result<_, _>>()?;
        calls.done = epoch;
        Ok(all)
    }

    fn enter(&self, epoch: u64) {
        let own = words::of(self.fabric.job(), self.fabric.rank());
        if own.entered.swap(epoch, Ordering::SeqCst) != epoch && own.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_shared(own.entered);
        }
    }

    fn wait_for_all(&self, epoch: u64, timeout: Duration) -> Result<(), JobError> {
        let size = self.fabric.job().shape().processes();
        let started = Instant::now();
        // Each begins with its neighbour, so that not all sleep on the same word.
        for step in 1..size {
            self.wait_for(epoch, (self.fabric.rank() + step) % size, started, timeout)?;
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    fn wait_for(&self, epoch: u64, rank: u32, started: Instant, timeout: Duration) -> Result<(), JobError> {
        let job = self.fabric.job();
        let peer = words::of(job, rank);
        for round in 0.. {
            if peer.entered.load(Ordering::SeqCst) >= epoch {
                return Ok(());
            }
            match round {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ => self.sleep_until_news(epoch, &peer, started + timeout)?,
            }
            if round >= SPINS && started.elapsed() >= timeout {
                let waiting_for: Vec<u32> = words::missing(job, epoch).collect();
                if !waiting_for.is_empty() {
                    return Err(JobError::Timeout { waiting_for, waited: timeout });
                }
            }
        }
        Ok(())
    }

    /// Sleeps until the peer enters, any process goes, or the deadline.
    fn sleep_until_news(
        &self,
        epoch: u64,
        peer: &words::Words<'_>,
        deadline: Instant,
    ) -> Result<(), JobError> {
        // Read before asking who is gone: who goes after that changes it.
        let losses = self.losses.load(Ordering::SeqCst);
        if let Some(rank) = words::gone(self.fabric.job(), epoch) {
            return Err(JobError::PeerLost { rank });
        }
        peer.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = peer.entered.load(Ordering::SeqCst);
        if seen < epoch {
            futex::wait_for_either((peer.entered, seen), (self.losses, losses), deadline);
        }
        peer.sleepers.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// Lays our bytes where peers can read them and says where.
    fn give(&self, epoch: u64, bytes: &[u8]) -> Result<ArenaBlock, JobError> {
        let block = self
            .fabric
            .arena()
            .alloc(HEADER + bytes.len(), 1)
            .map_err(JobError::system("make room in the arena for an exchange"))?;
        // SAFETY: the block has room for both, is ours, and nobody else writes it; peers read it after `enter`.
        unsafe {
            block.ptr().cast::<u64>().write(epoch);
            block.ptr().add(HEADER).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        let place = (block.offset() >> PAGE_BITS) << LEN_BITS | bytes.len() as u64;
        let own = words::of(self.fabric.job(), self.fabric.rank());
        own.given[(epoch % 2) as usize].store(place, Ordering::Release);
        Ok(block)
    }

    /// What `rank` gave. All that it says is checked: it may be in another call, or hostile.
    fn take(&self, epoch: u64, rank: u32, own: &[u8]) -> Result<Vec<u8>, JobError> {
        let Some(arena) = self.fabric.peer_arena_fd(rank) else { return Ok(own.to_vec()) };
        let place = words::of(self.fabric.job(), rank).given[(epoch % 2) as usize].load(Ordering::Acquire);
        let len = (place & ((1 << LEN_BITS) - 1)) as usize;
        let offset = (place >> LEN_BITS) << PAGE_BITS;
        if len > EXCHANGE_MAX {
            return Err(JobError::Mismatch { rank });
        }
        let mut header = [0; HEADER];
        let mut bytes = vec![0; len];
        read(arena, &mut header, offset)?;
        read(arena, &mut bytes, offset + HEADER as u64)?;
        if u64::from_ne_bytes(header) != epoch {
            return Err(JobError::Mismatch { rank });
        }
        Ok(bytes)
    }
}

/// Reads all of `bytes`; what lies behind the end is zeros, which no header is.
fn read(fd: BorrowedFd<'_>, mut bytes: &mut [u8], mut offset: u64) -> Result<(), JobError> {
    let failed = JobError::system("read a peer's part of an exchange");
    while !bytes.is_empty() {
        let at = i64::try_from(offset).unwrap_or(i64::MAX);
        match pread(fd, bytes, at) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    Ok(())
}
