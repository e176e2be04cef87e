//! Messages between members, and detection of members that end.
//!
//! Each member listens on a socket in the network's directory. Two members connect when one of them sends the first
//! message to the other. The connection stays; when it hangs up, or the process at its other end dies, that member is
//! gone. One thread for each member sleeps in `poll` for connections, messages and deaths.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::{Deserialize, Serialize};

use crate::channel::{Channel, WireError};
use crate::fds::kept;
use crate::network::Network;
use crate::process::Life;
use crate::round::Round;
use crate::socket::{peer_of, socket_name, try_connect};
use crate::table::{MemberId, PeerState};
use crate::{pidfd, quiet};

/// Between two attempts to connect to a member that is there and does not accept.
const NAP: Duration = Duration::from_millis(1);

/// What members say to each other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Wire {
    /// The first message of whoever connects.
    Hello { from: (u32, u32), to: (u32, u32) },
    /// For whoever handles messages of this kind.
    Message { kind: u16, body: Vec<u8> },
}

/// What becomes of messages of a kind.
pub type Handler = Arc<dyn Fn(MemberId, Vec<u8>, Vec<OwnedFd>) + Send + Sync>;
type GoneHandler = Arc<dyn Fn(MemberId, PeerState) + Send + Sync>;
type Task = Box<dyn FnOnce() + Send>;

/// A message that came before anyone handled its kind.
type Early = (u16, MemberId, Vec<u8>, Vec<OwnedFd>);
/// Such messages that are kept.
const EARLY_MAX: usize = 4096;

/// A member that this one has a connection with.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Two, where both connected at once: each side sends on the first that it has.
    pub(crate) channels: Vec<Arc<Channel>>,
    /// `None`: its connections alone say when it goes.
    pub(crate) pidfd: Option<Arc<OwnedFd>>,
}

/// What the thread shares with callers.
pub(crate) struct Post {
    /// The process that joined: forks have a copy of this, and locks that nobody may ever open.
    process: u32,
    pub(crate) me: MemberId,
    pub(crate) network: Arc<Network>,
    state: Mutex<State>,
    /// Asked before connections are read: `true` while what came before has to be taken first.
    held_back: Mutex<Option<Box<dyn Fn() -> bool + Send + Sync>>>,
    /// Not a pipe: programs that do not ignore SIGPIPE are killed for one that nobody reads any more.
    pub(crate) kick: EventFd,
    pub(crate) stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    peers: HashMap<MemberId, Peer>,
    handlers: HashMap<u16, Handler>,
    /// In the order in which they came.
    early: VecDeque<Early>,
    gone: BTreeMap<u64, GoneHandler>,
    /// By slot: generation of the last member whose end was reported.
    reported: HashMap<u32, u32>,
    next: u64,
    tasks: Vec<(Instant, Task)>,
}

/// The thread; stops when dropped.
pub(crate) struct Postman {
    pub(crate) post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
    /// This is a fork's copy.
    forgotten: bool,
}

impl Postman {
    pub(crate) fn start(me: MemberId, network: Arc<Network>, listener: OwnedFd) -> io::Result<Postman> {
        let kick = OwnedFd::from(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        // SAFETY: the descriptor is one of an eventfd.
        let kick = unsafe { EventFd::from_owned_fd(kept(kick)) };
        // A rank does not outlive the launcher that keeps its network.
        let guardian = match network.table.shape.ranks().and_then(|_| network.table.keeper()) {
            Some(keeper) if keeper != std::process::id() => pidfd::open(keeper).ok(),
            _ => None,
        };
        let post = Arc::new(Post {
            process: std::process::id(),
            me,
            network,
            state: Mutex::default(),
            held_back: Mutex::default(),
            kick,
            stopped: AtomicBool::new(false),
        });
        let run = post.clone();
        let thread = quiet::spawn("ggas-post", move || Round::new(&run, listener, guardian).run())?;
        Ok(Postman { post, thread: Some(thread), forgotten: false })
    }

    /// In a fork there is no thread to stop.
    pub(crate) fn forget(&mut self) {
        self.forgotten = true;
        std::mem::forget(self.thread.take());
    }

    /// Ends the thread and all connections.
    pub(crate) fn stop(&mut self) {
        self.post.stopped.store(true, Ordering::SeqCst);
        self.post.kick();
        if let Some(thread) = self.thread.take()
            // A handler may hold the last reference to the member.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        // Handlers hold what holds this.
        let mut state = self.post.state();
        let all = std::mem::take(&mut *state);
        drop(state);
        all.peers.values().for_each(Peer::hang_up);
        drop(all);
    }
}

impl Drop for Postman {
    fn drop(&mut self) {
        if !self.forgotten {
            self.stop();
        }
    }
}

impl Peer {
    /// Ends the connections, whoever else has copies of their descriptors: forks of this process.
    fn hang_up(&self) {
        self.channels.iter().for_each(|channel| channel.shut_down());
    }
}

impl Post {
    /// Whether this is the process that joined.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread look.
    pub(crate) fn kick(&self) {
        // One that cannot count on kicks as well.
        let _ = self.kick.write(1);
    }

    /// Handles messages of a kind from now on, and those that came before. On the thread: their order stays.
    pub(crate) fn handle(&self, kind: u16, handler: Handler) {
        let before = self.state().handlers.insert(kind, handler);
        drop(before);
        self.kick();
    }

    /// Calls `handler` once for each member whose end is noticed from now on, after the messages that it had sent, on
    /// the thread or that of [`gone`](Self::gone). Those of a lower `order` are called first.
    pub(crate) fn on_gone(&self, order: u64, handler: GoneHandler) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let id = order + state.next;
        state.gone.insert(id, handler);
        id
    }

    pub(crate) fn forget_gone(&self, id: u64) {
        let forgotten = self.state().gone.remove(&id);
        drop(forgotten);
    }

    /// While `held` says so, connections are not read, and whoever sends waits.
    pub(crate) fn hold_back(&self, held: Box<dyn Fn() -> bool + Send + Sync>) {
        *self.held_back.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    }

    pub(crate) fn is_held_back(&self) -> bool {
        let held = self.held_back.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().is_some_and(|held| held())
    }

    /// Does something on the thread, `delay` from now.
    pub(crate) fn soon(&self, delay: Duration, task: Task) {
        self.state().tasks.push((Clock::REAL.now() + delay, task));
        self.kick();
    }

    /// Sends a message; connects first where that has not been done.
    ///
    /// # Errors
    /// [`WireError::Closed`]: the member is gone. [`WireError::Timeout`]: it does not take anything by `deadline`.
    pub(crate) fn send(
        &self,
        to: MemberId,
        kind: u16,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), WireError> {
        // The same for all messages, so that they keep their order.
        let channel = self.connect(to, deadline)?;
        channel.send(&Wire::Message { kind, body: body.to_vec() }, fds, deadline)
    }

    /// The connection with a member on which this one sends.
    pub(crate) fn connect(&self, to: MemberId, deadline: Instant) -> Result<Arc<Channel>, WireError> {
        let table = &self.network.table;
        loop {
            if let Some(channel) = self.state().peers.get(&to).and_then(|peer| peer.channels.first()) {
                return Ok(channel.clone());
            }
            if table.state(to) != PeerState::Joined || to == self.me {
                return Err(WireError::Closed);
            }
            match try_connect(&self.network.directory, &socket_name(to.slot)) {
                Ok(fd) => {
                    peer_of(fd.as_fd()).map_err(WireError::Malformed)?;
                    let channel = Arc::new(Channel::new(fd));
                    let (from, to_) = ((self.me.slot, self.me.generation), (to.slot, to.generation));
                    channel.send(&Wire::Hello { from, to: to_ }, &[], deadline)?;
                    if !self.add(to, &channel) {
                        self.gone(to);
                        return Err(WireError::Closed);
                    }
                    self.kick();
                    // It may have connected at the same time, and be sent to there already.
                    continue;
                }
                // Nobody listens: it has ended, or runs another program (exec). A member leaves the table first.
                Err(Errno::ECONNREFUSED) if table.state(to) == PeerState::Joined => {
                    self.gone(to);
                    return Err(WireError::Closed);
                }
                Err(Errno::ENOENT) if table.life(to) != Life::Here => {
                    self.gone(to);
                    return Err(WireError::Closed);
                }
                // About to leave, or so many wait that it does not accept.
                Err(Errno::ENOENT | Errno::ECONNREFUSED | Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if Clock::REAL.now() >= deadline {
                return Err(WireError::Timeout);
            }
            Clock::REAL.sleep(NAP);
        }
    }

    /// Watches a member from now on; `false` where its process has ended.
    pub(crate) fn add(&self, id: MemberId, channel: &Arc<Channel>) -> bool {
        let table = &self.network.table;
        let pid = table.slot(id.slot).map_or(0, |slot| slot.who.pid.load(Ordering::Relaxed));
        let process = match table.life(id) {
            Life::Over => return false,
            Life::Here => pidfd::open(pid),
            Life::Elsewhere => pidfd::of_peer(channel.as_fd()),
        };
        let pidfd = match process {
            // Opened, then looked at again: the id may have become another's in between.
            Ok(fd) if table.life(id) != Life::Over => Some(Arc::new(fd)),
            Ok(_) | Err(Errno::ESRCH) => return false,
            // No descriptor is left, or a filter forbids it: that is not its end.
            Err(_) => None,
        };
        let mut state = self.state();
        let peer = state.peers.entry(id).or_insert(Peer { channels: Vec::new(), pidfd });
        peer.channels.push(channel.clone());
        true
    }

    /// A member is gone: its state first, then whoever wants to know. On any thread, any number of times.
    pub(crate) fn gone(&self, id: MemberId) {
        let table = &self.network.table;
        // This member counts as lost for the others, which hung up on it: that says nothing about the others.
        if table.state(self.me) == PeerState::Joined {
            table.end(id, PeerState::Lost);
        }
        let peer = self.state().peers.remove(&id);
        peer.iter().for_each(Peer::hang_up);
        let how = if table.state(id) == PeerState::Left { PeerState::Left } else { PeerState::Lost };
        self.report(id, how);
    }

    /// Tells whoever wants to know that a member is gone, once.
    pub(crate) fn report(&self, id: MemberId, how: PeerState) {
        let handlers: Vec<GoneHandler> = {
            let mut state = self.state();
            let is_news = state.reported.insert(id.slot, id.generation) != Some(id.generation);
            if is_news { state.gone.values().cloned().collect() } else { Vec::new() }
        };
        handlers.iter().for_each(|handler| handler(id, how));
    }

    /// Whether a member's end was reported already.
    pub(crate) fn was_reported(&self, id: MemberId) -> bool {
        self.state().reported.get(&id.slot) == Some(&id.generation)
    }

    /// Whom this member has connections with.
    pub(crate) fn peers(&self) -> Vec<(MemberId, Peer)> {
        self.state().peers.iter().map(|(id, peer)| (*id, peer.clone())).collect()
    }

    pub(crate) fn is_peer(&self, id: MemberId) -> bool {
        self.state().peers.contains_key(&id)
    }

    /// A message came; on the thread, which alone calls handlers: they get messages in the order of their coming.
    pub(crate) fn take(&self, from: MemberId, kind: u16, body: Vec<u8>, fds: Vec<OwnedFd>) {
        let mut state = self.state();
        if state.early.len() >= EARLY_MAX && !state.handlers.contains_key(&kind) {
            return tracing::warn!("a message of kind {kind} dropped: nobody takes them");
        }
        state.early.push_back((kind, from, body, fds));
        drop(state);
        self.deliver();
    }

    /// Hands out what came and has a handler now; on the thread.
    pub(crate) fn deliver(&self) {
        loop {
            let (handler, (_, from, body, fds)) = {
                let mut state = self.state();
                let State { early, handlers, .. } = &mut *state;
                let first = early.iter().position(|(kind, ..)| handlers.contains_key(kind));
                let Some(message) = first.and_then(|at| early.remove(at)) else { return };
                let Some(handler) = handlers.get(&message.0).cloned() else { return };
                (handler, message)
            };
            handler(from, body, fds);
        }
    }

    /// Tasks that are due, and when the next one is.
    pub(crate) fn due(&self) -> (Vec<Task>, Option<Instant>) {
        let now = Clock::REAL.now();
        let mut state = self.state();
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.tasks).into_iter().partition(|(at, _)| *at <= now);
        let next = later.iter().map(|(at, _)| *at).min();
        state.tasks = later;
        (due.into_iter().map(|(_, task)| task).collect(), next)
    }
}
