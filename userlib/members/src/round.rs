//! The thread behind [`Post`]: sleeps in `poll`, accepts, receives, notices ends.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ggas_clock::Clock;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{SockFlag, accept4};

use crate::channel::{Channel, WireError, poll_until};
use crate::fds::kept;
use crate::post::{Peer, Post, Wire};
use crate::process::Life;
use crate::socket::{has_ended, peer_of};
use crate::table::MemberId;

/// A connection that has not said who it is in this time makes room for others.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that may wait with their hello at once.
const STRANGERS: usize = 64;
/// While connections are not read (see [`Post::hold_back`]), or cannot be waited for: between two looks.
const HELD_BACK: Duration = Duration::from_millis(1);
/// While no descriptor is left for another connection: between two attempts.
const NO_FILES: Duration = Duration::from_millis(20);
/// Messages read from one connection before the next one's turn.
const BURST: usize = 64;

/// Whether something happened there, or may have.
fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.any().unwrap_or(true)
}

/// What the thread has of its own.
pub(crate) struct Round<'a> {
    post: &'a Post,
    listener: OwnedFd,
    guardian: Option<OwnedFd>,
    /// Connections that have not said who they are.
    strangers: Vec<(Channel, Instant)>,
    /// Nothing is accepted before.
    deaf: Option<Instant>,
}

impl<'a> Round<'a> {
    pub(crate) fn new(post: &'a Post, listener: OwnedFd, guardian: Option<OwnedFd>) -> Round<'a> {
        Round { post, listener, guardian, strangers: Vec::new(), deaf: None }
    }

    pub(crate) fn run(mut self) {
        while !self.post.stopped.load(Ordering::SeqCst) {
            let (due, mut next) = self.post.due();
            let worked = !due.is_empty();
            due.into_iter().for_each(|task| task());
            if worked {
                continue;
            }
            self.post.deliver();
            let held_back = self.post.is_held_back();
            if held_back {
                next = next.into_iter().chain([Clock::REAL.now() + HELD_BACK]).min();
            }
            let peers = self.post.peers();
            let ready = self.wait(&peers, next, held_back);
            self.accept();
            self.hear_strangers();
            for ((id, peer), _) in peers.iter().zip(ready).filter(|(_, ready)| *ready) {
                self.receive(*id, peer, held_back);
            }
        }
    }

    /// Sleeps until something happens; by peer, whether it is to be asked, which does not block.
    fn wait(&mut self, peers: &[(MemberId, Peer)], next: Option<Instant>, held_back: bool) -> Vec<bool> {
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        self.deaf = self.deaf.filter(|until| *until > Clock::REAL.now());
        let accepts = self.strangers.len() < STRANGERS && self.deaf.is_none();
        let mut fds = vec![watch(self.post.kick.as_fd())];
        fds.extend(self.guardian.iter().map(|guardian| watch(guardian.as_fd())));
        fds.extend(accepts.then(|| watch(self.listener.as_fd())));
        fds.extend(self.strangers.iter().map(|(channel, _)| watch(channel.as_fd())));
        let first = fds.len();
        let of_peer = |peer: &Peer| {
            let channels = if held_back { &[] } else { &peer.channels[..] };
            channels.len() + usize::from(peer.pidfd.is_some())
        };
        for (_, peer) in peers {
            let channels = peer.channels.iter().filter(|_| !held_back).map(|channel| channel.as_fd());
            fds.extend(channels.chain(peer.pidfd.as_ref().map(|fd| fd.as_fd())).map(watch));
        }
        let deadline = self.strangers.iter().map(|(_, until)| *until).chain(next).chain(self.deaf).min();
        if let Err(error) = poll_until(&mut fds, deadline) {
            // No memory, or the limit of open files is below those that are open now: everyone is asked by and by.
            tracing::debug!("poll: {error}");
            Clock::REAL.sleep(HELD_BACK);
            return vec![true; peers.len()];
        }
        if self.guardian.is_some() && fds[1].any().unwrap_or(true) {
            tracing::error!("the launcher of this job is gone: this process ends");
            // As the launcher's direct children do, by PR_SET_PDEATHSIG.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
        }
        if is_ready(&fds[0]) {
            let _ = self.post.kick.read();
        }
        let mut of_peers = &fds[first..];
        let asks = |(_, peer): &(MemberId, Peer)| {
            let (own, rest) = of_peers.split_at(of_peer(peer));
            of_peers = rest;
            own.iter().any(is_ready)
        };
        peers.iter().map(asks).collect()
    }

    fn accept(&mut self) {
        while self.strangers.len() < STRANGERS && self.deaf.is_none() {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let fd = match accept4(self.listener.as_raw_fd(), flags) {
                // SAFETY: the kernel has just made this descriptor for us.
                Ok(fd) => kept(unsafe { OwnedFd::from_raw_fd(fd) }),
                Err(Errno::EINTR | Errno::ECONNABORTED) => continue,
                Err(Errno::EAGAIN) => return,
                Err(errno) => {
                    // It stays in the queue, and poll would not sleep for it.
                    tracing::warn!("a connection cannot be accepted now: {}", errno.desc());
                    self.deaf = Some(Clock::REAL.now() + NO_FILES);
                    return;
                }
            };
            match peer_of(fd.as_fd()) {
                Ok(_) => self.strangers.push((Channel::new(fd), Clock::REAL.now() + HELLO_TIMEOUT)),
                Err(why) => tracing::warn!("connection refused: {why}"),
            }
        }
    }

    fn hear_strangers(&mut self) {
        let now = Clock::REAL.now();
        for (channel, until) in std::mem::take(&mut self.strangers) {
            match channel.try_receive::<Wire>() {
                Err(WireError::Timeout) if now < until => self.strangers.push((channel, until)),
                // Somebody who looked whether this member is there.
                Err(WireError::Timeout | WireError::Closed) => {}
                Ok((Wire::Hello { from, to }, fds)) if fds.is_empty() => {
                    let id = |(slot, generation)| MemberId { slot, generation };
                    self.welcome(id(from), id(to), channel);
                }
                Ok(_) => tracing::warn!("a connection was refused: it does not begin with a hello"),
                Err(error) => tracing::warn!("a connection was refused: {error}"),
            }
        }
    }

    /// Somebody says that it is `from`, and wants `to`.
    fn welcome(&self, from: MemberId, to: MemberId, channel: Channel) {
        // It may have left since: what it said before is heard.
        let last = self.post.network.table.last(from.slot);
        let is_known = last.is_some_and(|(last, _)| last == from) && self.is_itself(from, &channel);
        if to != self.post.me || from == to || !is_known || self.post.was_reported(from) {
            return tracing::warn!(
                "a connection was refused: {from:?} to {to:?}, which is {:?}",
                self.post.me
            );
        }
        let channel = Arc::new(channel);
        if !self.post.add(from, &channel) {
            self.read(from, &channel, usize::MAX);
            self.post.gone(from);
        }
    }

    /// Whether the process of a member made a connection, as far as can be seen from this namespace.
    fn is_itself(&self, id: MemberId, channel: &Channel) -> bool {
        let table = &self.post.network.table;
        let pid = table.slot(id.slot).map(|slot| slot.who.pid.load(Ordering::Relaxed));
        table.life(id) == Life::Elsewhere || peer_of(channel.as_fd()).ok() == pid
    }

    /// What a member says, and whether it still can.
    fn receive(&mut self, id: MemberId, peer: &Peer, held_back: bool) {
        // It may have been given up since.
        if !self.post.is_peer(id) {
            return;
        }
        let ended = peer.pidfd.as_ref().is_some_and(|fd| has_ended(fd.as_fd()));
        if held_back && !ended {
            return;
        }
        // A member that has ended sends no more: all that it sent is heard.
        let most = if ended { usize::MAX } else { BURST };
        let open = peer.channels.iter().filter(|channel| self.read(id, channel, most)).count();
        if ended || open < peer.channels.len() {
            self.hear_last(id, peer);
            self.post.gone(id);
        }
    }

    /// A member has hung up: reads its remaining messages on connections that it made and that were not read yet.
    fn hear_last(&mut self, id: MemberId, known: &Peer) {
        self.accept();
        self.hear_strangers();
        let Some((_, peer)) = self.post.peers().into_iter().find(|(peer, _)| *peer == id) else { return };
        for channel in &peer.channels {
            if !known.channels.iter().any(|known| Arc::ptr_eq(known, channel)) {
                self.read(id, channel, usize::MAX);
            }
        }
    }

    /// Takes what came on a connection, at most so many messages; `false`: no more will come.
    fn read(&self, id: MemberId, channel: &Channel, most: usize) -> bool {
        for _ in 0..most {
            match channel.try_receive::<Wire>() {
                Ok((Wire::Message { kind, body }, fds)) => self.post.take(id, kind, body, fds),
                Ok((Wire::Hello { .. }, _)) => tracing::warn!("{id:?} says hello twice"),
                Err(WireError::Timeout) => return true,
                Err(WireError::Closed) => return false,
                // This process's fault, not the sender's.
                Err(error @ WireError::NoFiles) => tracing::error!("a message of {id:?} is lost: {error}"),
                Err(error) => {
                    tracing::warn!("{id:?} sent what is no message ({error}): it is treated as lost");
                    return false;
                }
            }
        }
        true
    }
}
