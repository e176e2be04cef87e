//! What the threads of a process share: the node's ports, and what is known of the other processes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use extoll_abi::{Address, Command, ErrorUnits, Kind};
use ggas::device::Sent;
use ggas::members::{Members, PeerState};
use ggas::{Connection, HostBuffer, Job, Port, Region};
use ggas_clock::Clock;

use crate::calls::{Calls, Matter};
use crate::create::Unfinished;
use crate::crowd::Pace;
use crate::deaths::Deaths;
use crate::error::because;
use crate::gpu::Gpus;
use crate::group::Groups;
use crate::ledger::{Ledger, Way};
use crate::outbox::Outbox;
use crate::passive::Passive;
use crate::puts::Puts;
use crate::segment::{Segment, Segments};
use crate::service::News;
use crate::statistics::Statistics;
use crate::stores::Stores;
use crate::wire::{Answer, Ask, KIND, Message, Place};
use crate::{Config, GaspiError, Timeout};

/// Least time that a message has to be taken in: what it asks for has a time limit of its own.
const SENDING: Duration = Duration::from_secs(1);
/// How long messages that found no room wait until they are tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The way to another process.
#[derive(Debug)]
pub(crate) struct Link {
    pub data: Connection,
    /// For collectives, whose notifications of errors meet no requests of queues.
    pub control: Connection,
    /// Where it has the word 1, which a get fetches behind its data as a notification.
    pub one: u64,
}

pub(crate) struct Shared {
    pub config: Config,
    pub me: usize,
    // Registered memory goes before its ports, these before their node.
    pub segments: Segments,
    pub groups: Groups,
    pub passive: Passive,
    pub gpu: Gpus,
    pub calls: Calls,
    pub unfinished: Unfinished,
    pub outbox: Outbox,
    pub deaths: Deaths,
    pub puts: Puts,
    pub stores: Stores,
    pub statistics: Statistics,
    pub pace: Pace,
    /// By rank: who posts to it. Before the lock of the ledger.
    pub turns: Vec<Mutex<()>>,
    ledger: Mutex<Ledger>,
    /// Most notifications of the data port's requests that may be on their way.
    pub notifications: u32,
    corrupt: Vec<AtomicBool>,
    /// Ranks that have ended, and all of whose messages were looked at.
    silent: Vec<AtomicBool>,
    pub links: Vec<Link>,
    ranks: HashMap<Address, usize>,
    pub one: Region,
    pub data: Port,
    pub control: Port,
    pub inbox: Sender<News>,
    /// Where somebody asks what this process moves without ports: these count for themselves.
    sent: Option<Arc<Sent>>,
    pub job: Job,
}

/// The parts that are there first.
pub(crate) struct Ports {
    pub data: Port,
    pub control: Port,
    pub one: Region,
    pub stores: Stores,
    /// Notifications of requests for which the data port has room.
    notifications: u32,
}

impl Ports {
    pub(crate) fn open(job: &Job, config: &Config) -> Result<Ports, GaspiError> {
        let device = because::<ggas::PortError>;
        // Every request that is not collected has one, those that get more as long as there is room; those of errors, of
        // which nobody asked for one, come besides.
        let notifications = crate::config::QUEUES_MAX * config.queue_size_max.max(256);
        let queue_bytes = (2 * notifications as usize * 16).next_multiple_of(64 << 10);
        let setup = ggas::PortConfig { queue_bytes, ..ggas::PortConfig::default() };
        let data = job.node().open_port(setup).map_err(device(GaspiError::Device))?;
        let control =
            job.node().open_port(ggas::PortConfig::default()).map_err(device(GaspiError::Device))?;
        let one = HostBuffer::zeroed(8).map_err(because(GaspiError::Memory))?;
        one.store_u64(0, 1);
        let one = data.register(one).map_err(because(GaspiError::Memory))?;
        Ok(Ports { data, control, one, stores: Stores::new(job)?, notifications })
    }
}

impl Shared {
    pub(crate) fn new(
        job: Job,
        config: Config,
        ports: Ports,
        links: Vec<Link>,
        groups: Groups,
        inbox: Sender<News>,
        pace: Pace,
    ) -> Shared {
        let size = links.len();
        let by_address = links.iter().enumerate().map(|(rank, link)| (link.data.remote(), rank));
        Shared {
            me: job.rank() as usize,
            segments: Segments::new(size, config.segment_max),
            groups,
            passive: Passive::new(size, config.passive_transfer_size_max),
            gpu: Gpus::default(),
            calls: Calls::default(),
            unfinished: Unfinished::default(),
            outbox: Outbox::default(),
            deaths: Deaths::new(size),
            puts: Puts::new(links.iter().map(|link| link.control.remote())),
            statistics: Statistics::default(),
            pace,
            notifications: ports.notifications,
            turns: (0..size).map(|_| Mutex::default()).collect(),
            ledger: Mutex::new(Ledger::new(size, config.queue_num, config.queue_size_max)),
            corrupt: (0..size).map(|_| AtomicBool::new(false)).collect(),
            silent: (0..size).map(|_| AtomicBool::new(false)).collect(),
            ranks: by_address.collect(),
            links,
            one: ports.one,
            stores: ports.stores,
            data: ports.data,
            control: ports.control,
            inbox,
            sent: Sent::asked(job.node().device()),
            job,
            config,
        }
    }

    /// Counts bytes that went to a rank, or were got from it, without a port, where somebody asks.
    #[inline]
    pub(crate) fn moved(&self, rank: usize, bytes: u64, is_got: bool) {
        match &self.sent {
            Some(sent) if is_got => sent.got(rank as u32, bytes),
            Some(sent) => sent.to(rank as u32, bytes),
            None => {}
        }
    }

    pub(crate) fn clock(&self) -> &'static Clock {
        Clock::REAL
    }

    pub(crate) fn size(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn check_rank(&self, rank: u16) -> Result<usize, GaspiError> {
        let rank = usize::from(rank);
        if rank < self.size() { Ok(rank) } else { Err(GaspiError::Rank) }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something with this rank failed.
    pub(crate) fn mark(&self, rank: usize) {
        if let Some(corrupt) = self.corrupt.get(rank) {
            corrupt.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_corrupt(&self, rank: usize) -> bool {
        self.corrupt.get(rank).is_some_and(|corrupt| corrupt.load(Ordering::Acquire))
    }

    /// A rank has ended, and no message of it comes any more.
    pub(crate) fn fell_silent(&self, rank: usize) {
        // It may be noticed twice at the start.
        if let Some(silent) = self.silent.get(rank)
            && !silent.swap(true, Ordering::AcqRel)
        {
            let is_dead = self.is_lost(rank);
            self.deaths.departed(rank, is_dead, || self.mark(rank));
        }
        self.calls.wake();
        self.passive.wake();
    }

    pub(crate) fn is_silent(&self, rank: usize) -> bool {
        self.silent.get(rank).is_none_or(|silent| silent.load(Ordering::Acquire))
    }

    /// Whether a process has died: it is gone, and has not said so.
    pub(crate) fn is_lost(&self, rank: usize) -> bool {
        self.job.membership().state(rank as u32) == PeerState::Lost
    }

    /// Whether a rank is on another host: memory and descriptors do not reach it.
    pub(crate) fn is_far(&self, rank: usize) -> bool {
        self.job.membership().member().is_far(rank as u32)
    }

    /// Whether a process has ended; messages and packets of it may still come.
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        rank != self.me && self.job.membership().state(rank as u32) != PeerState::Joined
    }

    /// Enters the notifications that have come; with the lock, since their order tells whose they are.
    pub(crate) fn take_notifications(&self, ledger: &mut Ledger) {
        while let Some(notification) = self.data.poll() {
            let Some(rank) = self.ranks.get(&notification.remote()).copied() else { continue };
            let is_error = notification.error() != ErrorUnits::empty();
            let way = match (notification.kind(), notification.command().command()) {
                (Some(Kind::Requester), Some(Command::ImmediatePut)) => Way::Immediate,
                (Some(Kind::Requester), Some(Command::BtGet | Command::QwGet)) if is_error => Way::Get,
                (Some(Kind::Requester), _) => Way::Put,
                (Some(Kind::Completer), Some(Command::GetBtRsp | Command::GetQwRsp)) => Way::Get,
                // Of what others sent here.
                _ => continue,
            };
            if is_error {
                tracing::warn!("a transfer to rank {rank} failed: {notification:?}");
                self.mark(rank);
            }
            ledger.done(rank, way, is_error);
        }
    }

    /// Whether the look of this number is one at losses. At first only where something is known: calls that look once each
    /// find it out, and others do not pay for it.
    pub(crate) fn is_time_for_losses(&self, looks: u32) -> bool {
        looks.is_multiple_of(256) || looks == 1 && self.deaths.has_any_departed()
    }

    /// What gone processes were to send, and had not sent, does not come.
    pub(crate) fn look_for_losses(&self, ledger: &mut Ledger) {
        for rank in (0..self.size()).filter(|rank| self.is_gone(*rank)) {
            if ledger.fetches(rank) {
                self.data.device().drain_lost();
                self.take_notifications(ledger);
            }
            if ledger.fetches(rank) && ledger.lose(rank) {
                self.mark(rank);
            }
        }
    }

    /// Sends a message, and waits until it is taken in.
    pub(crate) fn send(&self, rank: usize, message: Message, timeout: Timeout) -> Result<(), GaspiError> {
        if rank == self.me {
            return self.inbox.send(News::From(rank, message)).map_err(because(GaspiError::NotInitialized));
        }
        self.deliver(rank, &message, timeout.duration().max(SENDING))
    }

    /// The same in this time, which may be none.
    pub(crate) fn send_within(
        &self,
        rank: usize,
        message: Message,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        if rank == self.me {
            return self.send(rank, message, timeout);
        }
        self.deliver(rank, &message, timeout.duration())
    }

    /// Sends a message without waiting, behind all others that were given to this; one to a dead process is dropped.
    pub(crate) fn post_message(&self, rank: usize, message: Message) {
        if rank == self.me {
            // A service that has ended takes none.
            return drop(self.inbox.send(News::From(rank, message)));
        }
        if self.outbox.post(rank, message, |rank, message| self.is_delivered(rank, message)) {
            self.post_later();
        }
    }

    /// What found no room is tried again.
    pub(crate) fn flush_outbox(&self) {
        if self.outbox.flush(|rank, message| self.is_delivered(rank, message)) {
            self.post_later();
        }
    }

    fn is_delivered(&self, rank: usize, message: &Message) -> bool {
        self.deliver(rank, message, Duration::ZERO) != Err(GaspiError::Timeout)
    }

    fn post_later(&self) {
        let inbox = self.inbox.clone();
        self.job.membership().member().soon(RETRY, move || drop(inbox.send(News::Room)));
    }

    /// Sends a message to another process; [`GaspiError::Timeout`]: there was no room for it.
    pub(crate) fn deliver(&self, rank: usize, message: &Message, wait: Duration) -> Result<(), GaspiError> {
        let member = self.job.membership().member();
        let body = postcard::to_stdvec(message).map_err(because(GaspiError::Failed))?;
        let deadline = self.clock().deadline(wait);
        let peer = member.at(rank as u32).filter(|peer| peer.state == PeerState::Joined);
        let passed = self.passed(message);
        let fds = match (&passed, message) {
            (Some(segment), _) => segment.descriptors(),
            (None, Message::Arena { .. }) => self.stores.fd().into_iter().collect(),
            _ => Vec::new(),
        };
        let sent = match peer {
            Some(peer) => member.send(peer.id, KIND, &body, &fds, deadline),
            None => Err(std::io::ErrorKind::NotConnected.into()),
        };
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => Err(GaspiError::Timeout),
            Err(error) => {
                self.mark(rank);
                Err(because(GaspiError::Failed)(format!("rank {rank} is not reached: {error}")))
            }
        }
    }

    /// The segment whose descriptors go with a message.
    fn passed(&self, message: &Message) -> Option<Arc<Segment>> {
        match message {
            Message::Ask { ask: Ask::Register { segment, place: Place { told: Some(_), .. } }, .. } => {
                self.segments.get(*segment).ok()
            }
            _ => None,
        }
    }

    /// Asks a process and waits for its answer.
    pub(crate) fn ask(&self, rank: usize, ask: Ask, timeout: Timeout) -> Result<Answer, GaspiError> {
        let call = self.begin(rank, ask, timeout)?;
        self.answer(rank, call, timeout)
    }

    /// The first half of it.
    pub(crate) fn begin(&self, rank: usize, ask: Ask, timeout: Timeout) -> Result<u64, GaspiError> {
        let (call, is_new) = self.calls.begin(rank, Matter::Ask(ask), self.is_silent(rank));
        if is_new && let Err(error) = self.send_within(rank, Message::Ask { call, ask }, timeout) {
            self.calls.forget(call);
            return Err(error);
        }
        Ok(call)
    }

    pub(crate) fn answer(&self, rank: usize, call: u64, timeout: Timeout) -> Result<Answer, GaspiError> {
        let answer = self.calls.wait(self.clock(), call, timeout, || self.is_silent(rank));
        if answer == Err(GaspiError::Failed) && self.is_silent(rank) {
            self.mark(rank);
        }
        answer
    }
}
