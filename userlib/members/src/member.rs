//! [`Member`]: this process as a member of a network of this host.

mod hosts;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::channel::{MAX_MESSAGE, WireError};
use crate::collective::{Collective, Meeting};
use crate::directory::Base;
use crate::far::{Far, Meet};
use crate::members::{GoneGuard, Members};
use crate::memory::Mapping;
use crate::network::{Network, member_info, sweep};
use crate::node_memory::{NodeMemory, io_error};
use crate::place::{self, Place, Rank};
use crate::post::{Handler, Postman};
use crate::seat::{private_name, take_seat};
use crate::shape::{NetworkShape, Shape};
use crate::table::{MemberId, PeerState};
use crate::{EXCHANGE_MAX, JobError, MemberInfo, futex, published, trace, words};

/// Who asks for the ends of members first: transports.
const FIRST: u64 = 0;
const LATER: u64 = 1 << 32;

/// This process as a member of a network. Dropping the `Member` leaves the network; the last member removes the network.
///
/// A `Member` belongs to the process that joined: in a child made by `fork` calls fail, and dropping the child's copy
/// does nothing.
///
/// ```
/// use ggas_members::{Member, Members, NetworkShape};
///
/// let member = Member::join_private(&NetworkShape::default(), 3)?; // a network that nobody else knows
/// assert_eq!((member.node(), member.list().len()), (3, 1));
/// # Ok::<(), ggas_members::JobError>(())
/// ```
pub struct Member {
    /// The process that joined.
    process: u32,
    me: MemberId,
    node: u16,
    rank: Option<u32>,
    network: Arc<Network>,
    postman: Postman,
    calls: Mutex<Option<Collective>>,
    /// Counted up with every member whose end is noticed; sleepers in collective calls wait for it, too.
    departures: Arc<AtomicU32>,
    /// Whether this member made the network.
    made: bool,
    /// A transport speaks for this member.
    transport: AtomicBool,
    /// The ranks on other hosts, once they have been met, where the job is over hosts.
    far: OnceLock<Far>,
}

impl Member {
    /// Joins the network that the environment names, without waiting for another process.
    ///
    /// The network is that of the job (`GGAS_RANK`, `GGAS_SIZE`, `GGAS_JOB`), else `GGAS_NETWORK`, else this user's
    /// default network on this host. The node is that of the rank, else `GGAS_NODE`, else 0. Where the rank has joined
    /// already, this process is a further member without a rank. Creates the network where it does not exist, and prints
    /// that on standard error (`GGAS_QUIET=1`: prints nothing).
    ///
    /// # Errors
    /// [`JobError`], whose text tells what to do.
    pub fn join() -> Result<Arc<Member>, JobError> {
        let place = Place::from(&|name| std::env::var_os(name))?;
        let shape = place.shape();
        let member = match Member::at(&place, &shape) {
            // Another program of this rank runs: this one is beside it on the node, and no rank.
            Err(JobError::RankTaken { .. } | JobError::JoinedAlready) => {
                Member::at(&Place { rank: None, ..place.clone() }, &shape)?
            }
            other => other?,
        };
        if member.made && place.rank.is_none() && !place::is_quiet() {
            member.say_made();
        }
        Ok(member)
    }

    /// Joins the network that the environment names, as [`join`](Self::join) does, to inspect it: never as a rank, without
    /// printing anything, and on `node` if it is `Some`.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_beside(node: Option<u16>) -> Result<Arc<Member>, JobError> {
        let place = Place::from(&|name| std::env::var_os(name))?;
        Member::at(&Place { rank: None, node: node.unwrap_or(place.node), ..place.clone() }, &place.shape())
    }

    /// Joins the network `name` on a node; creates the network with this shape where it does not exist.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_network(name: &str, shape: &NetworkShape, node: u16) -> Result<Arc<Member>, JobError> {
        let network = place::checked_network(name)?.to_owned();
        Member::at(&Place { network, node, rank: None, timeout: Duration::ZERO, meet: None }, shape)
    }

    /// Creates and joins a network with a unique name.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_private(shape: &NetworkShape, node: u16) -> Result<Arc<Member>, JobError> {
        Member::join_network(&private_name(), shape, node)
    }

    /// All ranks of a job, in this process: for tests, and for clusters of one process.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn all_of_job(shape: Shape) -> Result<Vec<Arc<Member>>, JobError> {
        let network = private_name();
        let rank = |rank| {
            let place = Place {
                network: network.clone(),
                node: shape.node_of(rank),
                rank: Some(Rank { rank, shape }),
                timeout: Duration::ZERO,
                meet: None,
            };
            Member::at(&place, &NetworkShape::of_job(shape))
        };
        (0..shape.processes()).map(rank).collect()
    }

    pub(crate) fn at(place: &Place, shape: &NetworkShape) -> Result<Arc<Member>, JobError> {
        let base = Arc::new(Base::open(&place::runtime_dir())?);
        let rank = place.rank.map(|rank| rank.rank);
        let entered = Network::enter(&base, &place.network, Some(shape), rank, |directory, table, made| {
            let (id, listener) = take_seat(place, shape, directory, table)?;
            Ok((id, listener, made))
        })?;
        let Some((network, (me, listener, made))) = entered else {
            return Err(JobError::NoNetwork { name: place.network.clone(), path: base.path().into() });
        };
        if made {
            sweep(&base);
        }
        let network = Arc::new(network);
        let postman = Postman::start(me, network.clone(), listener);
        let postman = postman.map_err(|source| {
            network.table.end(me, PeerState::Left);
            network.leave(Some(me));
            JobError::system("start a thread (`ulimit -u` and `ulimit -v` limit them)")(source)
        })?;
        let calls = rank.map(|rank| Collective::of(&network, rank));
        if rank.is_some() {
            // Ranks that wait for no others may come one after the other.
            trace::run::is_of(format!("{:016x}", network.table.token()));
        }
        let departures = Arc::new(AtomicU32::new(0));
        let count = departures.clone();
        postman.post.on_gone(
            LATER,
            Arc::new(move |_, _| {
                count.fetch_add(1, Ordering::SeqCst);
                futex::wake_private(&count);
            }),
        );
        Ok(Arc::new(Member {
            process: std::process::id(),
            me,
            node: place.node,
            rank,
            network,
            postman,
            calls: Mutex::new(calls),
            departures,
            made,
            transport: AtomicBool::new(false),
            far: OnceLock::new(),
        }))
    }

    fn say_made(&self) {
        let (name, shape, node) = (self.network.directory.name(), self.shape(), self.node);
        let line = format!(
            "ggas: made network {name} of this user ({shape}), this process is on node {node}; GGAS_QUIET=1 silences \
             this\n"
        );
        // Nobody may be there to read it.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }

    /// For transports: `true` for the first call only, as a member can have one transport in its life.
    pub fn claim_transport(&self) -> bool {
        !self.transport.swap(true, Ordering::AcqRel)
    }

    /// Whether this member made the network.
    pub fn has_made(&self) -> bool {
        self.made
    }

    /// A counter that grows whenever a member is found to have left or to be lost: callers need to look at states of
    /// members only when the counter has changed.
    pub fn departures(&self) -> &Arc<AtomicU32> {
        &self.departures
    }

    /// Leaves the network before the value is dropped: other members see that this member has left, and a network
    /// without other members is removed.
    pub fn leave(&self) {
        if let Some(far) = self.far.get().filter(|_| self.check_member().is_ok()) {
            far.leave();
        }
        if self.check_member().is_ok() && self.network.table.end(self.me, PeerState::Left) {
            self.network.leave(Some(self.me));
        }
    }

    /// Treats another member as dead, as if its end had been noticed. May be called at any time, any number of times.
    /// In a fork, nothing happens.
    pub fn lose(&self, id: MemberId) {
        if id != self.me && !self.is_far(id.slot) && self.check_member().is_ok() {
            self.postman.post.gone(id);
        }
    }

    /// Sets the handler of messages of a kind. Messages of this kind that came before are handled first, in order. The
    /// handler runs on a thread that must not block; in a fork it never runs.
    pub fn handle(&self, kind: u16, handler: Handler) {
        if self.check_member().is_ok() {
            self.postman.post.handle(kind, handler);
        }
    }

    /// Runs a function on the thread of the handlers, after a delay; in a fork it never runs.
    pub fn soon(&self, delay: Duration, task: impl FnOnce() + Send + 'static) {
        if self.check_member().is_ok() {
            self.postman.post.soon(delay, Box::new(task));
        }
    }

    /// Sends a message of at most about 8,000 bytes to the member's handler of this kind. Messages from one member to
    /// another keep their order. `Ok(false)`: the member had no room for the message until `deadline`. To ranks on other hosts
    /// rank 0 passes them on, without descriptors.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::NotConnected`]: the member is gone, or rank 0 by which it would be reached. An error when called
    /// in a fork, and for descriptors to another host; errors of the system.
    pub fn send(
        &self,
        to: MemberId,
        kind: u16,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> std::io::Result<bool> {
        self.check_member().map_err(std::io::Error::other)?;
        if let Some(far) = self.far.get().filter(|far| fds.is_empty() && far.is_far(to.slot)) {
            if body.len() > MAX_MESSAGE {
                let why = format!("{} bytes are more than {MAX_MESSAGE}", body.len());
                return Err(std::io::Error::other(why));
            }
            return far.send(to, kind, body, deadline);
        }
        self.check_near(to.slot).map_err(std::io::Error::other)?;
        match self.postman.post.send(to, kind, body, fds, deadline) {
            Ok(()) => Ok(true),
            Err(WireError::Timeout) => Ok(false),
            Err(WireError::Closed) => Err(std::io::ErrorKind::NotConnected.into()),
            Err(WireError::System(error)) => Err(error),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// As [`Members::on_gone`], but called before the handlers that were registered there.
    pub fn on_gone_first(&self, handler: Arc<dyn Fn(MemberId, PeerState) + Send + Sync>) -> GoneGuard {
        self.register(FIRST, handler)
    }

    fn register(&self, order: u64, handler: Arc<dyn Fn(MemberId, PeerState) + Send + Sync>) -> GoneGuard {
        if self.check_member().is_err() {
            return GoneGuard(None);
        }
        let post = self.postman.post.clone();
        let id = post.on_gone(order, handler);
        // In a fork, the lock may be one that nobody opens.
        GoneGuard(Some(Box::new(move || {
            if post.is_here() {
                post.forget_gone(id)
            }
        })))
    }

    /// Connects to a member, so that its end is noticed at once.
    pub(crate) fn watch(&self, id: MemberId, deadline: Instant) -> Result<(), WireError> {
        self.postman.post.connect(id, deadline).map(drop)
    }

    pub(crate) fn kick(&self) {
        self.postman.post.kick();
    }

    pub(crate) fn hold_back(&self, held: Box<dyn Fn() -> bool + Send + Sync>) {
        self.postman.post.hold_back(held);
    }

    /// The transport's memory of a node, `bytes` long. The first caller creates it: `reserved` bytes are allocated, and
    /// all bytes are zero except those that `fill` writes.
    ///
    /// # Errors
    /// There is no memory (the error tells what to do); another version of the library created it; called in a fork;
    /// errors of the system.
    pub fn node_memory(
        &self,
        node: u16,
        (bytes, reserved): (usize, usize),
        fill: impl FnOnce(&Mapping),
    ) -> std::io::Result<NodeMemory> {
        self.check_member().map_err(std::io::Error::other)?;
        NodeMemory::open_or_make(self.network.directory.as_fd(), node, (bytes, reserved), fill)
    }

    /// The transport's memory of the whole network, `bytes` long, zero at first, allocated at once. Processes that are
    /// no members get it by [`memory_of_network`](crate::memory_of_network).
    ///
    /// # Errors
    /// As [`node_memory`](Self::node_memory).
    pub fn network_memory(&self, bytes: usize) -> std::io::Result<NodeMemory> {
        self.check_member().map_err(std::io::Error::other)?;
        NodeMemory::of_network(&self.network.directory, bytes).map_err(io_error)
    }

    /// Waits for all ranks of the job at its start: those that left may come again as other processes.
    pub(crate) fn start(&self, meet: Option<&Meet>, timeout: Duration) -> Result<(), JobError> {
        if let Some((meet, shape)) = meet.zip(self.shape().ranks()) {
            return self.meet_hosts(meet, shape, timeout);
        }
        let waited = timeout;
        self.with_calls(true, |meeting, calls| meeting.barrier(calls, timeout)).map_err(|error| match error {
            JobError::Timeout { waiting_for, .. } => JobError::Missing { ranks_missing: waiting_for, waited },
            error => error,
        })
    }

    /// Says what names this run of a job, alike on all ranks, once all have begun.
    pub(crate) fn name_run(&self) {
        let table = &self.network.table;
        let name = match (self.far.get(), self.rank) {
            (Some(far), _) => Some(format!("{:016x}", far.first())),
            (None, Some(rank)) => Some(format!("{:016x}-{}", table.token(), words::run(table, rank))),
            (None, None) => None,
        };
        name.into_iter().for_each(trace::run::is_of);
    }

    /// Members of this host.
    pub(crate) fn near(&self) -> Vec<MemberInfo> {
        let table = &self.network.table;
        table.joined().filter_map(|id| member_info(table, id)).collect()
    }

    fn with_calls<T>(
        &self,
        is_start: bool,
        call: impl FnOnce(&Meeting<'_>, &mut Collective) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        self.check_member()?;
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(rank), Some(calls)) = (self.rank, calls.as_mut()) else { return Err(JobError::NoJob) };
        call(&Meeting { network: &self.network, rank, losses: &self.departures, is_start }, calls)
    }

    /// A fork has the memory of a member, and none of its threads.
    pub(crate) fn check_member(&self) -> Result<(), JobError> {
        let child = std::process::id();
        if child == self.process { Ok(()) } else { Err(JobError::Forked { member: self.process, child }) }
    }
}

impl Members for Member {
    fn me(&self) -> MemberId {
        self.me
    }

    fn node(&self) -> u16 {
        self.node
    }

    fn rank(&self) -> Option<u32> {
        self.rank
    }

    fn network(&self) -> &str {
        self.network.directory.name()
    }

    fn shape(&self) -> &NetworkShape {
        &self.network.table.shape
    }

    fn host(&self, id: MemberId) -> Option<String> {
        if let Some(host) = self.far.get().and_then(|far| far.host(id.slot)) {
            return Some(host.to_owned());
        }
        nix::unistd::gethostname().ok()?.into_string().ok()
    }

    #[inline]
    fn state(&self, id: MemberId) -> PeerState {
        match self.far.get().and_then(|far| far.info(id.slot)) {
            Some(far) if far.id == id => far.state,
            Some(_) => PeerState::Absent,
            None => self.network.table.state(id),
        }
    }

    fn at(&self, slot: u32) -> Option<MemberInfo> {
        if let Some(far) = self.far.get().and_then(|far| far.info(slot)) {
            return Some(far);
        }
        member_info(&self.network.table, self.network.table.last(slot)?.0)
    }

    fn list(&self) -> Vec<MemberInfo> {
        self.near().into_iter().chain(self.far.get().into_iter().flat_map(Far::infos)).collect()
    }

    fn publish(&self, key: &str, bytes: &[u8]) -> Result<(), JobError> {
        self.check_member()?;
        checked_key(key)?;
        if bytes.len() > EXCHANGE_MAX {
            return Err(JobError::TooLong { len: bytes.len(), most: EXCHANGE_MAX });
        }
        let mut said = self.me.generation.to_le_bytes().to_vec();
        said.extend_from_slice(bytes);
        published::write(&self.network, self.me.slot, &format!("key.{key}"), &said)
    }

    fn look_up(&self, id: MemberId, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        checked_key(key)?;
        self.check_near(id.slot)?;
        let said = published::read(&self.network, id.slot, &format!("key.{key}"), 4 + EXCHANGE_MAX)?;
        let said = said.as_deref().and_then(<[u8]>::split_first_chunk);
        Ok(said.and_then(|(generation, bytes)| {
            (u32::from_le_bytes(*generation) == id.generation).then(|| bytes.to_vec())
        }))
    }

    fn barrier(&self, timeout: Duration) -> Result<(), JobError> {
        if let Some(far) = self.far.get() {
            self.check_member()?;
            return far.barrier(timeout);
        }
        self.with_calls(false, |meeting, calls| meeting.barrier(calls, timeout))
    }

    fn exchange(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, JobError> {
        if let Some(far) = self.far.get() {
            self.check_member()?;
            if bytes.len() > EXCHANGE_MAX {
                return Err(JobError::TooLong { len: bytes.len(), most: EXCHANGE_MAX });
            }
            return far.exchange(bytes, timeout);
        }
        self.with_calls(false, |meeting, calls| meeting.exchange(calls, bytes, timeout))
    }

    fn on_gone(&self, handler: Arc<dyn Fn(MemberId, PeerState) + Send + Sync>) -> GoneGuard {
        self.register(LATER, handler)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.check_member().is_err() {
            // The fork's copy: the member, its threads and its locks are none of our business.
            if let Some(far) = self.far.get() {
                far.leave(); // which does nothing there
            }
            return self.postman.forget();
        }
        if let Some(far) = self.far.get() {
            far.leave();
        }
        // Before its connections are closed, by which the others notice.
        self.network.table.end(self.me, PeerState::Left);
        self.postman.stop();
        self.network.leave(Some(self.me));
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Member");
        debug.field("network", &self.network()).field("id", &self.me).field("node", &self.node).finish()
    }
}

fn checked_key(key: &str) -> Result<(), JobError> {
    if (1..=32).contains(&key.len()) && key.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let advice = "use 1 to 32 letters and digits".into();
    Err(JobError::Setting { name: "key", value: key.into(), advice })
}
