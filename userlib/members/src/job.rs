//! [`Job`]: this process as one of several that work together.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;

use crate::channel::WireError;
use crate::far::pmix;
use crate::mailbox::{Contents, LETTER_BYTES_MAX, LETTER_FDS_MAX, Letter};
use crate::member::Member;
use crate::members::{GoneGuard, Members};
use crate::place::{self, Place, Rank};
use crate::shape::Shape;
use crate::table::{MemberId, PeerState};
use crate::watched::{Callback, LossGuard, Watched};
use crate::{JobError, MemberInfo, limits, seat};

/// Kind of the messages that bring letters: a tag, and bytes behind it.
const LETTER: u16 = 0x100;
/// Least time for what follows once all have joined.
const SLACK: Duration = Duration::from_secs(2);

/// This process as a rank of a job: a network of its own, whose members are numbered from 0 and wait for each other.
/// Dropping the `Job` leaves the job: the other ranks see that this rank has left, not that it is lost.
///
/// A `Job` belongs to the process that joined: a child made by `fork` gets [`JobError::Forked`] from every call, and
/// dropping the child's copy does nothing.
///
/// ```
/// use std::time::Duration;
///
/// let job = ggas_members::Job::join()?; // started plainly: a job of one
/// let names = job.exchange(format!("rank {}", job.rank()).as_bytes(), Duration::from_secs(10))?;
/// assert_eq!(names.len(), job.size() as usize);
/// job.barrier(Duration::from_secs(10))?;
/// # Ok::<(), ggas_members::JobError>(())
/// ```
pub struct Job {
    watched: Arc<Watched>,
    rank: u32,
    shape: Shape,
    _gone: GoneGuard,
    member: Arc<Member>,
    /// With a launcher that speaks PMIx. Goes last.
    _session: Option<ggas_pmix::Session>,
}

impl Job {
    /// Joins the job that the environment names, and returns when all ranks have joined.
    ///
    /// A launcher (`ggas run`) sets the environment. Without a launcher, set in every process `GGAS_RANK`, `GGAS_SIZE`,
    /// `GGAS_JOB` (a name), and `GGAS_PER_NODE` for several ranks on one node. A program started without these variables
    /// is a job of one process, in a network of its own. `GGAS_JOIN_TIMEOUT` is the time limit in seconds (30).
    ///
    /// # Errors
    /// [`JobError`] names the variable that is wrong, or the ranks that did not join.
    pub fn join() -> Result<Job, JobError> {
        Job::join_within(None)
    }

    /// As [`join`](Job::join), with a time limit of the program's in place of the environment's where there is one.
    ///
    /// # Errors
    /// As there. After [`JobError::Missing`] it may be called again.
    pub fn join_within(timeout: Option<Duration>) -> Result<Job, JobError> {
        if std::env::var_os(place::RANK).is_none() && ggas_pmix::is_launched() {
            let timeout = timeout.map_or_else(|| place::join_timeout(&|name| std::env::var_os(name)), Ok)?;
            let (place, session) = pmix::place(place::per_node()?, timeout)?;
            return Ok(Job { _session: Some(session), ..Job::in_place(&place)? });
        }
        let place = Place::from(&|name| std::env::var_os(name))?;
        let place = Place { timeout: timeout.unwrap_or(place.timeout), ..place };
        Job::in_place(&place)
    }

    fn in_place(place: &Place) -> Result<Job, JobError> {
        match place.rank {
            Some(Rank { rank, shape }) => {
                limits::check_descriptors(shape.processes())?;
                let member = Member::at(place, &place.shape())?;
                Job::start(member, rank, shape, place)
            }
            None => {
                let shape = Shape::new(1, 1)?;
                let (network, rank) = (seat::private_name(), Some(Rank { rank: 0, shape }));
                let place = Place { network, node: 0, rank, timeout: place.timeout, meet: None };
                Job::start(Member::at(&place, &place.shape())?, 0, shape, &place)
            }
        }
    }

    /// Whether the environment names a job of several processes.
    pub fn is_launched() -> bool {
        std::env::var_os(place::RANK).is_some() || ggas_pmix::is_launched()
    }

    fn start(member: Arc<Member>, rank: u32, shape: Shape, place: &Place) -> Result<Job, JobError> {
        let timeout = place.timeout;
        let deadline = Clock::REAL.deadline(timeout);
        let watched = Arc::new(Watched::new());
        let (told, keep) = (watched.clone(), watched.clone());
        let gone = member.on_gone(Arc::new(move |id, how| told.went(id, how)));
        let keeps = move |from: MemberId, body: Vec<u8>, fds| match body.split_first_chunk() {
            Some((tag, bytes)) => {
                let letter = Letter { from: from.slot, tag: u64::from_le_bytes(*tag) };
                keep.mailbox.put(letter, Contents { bytes: bytes.to_vec(), fds });
            }
            None => tracing::warn!("a letter of {from:?} without a tag dropped"),
        };
        member.handle(LETTER, Arc::new(keeps));
        let full = watched.clone();
        member.hold_back(Box::new(move || !full.mailbox.has_room()));
        let job = Job { watched, rank, shape, _gone: gone, member, _session: None };
        // Each pair of a host has a connection, by whose end it notices a death: whoever joined later makes it.
        let is_other = |peer: &MemberInfo| peer.id.slot < shape.processes() && peer.id.slot != rank;
        for peer in job.member.near().into_iter().filter(is_other) {
            match job.member.watch(peer.id, deadline.max(Clock::REAL.now() + SLACK)) {
                Ok(()) | Err(WireError::Closed) => {}
                Err(WireError::Timeout) => {
                    return Err(JobError::Timeout { waiting_for: vec![peer.id.slot], waited: timeout });
                }
                Err(WireError::System(source)) => {
                    return Err(JobError::system("connect to another rank")(source));
                }
                Err(error) => {
                    let source = std::io::Error::other(error);
                    return Err(JobError::System { what: "connect to another rank", source });
                }
            }
        }
        job.member.start(place.meet.as_ref(), timeout)?;
        // Nobody goes on while others have not begun: who joins then is of this run (see `words::begin`).
        job.member.barrier(deadline.saturating_duration_since(Clock::REAL.now()).max(SLACK))?;
        job.member.name_run();
        Ok(job)
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.shape.processes()
    }

    /// Processes of the job, and where they are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The node that this process is on.
    pub fn node(&self) -> u16 {
        self.member.node()
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.shape.nodes()
    }

    /// Processes of each node; the last node may have fewer.
    pub fn per_node(&self) -> u32 {
        self.shape.per_node()
    }

    /// Whether ranks are on several hosts.
    pub fn spans_hosts(&self) -> bool {
        self.member.spans_hosts()
    }

    /// Whether a rank is on another host, where neither file descriptors nor shared memory reach.
    pub fn is_far(&self, rank: u32) -> bool {
        self.member.is_far(rank)
    }

    /// This process's number among the ranks of its host, in their order: by it they take the host's GPUs in turn.
    pub fn rank_on_host(&self) -> u32 {
        (0..self.rank()).filter(|rank| !self.is_far(*rank)).count() as u32
    }

    /// The name of the job's network.
    pub fn name(&self) -> &str {
        self.member.network()
    }

    /// This process as a member of the job's network.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Whether a rank is in the job, has left or is lost.
    pub fn state(&self, rank: u32) -> PeerState {
        self.member.at(rank).map_or(PeerState::Absent, |peer| peer.state)
    }

    /// Waits until all ranks have called `barrier`.
    ///
    /// After a time-out, call `barrier` again to continue the same barrier: the other ranks already count this rank as
    /// arrived.
    ///
    /// # Errors
    /// [`JobError::PeerLost`] as soon as a rank that has not arrived is gone; [`JobError::Timeout`] with the ranks
    /// that are missing.
    pub fn barrier(&self, timeout: Duration) -> Result<(), JobError> {
        self.member.barrier(timeout)
    }

    /// Sends `bytes`, up to [`EXCHANGE_MAX`](crate::EXCHANGE_MAX), to all ranks, and returns the bytes of all ranks, by
    /// rank. When `exchange` returns, all ranks have called it. The lengths of the ranks' bytes may differ.
    ///
    /// After a time-out, call `exchange` again to continue the same exchange; the bytes of the first call count.
    ///
    /// # Errors
    /// As [`barrier`](Job::barrier); [`JobError::TooLong`]; [`JobError::Mismatch`] where a rank calls `barrier`
    /// instead.
    pub fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError> {
        self.member.exchange(bytes, timeout)
    }

    /// Sends file descriptors to a rank, which receives them with [`recv_fds`](Job::recv_fds) and the same `tag`. The
    /// receiver may call `recv_fds` later; descriptors from one sender with one tag keep their order.
    ///
    /// # Errors
    /// [`JobError::PeerLost`], [`JobError::Timeout`], [`JobError::NoSuchRank`], [`JobError::TooManyDescriptors`],
    /// [`JobError::OtherHost`].
    pub fn send_fds(
        &self,
        to_rank: u32,
        tag: u64,
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<(), JobError> {
        if fds.len() > LETTER_FDS_MAX {
            return Err(JobError::TooManyDescriptors { count: fds.len(), most: LETTER_FDS_MAX });
        }
        self.check_rank(to_rank)?;
        self.member.check_near(to_rank)?;
        self.send_letter(to_rank, tag, &[], fds, timeout)
    }

    /// Sends bytes to a rank, on whichever host, which receives them with [`recv_bytes`](Job::recv_bytes) and the same `tag`: for some
    /// ranks that set something up, as [`exchange`](Job::exchange) is for all. At most
    /// [`LETTER_BYTES_MAX`](crate::LETTER_BYTES_MAX). They and descriptors from one sender with one tag keep their order.
    ///
    /// # Errors
    /// [`JobError::PeerLost`], [`JobError::Timeout`], [`JobError::NoSuchRank`], [`JobError::LongLetter`].
    pub fn send_bytes(
        &self,
        to_rank: u32,
        tag: u64,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<(), JobError> {
        if bytes.len() > LETTER_BYTES_MAX {
            return Err(JobError::LongLetter { len: bytes.len(), most: LETTER_BYTES_MAX });
        }
        self.check_rank(to_rank)?;
        self.send_letter(to_rank, tag, bytes, &[], timeout)
    }

    fn send_letter(
        &self,
        to_rank: u32,
        tag: u64,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<(), JobError> {
        self.member.check_member()?;
        if to_rank == self.rank {
            let own = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<Vec<OwnedFd>, _>>();
            let fds = own.map_err(JobError::system("copy a file descriptor"))?;
            let contents = Contents { bytes: bytes.to_vec(), fds };
            self.watched.mailbox.put(Letter { from: self.rank, tag }, contents);
            return Ok(());
        }
        let body = [&tag.to_le_bytes()[..], bytes].concat();
        let deadline = Clock::REAL.deadline(timeout);
        loop {
            let peer = self.member.at(to_rank).filter(|peer| peer.state == PeerState::Joined);
            let peer = peer.ok_or(JobError::PeerLost { rank: to_rank })?;
            let look = deadline.min(Clock::REAL.now() + LOOK);
            match self.member.send(peer.id, LETTER, &body, fds, look) {
                Ok(true) => return Ok(()),
                Ok(false) if Clock::REAL.now() < deadline => {}
                Ok(false) => return Err(JobError::Timeout { waiting_for: vec![to_rank], waited: timeout }),
                Err(error) if error.kind() == std::io::ErrorKind::NotConnected => {
                    return Err(JobError::PeerLost { rank: to_rank });
                }
                Err(source) => return Err(JobError::System { what: "send a letter", source }),
            }
        }
    }

    /// Receives the file descriptors that a rank sent under `tag`, the oldest first. All are closed on exec.
    ///
    /// # Errors
    /// [`JobError::PeerLost`] if the rank is gone and sent none; [`JobError::Timeout`]; [`JobError::NoSuchRank`];
    /// [`JobError::OtherHost`].
    pub fn recv_fds(&self, from_rank: u32, tag: u64, timeout: Duration) -> Result<Vec<OwnedFd>, JobError> {
        self.check_rank(from_rank)?;
        self.member.check_near(from_rank)?;
        Ok(self.recv_letter(from_rank, tag, timeout)?.fds)
    }

    /// Receives the bytes that a rank sent under `tag`, the oldest first.
    ///
    /// # Errors
    /// As [`recv_fds`](Job::recv_fds), but for the last.
    pub fn recv_bytes(&self, from_rank: u32, tag: u64, timeout: Duration) -> Result<Vec<u8>, JobError> {
        self.check_rank(from_rank)?;
        Ok(self.recv_letter(from_rank, tag, timeout)?.bytes)
    }

    fn recv_letter(&self, from_rank: u32, tag: u64, timeout: Duration) -> Result<Contents, JobError> {
        self.member.check_member()?;
        let mailbox = &self.watched.mailbox;
        let was_full = !mailbox.has_room();
        let contents = mailbox.take(from_rank, tag, timeout, || self.is_silent(from_rank));
        if was_full {
            self.member.kick();
        }
        contents.ok_or_else(|| {
            if self.is_silent(from_rank) {
                JobError::PeerLost { rank: from_rank }
            } else {
                JobError::Timeout { waiting_for: vec![from_rank], waited: timeout }
            }
        })
    }

    /// Drops the file descriptors and bytes that a rank sent under `tag`, and those that it sends later: nobody receives them, as what they
    /// were for has failed. Where too many are kept nothing more is received. A tag that was forgotten is not used again.
    pub fn forget_letters(&self, from_rank: u32, tag: u64) {
        // A lock that nobody opens in a fork.
        if !self.watched.is_here() {
            return;
        }
        let mailbox = &self.watched.mailbox;
        let was_full = !mailbox.has_room();
        mailbox.forget(Letter { from: from_rank, tag });
        if was_full {
            self.member.kick();
        }
    }

    /// Ranks that were lost so far, ascending; ranks that left are not among them. Empty in a fork.
    pub fn lost(&self) -> Vec<u32> {
        if !self.watched.is_here() {
            return Vec::new();
        }
        let lost = self.watched.lost();
        let is_lost = |(_, how): &&(MemberId, PeerState)| *how == PeerState::Lost;
        let mut ranks: Vec<u32> = lost.ends.iter().filter(is_lost).map(|(id, _)| id.slot).collect();
        ranks.sort_unstable();
        // One that came again, and died again.
        ranks.dedup();
        ranks
    }

    /// Calls `callback` once for each rank that is lost, and at once for ranks that are lost already. The callback runs
    /// on the library's thread that watches all peers, so it must not block. In a fork it is never called.
    pub fn on_loss(&self, callback: Box<dyn Fn(u32) + Send + Sync>) -> LossGuard {
        self.on_end(PeerState::Lost, Arc::new(move |id| callback(id.slot)))
    }

    /// Calls `callback` once for each rank that leaves, after its last message, and at once for ranks that have left already. As of
    /// [`on_loss`](Job::on_loss).
    pub fn on_leave(&self, callback: Box<dyn Fn(u32) + Send + Sync>) -> LossGuard {
        let member = Arc::downgrade(&self.member);
        // Of a rank's programs one after the other, an earlier one may be told late.
        let is_last = move |id: MemberId| {
            member.upgrade().and_then(|member| member.at(id.slot)).is_some_and(|last| last.id == id)
        };
        self.on_end(
            PeerState::Left,
            Arc::new(move |id| {
                if is_last(id) {
                    callback(id.slot);
                }
            }),
        )
    }

    fn on_end(&self, how: PeerState, callback: Callback) -> LossGuard {
        if !self.watched.is_here() {
            return LossGuard { watched: self.watched.clone(), id: 0 };
        }
        let (id, before) = {
            let mut lost = self.watched.lost();
            lost.next += 1;
            let id = lost.next;
            lost.callbacks.insert(id, (how, callback.clone()));
            (id, lost.ends.clone())
        };
        before.into_iter().filter(|(_, of)| *of == how).for_each(|(id, _)| callback(id));
        LossGuard { watched: self.watched.clone(), id }
    }

    /// Whether a rank is gone and no letter of it can come any more. Later than its state says.
    fn is_silent(&self, rank: u32) -> bool {
        let last = self.member.at(rank);
        last.is_some_and(|peer| self.watched.lost().gone.contains(&peer.id))
    }

    fn check_rank(&self, rank: u32) -> Result<(), JobError> {
        let size = self.size();
        if rank < size { Ok(()) } else { Err(JobError::NoSuchRank { rank, size }) }
    }
}

/// Between two looks whether the receiver of a letter is gone.
const LOOK: Duration = Duration::from_millis(20);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name())
            .field("rank", &self.rank)
            .field("size", &self.size())
            .finish()
    }
}
