//! The ranks of a job that are on several hosts.
//!
//! Ranks of one host are members of a network there, as in a job of one host. Beside that each rank has a connection to rank
//! 0's *hub* (TCP), on which it proves that it has the job's secret. By the hub ranks find each other, hear of each other's
//! ends, and do barriers and exchanges. Which ranks share a host, a random number of the host's network says.

mod callers;
mod frame;
mod hub;
pub(crate) mod pmix;
mod proof;
mod reach;
mod shared;

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use crate::meeting::random;
use crate::shape::Shape;
use crate::table::{MemberId, PeerState};
use crate::{JobError, MemberInfo, quiet};
use frame::{FromRank, Hello, Whereabouts};
use hub::Hub;
use reach::{listen, listen_as_hub, reach};
pub use shared::{HubLine, HubNews};
use shared::{Mail, Report, Shared, State, lost_before};

/// Generation of all members on other hosts: each process sees one run of its job only.
const GENERATION: u32 = 1;

/// How the ranks of a job over hosts meet.
#[derive(Clone)]
pub(crate) struct Meet {
    /// Where rank 0 is met: `HOST:PORT`s, any of which may be the one that is reached.
    pub(crate) places: Vec<String>,
    pub(crate) secret: [u8; 16],
    /// Rank 0's, where it listens already.
    pub(crate) listener: Option<Arc<TcpListener>>,
}

impl std::fmt::Debug for Meet {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meet").field(&self.places).finish()
    }
}

/// What a rank tells rank 0 of itself.
pub(crate) struct Own<'a> {
    pub(crate) job: &'a str,
    pub(crate) rank: u32,
    pub(crate) shape: Shape,
    pub(crate) token: u64,
}

/// What a transport between hosts needs: see [`Member::hosts_of_job`](crate::Member::hosts_of_job).
pub struct HostsOfJob {
    /// This rank.
    pub rank: u32,
    /// All ranks, and which nodes they are on.
    pub shape: Shape,
    /// Where this rank's transport listens.
    pub listener: TcpListener,
    /// Where those of all ranks are met, by rank: `ADDRESS:PORT`.
    pub places: Vec<String>,
    /// This host's address, as the others see it.
    pub address: IpAddr,
    /// What the processes of the job have to prove that they have.
    pub secret: [u8; 16],
    /// What names the process of each rank, for ever. All have the same, and have proven the secret to rank 0.
    pub processes: Vec<u64>,
    /// By which they tell each other how they are reached, and hear of ends.
    pub hub: HubLine,
}

/// See the module's description.
pub(crate) struct Far {
    process: u32,
    rank: u32,
    shape: Shape,
    secret: [u8; 16],
    /// By rank.
    ranks: Vec<Whereabouts>,
    listener: Mutex<Option<TcpListener>>,
    shared: Arc<Shared>,
    calls: Mutex<Calls>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Rank 0's. Goes last.
    hub: Mutex<Option<Hub>>,
}

/// Barriers and exchanges of this rank.
#[derive(Default)]
struct Calls {
    done: u64,
    entered: u64,
}

impl Far {
    /// Meets the others: returns once all ranks have come.
    pub(crate) fn meet(own: &Own<'_>, meet: &Meet, timeout: Duration) -> Result<Far, JobError> {
        let deadline = Clock::REAL.deadline(timeout);
        let mut hub = None;
        if own.rank == 0 {
            let listener = listen_as_hub(meet)?;
            let started = Hub::start(listener, own.job, own.shape, meet.secret);
            hub = Some(started.map_err(JobError::system("start the place where ranks of other hosts meet"))?);
        }
        let listener = listen(0).map_err(JobError::system("listen for other hosts"))?;
        let port = listener.local_addr().map_err(JobError::system("listen for other hosts"))?.port();
        let host =
            nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let nonce = random().map_err(JobError::system("read /dev/urandom"))?;
        let (job, shape) = (own.job.to_owned(), own.shape);
        let (size, per_node) = (shape.processes(), shape.per_node());
        let hello = Hello { job, rank: own.rank, size, per_node, token: own.token, host, port, nonce };
        let stream = reach(own.rank, meet, &hello, deadline, timeout)?;
        let shared = Arc::new(Shared {
            stream,
            state: Mutex::new(State::new(size as usize)),
            news: Condvar::new(),
            report: OnceLock::new(),
            line: OnceLock::new(),
            turn: Mutex::default(),
        });
        let hears = shared.clone();
        let thread =
            quiet::spawn("ggas-far", move || hears.run()).map_err(JobError::system("start a thread"))?;
        let mut far = Far {
            process: std::process::id(),
            rank: own.rank,
            shape,
            secret: meet.secret,
            ranks: Vec::new(),
            listener: Mutex::new(Some(listener)),
            shared,
            calls: Mutex::default(),
            thread: Mutex::new(Some(thread)),
            hub: Mutex::new(hub),
        };
        far.ranks = far.all_come(deadline, timeout)?;
        Ok(far)
    }

    fn all_come(&self, deadline: Instant, waited: Duration) -> Result<Vec<Whereabouts>, JobError> {
        loop {
            let mut state = self.shared.state();
            match state.start.take() {
                Some(Ok(ranks)) => return Ok(ranks),
                Some(Err(why)) => return Err(JobError::Refused { why }),
                None => {}
            }
            let ended = state.gone.iter().position(Option::is_some);
            if let Some(rank) = ended {
                let how = "ended, or its host is not reached any more,".to_owned();
                return Err(JobError::Gone { rank: rank as u32, how });
            }
            if !self.shared.wait(state, deadline) {
                let ranks_missing = self.shared.who(0);
                return Err(JobError::Missing { ranks_missing, waited });
            }
        }
    }

    /// From now on, and of what has happened already.
    pub(crate) fn report(&self, report: Report) {
        let before: Vec<(u32, PeerState)> = {
            let state = self.shared.state();
            let _ = self.shared.report.set(report);
            state.ends()
        };
        before.into_iter().for_each(|(rank, how)| self.shared.tell(rank, how));
    }

    /// Messages of ranks on other hosts from now on, and those that came before.
    pub(crate) fn mail(&self, mail: Mail) {
        self.shared.mail(mail);
    }

    /// Sends a message to a rank on another host, by way of rank 0. `Ok(false)`: it had no room until `deadline`.
    pub(crate) fn send(&self, to: MemberId, kind: u16, body: &[u8], deadline: Instant) -> io::Result<bool> {
        match self.info(to.slot) {
            Some(info) if info.id == to => self.shared.send(to.slot, kind, body, deadline),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether ranks are on more than one host.
    pub(crate) fn spans(&self) -> bool {
        self.ranks.iter().any(|rank| rank.token != self.ranks[self.rank as usize].token)
    }

    /// Whether a rank is on another host.
    #[inline]
    pub(crate) fn is_far(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|other| other.token != self.ranks[self.rank as usize].token)
    }

    pub(crate) fn host(&self, rank: u32) -> Option<&str> {
        self.ranks.get(rank as usize).map(|rank| rank.host.as_str())
    }

    /// What is known of a rank on another host.
    pub(crate) fn info(&self, rank: u32) -> Option<MemberInfo> {
        if !self.is_far(rank) {
            return None;
        }
        let state = self.shared.state().gone[rank as usize].map_or(PeerState::Joined, |gone| gone.how);
        let id = MemberId { slot: rank, generation: GENERATION };
        Some(MemberInfo { id, node: self.shape.node_of(rank), pid: 0, state })
    }

    /// A transport found that a rank is lost. Rank 0 tells the same, but for what it has not lived to tell.
    pub(crate) fn lost(&self, rank: u32) {
        if self.is_far(rank) {
            self.shared.over(rank, PeerState::Lost, None);
        }
    }

    /// All ranks on other hosts.
    pub(crate) fn infos(&self) -> impl Iterator<Item = MemberInfo> + '_ {
        (0..self.shape.processes()).filter_map(|rank| self.info(rank))
    }

    /// What names the process of rank 0, for ever.
    pub(crate) fn first(&self) -> u64 {
        self.ranks.first().map_or(0, |rank| rank.nonce)
    }

    /// For one transport.
    pub(crate) fn hosts(&self) -> Option<HostsOfJob> {
        let places: Vec<String> = self.ranks.iter().map(|rank| rank.place.clone()).collect();
        let address = places[self.rank as usize].parse::<SocketAddr>().ok()?.ip();
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(HostsOfJob {
            rank: self.rank,
            shape: self.shape,
            listener,
            places,
            address,
            secret: self.secret,
            processes: self.ranks.iter().map(|rank| rank.nonce).collect(),
            hub: HubLine(self.shared.clone()),
        })
    }

    pub(crate) fn barrier(&self, timeout: Duration) -> Result<(), JobError> {
        self.call(None, timeout).map(drop)
    }

    pub(crate) fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError> {
        let all = self.call(Some(bytes.to_vec()), timeout)?;
        let given =
            |(rank, bytes): (usize, Option<Vec<u8>>)| bytes.ok_or(JobError::Mismatch { rank: rank as u32 });
        all.into_iter().enumerate().map(given).collect()
    }

    /// Enters the next call (or the same, after a time-out: what was given then counts), and waits for the others.
    fn call(&self, bytes: Option<Vec<u8>>, timeout: Duration) -> Result<Vec<Option<Vec<u8>>>, JobError> {
        let deadline = Clock::REAL.deadline(timeout);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = calls.done + 1;
        if calls.entered != call {
            if self.shared.say(&FromRank::Enter { call, bytes }).is_err() {
                return Err(JobError::PeerLost { rank: self.shared.lost_before(call).unwrap_or(0) });
            }
            calls.entered = call;
        }
        loop {
            let mut state = self.shared.state();
            if let Some((_, all)) = state.all.take_if(|(of, _)| *of == call) {
                calls.done = call;
                return Ok(all);
            }
            if let Some(rank) = lost_before(&state, call) {
                return Err(JobError::PeerLost { rank });
            }
            if !self.shared.wait(state, deadline) {
                let waiting_for = self.shared.who(call);
                if self.shared.state().all.as_ref().is_none_or(|(of, _)| *of != call) {
                    return Err(JobError::Timeout { waiting_for, waited: timeout });
                }
            }
        }
    }

    /// Leaves the job in good order. Once.
    pub(crate) fn leave(&self) {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if self.process != std::process::id() {
            std::mem::forget(thread);
            if let Some(hub) = self.hub.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                hub.forget();
            }
            return;
        }
        // Whoever is gone hears of nothing.
        let _ = self.shared.say(&FromRank::Leave);
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(hub);
        let _ = self.shared.stream.shutdown(Shutdown::Both);
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.leave();
    }
}
