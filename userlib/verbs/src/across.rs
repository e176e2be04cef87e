//! Adapters of the processes of a job: each process gives every other one the end of a socket by which it is reached.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use extoll_sim::memory::HostMemory;
use ggas_clock::Clock;
use ggas_hca::{Links, Network, Wire};
use ggas_members::Job;

use crate::VerbsError;

/// Tags of descriptors begin with it, so that they are not those of windows and the like.
const TAGS: u64 = (u32::from_be_bytes(*b"verb") as u64) << 32;

/// A network whose adapters reach those of all other processes of a job and are reached by them; adapters of this process have
/// [`Wire::Packets`] between them. Open [`Context`](crate::Context)s on it, and have a thread [run](Network::start) it: what others
/// ask of a process is answered by whoever runs its adapters.
///
/// Collective: all processes call it, in the same order as other collective calls of the job, and it returns within about twice
/// `timeout`. After [`JobError::Timeout`](ggas_members::JobError::Timeout) all may call it again. It takes a file descriptor, and one
/// more for each other process.
///
/// The network goes by `clock`, between processes that of the system. It hears nothing of the ends of processes, nor does it need the
/// job from now on: requests to one that is gone, or does not answer in the time that [`Reliability`](crate::Reliability) gives it,
/// end with [`Status::RetryExceeded`](crate::Status::RetryExceeded).
///
/// # Errors
/// [`VerbsError::Socket`] in the process that gets none, [`VerbsError::Peer`] in the others; [`VerbsError::Job`] names a process that
/// died, that did not make the call in time, or that is on another host, where no adapter is reached.
pub fn network_across(
    job: &Job,
    memory: &Arc<HostMemory>,
    clock: Clock,
    timeout: Duration,
) -> Result<Arc<Network>, VerbsError> {
    let call = Call { job, end: Clock::REAL.deadline(timeout), timeout };
    let sockets = Links::sockets().map_err(VerbsError::Socket);
    // Who has none says so before it fails.
    let tag = call.agree(sockets.is_ok());
    let (inbox, theirs) = sockets?;
    let peers = call.swap(tag?, &theirs)?;
    let links = Links::new(job.rank(), inbox, peers).map_err(VerbsError::Socket)?;
    Ok(Network::across(memory.clone(), clock, Wire::Packets, links))
}

/// One call of all processes.
struct Call<'a> {
    job: &'a Job,
    end: Instant,
    timeout: Duration,
}

impl Call<'_> {
    /// Time for the next step; who has used it up still gives the others a moment.
    fn left(&self) -> Duration {
        Clock::REAL.until(self.end).max(self.timeout / 8)
    }

    /// Waits for all processes to come; the tag of this call's descriptors, which is rank 0's.
    fn agree(&self, well: bool) -> Result<u64, VerbsError> {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let mine = TAGS | u64::from(CALLS.fetch_add(1, Ordering::Relaxed));
        let mine = mine.to_be_bytes();
        let told = self.job.exchange(if well { &mine } else { &[] }, self.left())?;
        let tag = |(rank, bytes): (usize, &Vec<u8>)| {
            let tag = <[u8; 8]>::try_from(&bytes[..]).map_err(|_| VerbsError::Peer(rank as u32))?;
            Ok(u64::from_be_bytes(tag))
        };
        let tags = told.iter().enumerate().map(tag).collect::<Result<Vec<u64>, VerbsError>>()?;
        tags.first().copied().ok_or(VerbsError::Peer(0))
    }

    /// Gives every other process `mine`; what each gave, by rank.
    fn swap(&self, tag: u64, mine: &UnixDatagram) -> Result<Vec<Option<UnixDatagram>>, VerbsError> {
        let own = self.job.rank();
        for rank in (0..self.job.size()).filter(|rank| *rank != own) {
            self.job.send_fds(rank, tag, &[mine.as_fd()], self.left())?;
        }
        let receive = |rank| {
            if rank == own {
                return Ok(None);
            }
            let fds = self.job.recv_fds(rank, tag, self.left())?;
            let Ok([socket]) = <[OwnedFd; 1]>::try_from(fds) else { return Err(VerbsError::Peer(rank)) };
            Ok(Some(UnixDatagram::from(socket)))
        };
        (0..self.job.size()).map(receive).collect()
    }
}
