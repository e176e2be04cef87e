//! How two members meet: each gives the other its inbox and its arena, in messages of the network's members.
//!
//! Whoever sends first asks; who is asked answers, unless it has asked too. A lane of the inbox is given to a process
//! only when all was taken from it that another had left there. Nothing here blocks: asking is done on the thread of the
//! members' messages, and making a lane as new by whoever takes packets.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use ggas_clock::Clock;

use ggas_members::{Member, MemberId, Members, PeerState};

use super::fabric::ProcessFabric;
use super::inbox::Outbox;
use super::incoming::ring_back;
use super::link::{Given, Link};
use super::peer::{PeerArena, Remote};

/// Kinds of messages: this is my inbox and my arena, give me yours; here are mine.
const ASK: u16 = 1;
const ANSWER: u16 = 2;
/// My inbox is not looked at any more.
const GOODBYE: u16 = 3;
/// Before asking again a process that takes no message now.
const AGAIN: Duration = Duration::from_millis(2);

impl ProcessFabric {
    /// Begins to answer those who ask, and to notice who is gone.
    pub(super) fn answer(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        let gone = self.member().on_gone_first(Arc::new(move |id, _| {
            if let Some(fabric) = this.upgrade() {
                fabric.depart(id);
            }
        }));
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some(gone);
        for kind in [ASK, ANSWER] {
            let (this, member) = (Arc::downgrade(self), Arc::downgrade(self.member()));
            let given = move |from, _: Vec<u8>, fds: Vec<OwnedFd>| {
                let Some(fabric) = this.upgrade() else { return say_goodbye(&member, from) };
                if let Err(error) = fabric.is_given(from, fds) {
                    tracing::warn!("{from:?} gave what it should not ({error}): it is treated as lost");
                    fabric.member().lose(from);
                }
            };
            self.member().handle(kind, Arc::new(given));
        }
        let this = Arc::downgrade(self);
        let goodbye = move |from: MemberId, _: Vec<u8>, _: Vec<OwnedFd>| {
            if let Some(fabric) = this.upgrade() {
                fabric.depart(from);
            }
        };
        self.member().handle(GOODBYE, Arc::new(goodbye));
    }

    /// Tells those whom this process has met that nothing takes their packets any more.
    pub(super) fn say_goodbye(&self) {
        drop(self.gone.lock().unwrap_or_else(PoisonError::into_inner).take());
        let member = Arc::downgrade(self.member());
        for (slot, link) in (0..).zip(&self.links) {
            let id = MemberId { slot, generation: link.told.load(Ordering::Acquire) };
            if id.generation != 0 {
                say_goodbye(&member, id);
            }
        }
    }

    /// Meets a member, on the thread of messages; the card is woken when it is worth trying again. Calls while that
    /// goes on do nothing.
    pub(super) fn meet(&self, id: MemberId) {
        let Some(link) = self.link(id.slot) else { return };
        if link.asked.swap(id.generation, Ordering::AcqRel) != id.generation {
            self.soon(Duration::ZERO, move |fabric, link| fabric.prepare(link, id), id);
        }
    }

    /// Does something for a link on the thread of messages.
    fn soon(&self, delay: Duration, task: impl FnOnce(&ProcessFabric, &Link) + Send + 'static, id: MemberId) {
        let this = self.this.clone();
        self.member().soon(delay, move || {
            if let Some(fabric) = this.upgrade()
                && let Some(link) = fabric.link(id.slot)
            {
                task(&fabric, link);
            }
        });
    }

    /// A peer gave its inbox and its arena.
    fn is_given(&self, id: MemberId, fds: Vec<OwnedFd>) -> Result<(), String> {
        let [inbox, arena]: [OwnedFd; 2] = fds.try_into().map_err(|_| "not two descriptors".to_owned())?;
        let link = self.link(id.slot).ok_or("no such slot")?;
        let outbox = Outbox::map(inbox.as_fd(), self.member().shape(), self.me.slot)
            .map_err(|error| error.to_string())?;
        let arena = Arc::new(PeerArena::new(arena).map_err(|error| error.to_string())?);
        *link.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(Given { id, outbox, arena });
        self.prepare(link, id);
        Ok(())
    }

    /// Has our lane for a member ready, and goes on then.
    fn prepare(&self, link: &Link, id: MemberId) {
        match link.lane.load(Ordering::Acquire) {
            lane if lane == id.generation => self.go_on(link, id),
            0 if !link.incoming.is_ignored() => {
                self.assign_lane(link, id);
                self.go_on(link, id);
            }
            lane => {
                // Who had the slot before is gone, whether or not that was noticed.
                if lane != 0 && !link.is_parted() {
                    self.member().lose(MemberId { slot: id.slot, generation: lane });
                }
                link.wanted.store(id.generation, Ordering::Release);
                self.look_at_lane(id.slot);
            }
        }
    }

    /// From now on the lane is this member's. What its packets say is checked against the node that it is on.
    fn assign_lane(&self, link: &Link, id: MemberId) {
        if let Some(peer) = self.member().at(id.slot).filter(|peer| peer.id == id) {
            link.node.store(peer.node.into(), Ordering::Relaxed);
        }
        link.lane.store(id.generation, Ordering::Release);
    }

    /// The lane is ready: takes what the peer gave, and gives what it has not got.
    fn go_on(&self, link: &Link, id: MemberId) {
        if link.lane.load(Ordering::Acquire) != id.generation {
            return; // another has the slot
        }
        if self.member().state(self.me) != PeerState::Joined {
            return; // nobody hears this process any more
        }
        let given = link.given.lock().unwrap_or_else(PoisonError::into_inner).take_if(|given| given.id == id);
        let answers = given.is_some();
        // Who gives a second time changes nothing: packets may be on their way.
        if let Some(Given { outbox, arena, .. }) = given.filter(|_| !link.out.is_open(id.generation)) {
            let wakes = self.counters.wakes.clone();
            let remote = Arc::new(Remote::new(outbox, self.me.slot, wakes));
            link.set_arena(arena);
            link.out.open(id.generation, remote.clone());
            if link.is_gone(id.generation) || self.member().state(id) != PeerState::Joined {
                self.depart(id);
            }
            // It may have found its rings full before it could be told of room.
            ring_back(self.inbox().lane(id.slot), &remote);
            // What waits for it is worth trying, and what it sent by reference can be read now.
            self.look_again();
        }
        if link.told.load(Ordering::Acquire) == id.generation || link.is_gone(id.generation) {
            return;
        }
        let kind = if answers { ANSWER } else { ASK };
        match self.member().send(id, kind, &[], &self.given(), Clock::REAL.now()) {
            Ok(true) => link.told.store(id.generation, Ordering::Release),
            Ok(false) => self.soon(AGAIN, move |fabric, link| fabric.go_on(link, id), id),
            Err(error) => {
                tracing::debug!("{id:?} is not met: {error}");
                if self.member().state(id) == PeerState::Joined {
                    self.soon(AGAIN, move |fabric, link| fabric.go_on(link, id), id);
                } else {
                    self.look_again();
                }
            }
        }
    }

    /// Once all was taken from a lane: makes it as new for the next process, and lets go of what the last one gave. By
    /// the thread that takes packets.
    pub(super) fn renew_lane(&self, slot: u32, link: &Link) {
        let wanted = link.wanted.load(Ordering::Acquire);
        if wanted == 0 || link.incoming.has_packets(self.inbox()) {
            return;
        }
        let id = MemberId { slot, generation: wanted };
        if link.is_parted() {
            link.forget();
        }
        if link.lane.load(Ordering::Acquire) != wanted {
            link.incoming.clear(self.inbox());
            self.assign_lane(link, id);
        }
        // Where yet another has come meanwhile, the next look finds it.
        if link.wanted.compare_exchange(wanted, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.soon(Duration::ZERO, move |fabric, link| fabric.go_on(link, id), id);
        }
    }
}

/// Tells a member that nothing takes its packets here any more; later, if it takes no message now.
fn say_goodbye(member: &Weak<Member>, to: MemberId) {
    let Some(alive) = member.upgrade() else { return };
    let sent = alive.send(to, GOODBYE, &[], &[], Clock::REAL.now());
    if alive.state(to) == PeerState::Joined && !matches!(sent, Ok(true)) {
        let member = member.clone();
        alive.soon(AGAIN, move || say_goodbye(&member, to));
    }
}
