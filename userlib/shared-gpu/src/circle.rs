//! Ranks of a job that share a GPU, or lead those that do: all of those who set something up together do so at once, and fail together.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggas_clock::Clock;
use ggas_members::{EXCHANGE_MAX, Job, JobError, LETTER_BYTES_MAX, LossGuard};

use crate::SharedGpuError;
use crate::process::NOBODY;

/// Longest reason that is passed on.
const REASON_MAX: usize = 500;

/// Who sets something up together.
#[derive(Clone)]
pub(crate) struct World<'a> {
    job: &'a Job,
    /// As the job numbers them, ascending.
    ranks: Vec<u32>,
    /// `None`: all of the job, who exchange as it does; else some, by letters of this tag.
    tag: Option<u64>,
    deadline: Instant,
    timeout: Duration,
}

impl<'a> World<'a> {
    /// All ranks of a job. Their set-up has so long.
    pub(crate) fn all(job: &'a Job, timeout: Duration) -> World<'a> {
        let deadline = Clock::REAL.deadline(timeout);
        World { job, ranks: (0..job.size()).collect(), tag: None, deadline, timeout }
    }

    /// Some of them, this one included, who all say the same new number.
    pub(crate) fn some(job: &'a Job, ranks: &[u32], tag: u64, timeout: Duration) -> World<'a> {
        World { ranks: ranks.to_vec(), tag: Some(tag | 1 << 60), ..World::all(job, timeout) }
    }

    pub(crate) fn job(&self) -> &'a Job {
        self.job
    }

    pub(crate) fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Time for the next step; who used all of it up still gives the others a moment, so that all fail alike.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Clock::REAL.now()).max(self.timeout / 8)
    }

    /// What each of them says. Whatever fails here is [`SharedGpuError::Job`]: who gets that does not know what the others do. Their
    /// set-up is over then.
    pub(crate) fn exchange(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, SharedGpuError> {
        let Some(tag) = self.tag else { return Ok(self.job.exchange(mine, self.left())?) };
        self.by_letters(mine, tag).map_err(|error| {
            self.ranks.iter().for_each(|rank| self.job.forget_letters(*rank, tag));
            match error {
                SharedGpuError::Job(error) => error.into(),
                error => {
                    JobError::System { what: "pass a letter on", source: std::io::Error::other(error) }.into()
                }
            }
        })
    }

    /// By way of the first of them.
    fn by_letters(&self, mine: &[u8], tag: u64) -> Result<Vec<Vec<u8>>, SharedGpuError> {
        let (first, others) = self.ranks.split_first().unwrap_or((&0, &[]));
        if self.job.rank() != *first {
            self.write(*first, tag, mine)?;
            let all = split(&self.read(*first, tag)?);
            let what = "it has not heard of all ranks".to_owned();
            let is_whole = all.len() == self.ranks.len();
            return is_whole.then_some(all).ok_or(SharedGpuError::Peer { rank: *first as usize, what });
        }
        let all = self.collect(mine, others, tag);
        if all.is_err() {
            // They are not to wait for what does not come.
            for rank in others {
                let _ = self.write(*rank, tag, &[]);
            }
        }
        all
    }

    /// What the others say, and all of it to them.
    fn collect(&self, mine: &[u8], others: &[u32], tag: u64) -> Result<Vec<Vec<u8>>, SharedGpuError> {
        let mut all = vec![mine.to_vec()];
        for rank in others {
            all.push(self.read(*rank, tag)?);
        }
        let joined = join(&all);
        others.iter().try_for_each(|rank| self.write(*rank, tag, &joined))?;
        Ok(all)
    }

    /// As many letters as it takes; each says whether it is the last.
    fn write(&self, to: u32, tag: u64, words: &[u8]) -> Result<(), SharedGpuError> {
        let mut pieces = words.chunks(LETTER_BYTES_MAX - 1).peekable();
        loop {
            let piece = pieces.next().unwrap_or_default();
            let is_last = pieces.peek().is_none();
            self.job.send_bytes(to, tag, &[&[u8::from(is_last)], piece].concat(), self.left())?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// What a rank wrote.
    fn read(&self, from: u32, tag: u64) -> Result<Vec<u8>, SharedGpuError> {
        let most = (EXCHANGE_MAX + 8) * self.job.size() as usize;
        let other =
            || SharedGpuError::Peer { rank: from as usize, what: "it runs another version".to_owned() };
        let mut words = Vec::new();
        loop {
            let letter = self.job.recv_bytes(from, tag, self.left())?;
            let (is_last, piece) = letter.split_first().ok_or_else(other)?;
            words.extend_from_slice(piece);
            match is_last {
                1 => return Ok(words),
                _ if words.len() > most => return Err(other()),
                _ => {}
            }
        }
    }

    /// Ends of them from now on, and those that have ended.
    pub(crate) fn watch(&self) -> Ends {
        let known = Arc::<Known>::default();
        let (told, ranks) = (known.clone(), self.ranks.clone());
        let losses = self.job.on_loss(Box::new(move |rank| {
            if ranks.contains(&rank) {
                let _ = told.dead.compare_exchange(NOBODY, rank, Ordering::AcqRel, Ordering::Acquire);
            }
        }));
        let told = known.clone();
        let leaves = self.job.on_leave(Box::new(move |rank| {
            told.left.lock().unwrap_or_else(PoisonError::into_inner).insert(rank, Clock::REAL.now());
            told.some_left.store(true, Ordering::Release);
        }));
        Ends { known, _guards: [losses, leaves] }
    }
}

/// What is known of the ends of ranks.
struct Known {
    dead: AtomicU32,
    some_left: AtomicBool,
    /// Since when.
    left: Mutex<BTreeMap<u32, Instant>>,
}

impl Default for Known {
    fn default() -> Known {
        Known { dead: AtomicU32::new(NOBODY), some_left: AtomicBool::new(false), left: Mutex::default() }
    }
}

/// Ends of ranks, while this is kept.
pub(crate) struct Ends {
    known: Arc<Known>,
    _guards: [LossGuard; 2],
}

impl Ends {
    /// Fails where one of them has died: the first that did.
    pub(crate) fn check(&self) -> Result<(), SharedGpuError> {
        match self.known.dead.load(Ordering::Acquire) {
            NOBODY => Ok(()),
            rank => Err(SharedGpuError::PeerLost { rank }),
        }
    }

    /// Those that left so long ago, as the job numbers them. What they said is there by then, but for what is under way between hosts. Most often
    /// there are none.
    pub(crate) fn left(&self, ago: Duration) -> Vec<u32> {
        if !self.known.some_left.load(Ordering::Acquire) {
            return Vec::new();
        }
        let left = self.known.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Clock::REAL.now();
        left.iter()
            .filter(|(_, since)| now.saturating_duration_since(**since) >= ago)
            .map(|(rank, _)| *rank)
            .collect()
    }
}

/// Each with its length before it.
fn join(all: &[Vec<u8>]) -> Vec<u8> {
    all.iter()
        .flat_map(|one| (one.len() as u64).to_ne_bytes().into_iter().chain(one.iter().copied()))
        .collect()
}

/// Those; where lengths lead nowhere, as far as they do.
fn split(mut joined: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((len, rest)) = joined.split_first_chunk() {
        let Some((one, rest)) = rest.split_at_checked(u64::from_ne_bytes(*len) as usize) else { break };
        all.push(one.to_vec());
        joined = rest;
    }
    all
}

/// Some of those ranks, numbered anew from 0.
#[derive(Clone)]
pub(crate) struct Circle<'a> {
    world: World<'a>,
    /// As the job numbers them, in that order.
    members: Vec<u32>,
    /// `None`: this rank is none of them, and takes part in what all ranks of its world do only.
    rank: Option<usize>,
}

impl<'a> Circle<'a> {
    /// All ranks.
    pub(crate) fn all(world: World<'a>) -> Circle<'a> {
        let ranks = world.ranks.clone();
        Circle::of(world, ranks)
    }

    /// These.
    pub(crate) fn of(world: World<'a>, members: Vec<u32>) -> Circle<'a> {
        let rank = members.iter().position(|member| *member == world.job.rank());
        Circle { world, members, rank }
    }

    /// Those that set up together.
    pub(crate) fn world(&self) -> &World<'a> {
        &self.world
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(crate) fn ranks(&self) -> usize {
        self.members.len()
    }

    /// This one's.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// Whether a member is on another host than this rank.
    pub(crate) fn spans_hosts(&self) -> bool {
        self.members.iter().any(|rank| self.world.job.is_far(*rank))
    }

    /// What each member says, of which all ranks of the world say something.
    pub(crate) fn exchange(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, SharedGpuError> {
        let all = self.world.exchange(mine)?;
        let place = |member: &u32| self.world.ranks.binary_search(member).ok();
        Ok(self.members.iter().filter_map(|member| all.get(place(member)?).cloned()).collect())
    }

    /// Descriptors of member 0, to all others.
    pub(crate) fn send(&self, tag: u64, fds: &[BorrowedFd<'_>]) -> Result<(), SharedGpuError> {
        let (job, others) = (self.world.job, self.members.iter().skip(1));
        Ok(others.into_iter().try_for_each(|rank| job.send_fds(*rank, tag, fds, self.world.left()))?)
    }

    /// Those.
    pub(crate) fn receive(&self, tag: u64) -> Result<Vec<OwnedFd>, SharedGpuError> {
        Ok(self.world.job.recv_fds(self.members[0], tag, self.world.left())?)
    }

    /// A set-up failed behind which member 0 may have sent those.
    pub(crate) fn forget(&self, tag: u64) {
        self.world.job.forget_letters(self.members[0], tag);
    }

    /// Succeeds if all ranks of the world did. Fails with [`SharedGpuError::Job`] where they could not be asked only: else all know that
    /// all have failed.
    pub(crate) fn agree<T>(&self, mine: Result<T, SharedGpuError>) -> Result<T, SharedGpuError> {
        let reason = mine.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let reason: String = reason.chars().take(REASON_MAX).collect();
        let all = self.world.exchange(reason.as_bytes())?;
        let mine = mine.map_err(|error| match error {
            SharedGpuError::Job(_) => {
                SharedGpuError::Peer { rank: self.world.job.rank() as usize, what: reason }
            }
            error => error,
        })?;
        match self.world.ranks.iter().zip(all).find(|(_, said)| !said.is_empty()) {
            Some((rank, said)) => {
                let what = String::from_utf8_lossy(&said).into_owned();
                Err(SharedGpuError::Peer { rank: *rank as usize, what })
            }
            None => Ok(mine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_joined_is_split_and_nothing_else_is_believed() {
        let all = [b"one".to_vec(), Vec::new(), vec![7; 1000]];
        let joined = join(&all);
        assert_eq!(split(&joined), all);
        assert_eq!(split(&joined[..joined.len() - 1]), all[..2], "cut short");
        assert_eq!(split(&u64::MAX.to_ne_bytes()), Vec::<Vec<u8>>::new());
    }

    /// A job of this process alone.
    fn alone() -> Job {
        Job::join().expect("nobody else is needed")
    }

    fn late() -> SharedGpuError {
        JobError::Timeout { waiting_for: vec![0], waited: Duration::from_secs(1) }.into()
    }

    #[test]
    fn a_failure_that_all_know_of_is_none_of_the_exchange() {
        let job = alone();
        let circle = Circle::all(World::all(&job, Duration::from_secs(10)));
        let told = circle.agree::<()>(Err(late())).expect_err("it has failed");
        assert!(
            matches!(&told, SharedGpuError::Peer { rank: 0, what } if *what == late().to_string()),
            "{told}"
        );
        let told = circle.agree::<()>(Err(SharedGpuError::Bits)).expect_err("it has failed");
        assert!(matches!(told, SharedGpuError::Bits), "{told}");
    }

    #[test]
    fn who_cannot_ask_the_others_says_so_whatever_it_has_to_say() {
        let job = alone();
        // Rank 1 is in no such job.
        let circle = Circle::all(World::some(&job, &[0, 1], 1, Duration::from_secs(10)));
        for mine in [Ok(()), Err(SharedGpuError::Bits), Err(late())] {
            let told = circle.agree(mine).expect_err("nobody could be asked");
            assert!(matches!(told, SharedGpuError::Job(JobError::NoSuchRank { rank: 1, .. })), "{told}");
        }
    }
}
