//! Barrier and exchange, over words of the table of members.
//!
//! Each rank counts the collective calls that it has entered, in a word of its own, and waits until the words of all
//! other ranks have reached the same count. So no state has to be reset after a barrier or a death, and a waiting rank
//! knows exactly which ranks are missing. The bytes of an exchange lie in files of the network's directory.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use crate::network::Network;
use crate::words::Arrival;
use crate::{EXCHANGE_MAX, JobError, PeerState, futex, published, words};

/// Looks before giving the core away, then before sleeping: with few cores the peer needs ours.
const SPINS: u32 = 100;
const YIELDS: u32 = SPINS + 20;
/// Before the bytes of an exchange lies the call's number.
const HEADER: usize = 8;

/// What one process knows of its collective calls.
pub(crate) struct Collective {
    /// Calls completed.
    done: u64,
    /// The last exchange that this process gave its part for.
    given: u64,
}

impl Collective {
    /// Begins where the rank's run does: see [`words::begin`].
    pub(crate) fn of(network: &Network, rank: u32) -> Collective {
        let done = words::of(&network.table, rank).entered.load(Ordering::Acquire);
        Collective { done, given: done }
    }
}

/// What a wait needs.
pub(crate) struct Meeting<'a> {
    pub(crate) network: &'a Network,
    pub(crate) rank: u32,
    /// Counted up with every process that goes.
    pub(crate) losses: &'a AtomicU32,
    /// Ranks that left may come again, as other processes.
    pub(crate) is_start: bool,
}

impl Meeting<'_> {
    /// Enters the next call (again, after a time-out) and waits for the others.
    pub(crate) fn barrier(&self, calls: &mut Collective, timeout: Duration) -> Result<(), JobError> {
        let epoch = calls.done.wrapping_add(1);
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
        let epoch = calls.done.wrapping_add(1);
        // After a time-out, peers may have read what we gave: it stands.
        if calls.given != epoch {
            // What lies there was for the call before the last. Everyone has entered the last: all have read it.
            let mut given = epoch.to_ne_bytes().to_vec();
            given.extend_from_slice(bytes);
            published::write(self.network, self.rank, key(epoch), &given)?;
            calls.given = epoch;
        }
        self.enter(epoch);
        self.wait_for_all(epoch, timeout)?;
        let all = self
            .network
            .table
            .shape
            .rank_slots()
            .map(|rank| self.take(epoch, rank))
            .collect::<Result<_, _>>()?;
        calls.done = epoch;
        Ok(all)
    }

    fn enter(&self, epoch: u64) {
        let own = words::of(&self.network.table, self.rank);
        if own.entered.swap(epoch, Ordering::SeqCst) != epoch && own.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_shared(own.entered);
        }
    }

    fn wait_for_all(&self, epoch: u64, timeout: Duration) -> Result<(), JobError> {
        let table = &self.network.table;
        let size = table.shape.rank_slots().end;
        let until = Clock::REAL.deadline(timeout);
        let there = || table.shape.rank_slots().map(|rank| table.last(rank));
        loop {
            let before = self.is_start.then(|| there().collect::<Vec<_>>());
            // Each begins with its neighbour, so that not all sleep on the same word.
            for step in 1..size {
                self.wait_for(epoch, (self.rank + step) % size, until, timeout)?;
            }
            // At the start, who was there may have given up while others were waited for: all are there at once.
            if before.is_none_or(|before| there().eq(before)) {
                break;
            }
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    fn wait_for(&self, epoch: u64, rank: u32, until: Instant, timeout: Duration) -> Result<(), JobError> {
        let table = &self.network.table;
        for round in 0.. {
            match self.arrival(epoch, rank) {
                Arrival::Here => return Ok(()),
                Arrival::NotYet => {}
                Arrival::Never => return Err(JobError::PeerLost { rank }),
            }
            match round {
                0..SPINS => Clock::REAL.spin(),
                SPINS..YIELDS => Clock::REAL.yield_now(),
                _ => self.sleep_until_news(epoch, rank, until)?,
            }
            if round >= SPINS && Clock::REAL.now() >= until {
                let is_missing = |rank: &u32| self.arrival(epoch, *rank) != Arrival::Here;
                let waiting_for: Vec<u32> = table.shape.rank_slots().filter(is_missing).collect();
                if !waiting_for.is_empty() {
                    return Err(JobError::Timeout { waiting_for, waited: timeout });
                }
            }
        }
        Ok(())
    }

    fn arrival(&self, epoch: u64, rank: u32) -> Arrival {
        let table = &self.network.table;
        let is_joined = || matches!(table.last(rank), Some((_, PeerState::Joined)));
        match words::of(table, rank).arrival(epoch) {
            // The rank's program joined, timed out and left: another program of that rank may join.
            Arrival::Here if self.is_start && !is_joined() => Arrival::NotYet,
            arrival => arrival,
        }
    }

    /// Sleeps until the peer enters, any process goes, or the deadline.
    fn sleep_until_news(&self, epoch: u64, rank: u32, deadline: Instant) -> Result<(), JobError> {
        let peer = words::of(&self.network.table, rank);
        // Read before asking who is gone: who goes after that changes it.
        let losses = self.losses.load(Ordering::SeqCst);
        let lost = || words::gone(&self.network.table, epoch).map(|rank| JobError::PeerLost { rank });
        if let Some(error) = if self.is_start { self.never_comes() } else { lost() } {
            return Err(error);
        }
        peer.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = peer.entered.load(Ordering::SeqCst);
        if self.arrival(epoch, rank) == Arrival::NotYet {
            // Who has not joined yet cannot be watched: whoever started it notes its end in the table.
            let slice = if self.is_start { Clock::REAL.now() + START_SLICE } else { deadline };
            futex::wait_for_either((peer.entered, seen), (self.losses, losses), deadline.min(slice));
        }
        peer.sleepers.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// At the start of a job: a rank that will not come, or came and has ended, and that nobody has since.
    fn never_comes(&self) -> Option<JobError> {
        let table = &self.network.table;
        // Who keeps the network for its job says which ranks nobody will be any more. Without one, a death is the end.
        let is_kept = || table.keeper().is_some();
        let ends = table.shape.rank_slots().filter(|rank| *rank != self.rank).filter_map(|rank| {
            let (ended, last) = (table.slot(rank)?.who.ended.load(Ordering::Acquire), table.last(rank));
            let how = match (last, ended) {
                (Some((_, PeerState::Joined)), _) => return None,
                (_, 1..) => format!("ended (status {})", ended - 1),
                (Some((_, PeerState::Lost)), _) if !is_kept() => "died".to_owned(),
                _ => return None,
            };
            // Who left in good order may have been told of another's end already.
            Some((matches!(last, Some((_, PeerState::Left))), JobError::Gone { rank, how }))
        });
        ends.min_by_key(|(left, _)| *left).map(|(_, error)| error)
    }

    /// What `rank` gave. All that it says is checked: it may be in another call, or hostile.
    fn take(&self, epoch: u64, rank: u32) -> Result<Vec<u8>, JobError> {
        let given = published::read(self.network, rank, key(epoch), HEADER + EXCHANGE_MAX)?;
        match given.as_deref().and_then(<[u8]>::split_first_chunk) {
            Some((header, bytes)) if u64::from_ne_bytes(*header) == epoch => Ok(bytes.to_vec()),
            _ => Err(JobError::Mismatch { rank }),
        }
    }
}

/// Between two looks at ranks that have not joined.
const START_SLICE: Duration = Duration::from_millis(20);

fn key(epoch: u64) -> &'static str {
    if epoch.is_multiple_of(2) { "even" } else { "odd" }
}
