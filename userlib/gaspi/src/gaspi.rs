//! [`Gaspi`]: this process as one of a job that communicate by segments.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use ggas::members::cores::{self, Cores};
use ggas::members::{GoneGuard, Members, quiet};
use ggas::{ExchangeError, Job, JobError, JoinError, LockedMemory};
use ggas_clock::Clock;

use crate::config::{COMMON, compare};
use crate::crowd::Pace;
use crate::error::because;
use crate::group::{GROUP_ALL, Groups};
use crate::meeting::{Member, Memory};
use crate::service::{NAME, News, serve};
use crate::shared::{Link, Ports, Shared};
use crate::statistics::Statistics;
use crate::stores::ShownPart;
use crate::wire::{Answer, Ask, AtomicOperation, KIND, Message};
use crate::{Config, GaspiError, Timeout};

/// How long processes that have joined may take to tell each other where they are.
const MEETING: Duration = Duration::from_secs(60);

/// What a rank tells all others at the start.
#[derive(serde::Serialize, serde::Deserialize)]
struct Said {
    data: (u16, u8),
    control: (u16, u8),
    one: u64,
    area: u64,
    shown: Option<ShownPart>,
    cores: Cores,
    config: [u64; COMMON.len()],
}

/// This process as one of a job that communicate by segments (thesis 4.2). Any thread may make any call.
///
/// A process has *segments*, which others read and write without its help; *queues*, to which such requests are posted and
/// on which their local end is waited for; *groups* of processes that meet in collectives. Calls that depend on others take
/// a [`Timeout`]. What ran out of time goes on where it stopped when the same call is made again.
///
/// # Order
/// What is posted to one process arrives in the order of the posts, whatever the queues are: who sees a notification sees
/// all that was written before it to the same segment's process.
///
/// # Progress
/// Transfers go on without calls of the target. A thread named `gaspi-service` answers registrations, pings, atomics and
/// commits of groups, and takes passive messages in. It sleeps while there is nothing to do.
///
/// Dropping it ends the process's part in the job, without waiting for others.
pub struct Gaspi {
    pub(crate) shared: Arc<Shared>,
    service: Option<JoinHandle<()>>,
    _gone: GoneGuard,
}

impl fmt::Debug for Gaspi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gaspi {{ rank: {}, ranks: {} }}", self.rank(), self.ranks())
    }
}

impl Gaspi {
    /// Joins the job that the environment names, and returns when all of its processes have. At that time the group of
    /// all ([`GROUP_ALL`]) is there, and the configured queues; no segment is.
    ///
    /// # Errors
    /// [`GaspiError::Environment`]: no launcher has started this process. [`GaspiError::Config`]: a field is out of range;
    /// [`GaspiError::Unequal`], in all processes: one has another configuration. [`GaspiError::Timeout`]: not all processes
    /// have come; it may be called again. [`GaspiError::Files`], [`GaspiError::Device`], [`GaspiError::Memory`],
    /// [`GaspiError::Reach`].
    pub fn init(config: Config, timeout: Timeout) -> Result<Gaspi, GaspiError> {
        if !ggas::members::Job::is_launched() {
            return Err(GaspiError::Environment);
        }
        Config::default().set(&config)?;
        let began = Clock::REAL.now();
        let builder = Job::builder().locked_memory(LockedMemory::Unlimited);
        let job = builder.join_timeout(timeout.duration()).join().map_err(|error| {
            let code = match &error {
                JoinError::Job(JobError::Missing { .. } | JobError::Timeout { .. }) => GaspiError::Timeout,
                JoinError::Job(JobError::Setting { .. } | JobError::Incomplete { .. }) => {
                    GaspiError::Environment
                }
                JoinError::Job(JobError::Files { .. } | JobError::Descriptors { .. }) => GaspiError::Files,
                JoinError::Job(JobError::Memory { .. }) => GaspiError::Memory,
                JoinError::Job(_) => GaspiError::Reach,
                _ => GaspiError::Device,
            };
            because(code)(error)
        })?;
        let ports = Ports::open(&job, &config)?;
        let mut memory = Memory::new(
            (job.rank() as usize, job.size() as usize),
            config.reduction_bytes(),
            &ports.control,
        )?;
        memory.show(&ports.stores, GROUP_ALL);
        let address = |port: &ggas::Port| (port.address().node, port.address().vpid);
        let said = Said {
            data: address(&ports.data),
            control: address(&ports.control),
            one: ports.one.nla(0).map_err(because(GaspiError::Memory))?,
            area: memory.nla()?,
            shown: memory.shown,
            cores: cores::own(),
            config: config.common(),
        };
        let left = timeout
            .duration()
            .saturating_sub(Clock::REAL.since(began))
            .clamp(Duration::from_secs(1), MEETING);
        let all = job.exchange_values(&said, left).map_err(|error| match &error {
            ExchangeError::Job(JobError::Timeout { .. }) => because(GaspiError::Timeout)(error),
            _ => because(GaspiError::Reach)(error),
        })?;
        compare(all.iter().map(|said| said.config))?;
        let to = |(node, vpid)| extoll_abi::Address::new(node, vpid);
        let link = |said: &Said| Link {
            data: ports.data.connect(to(said.data)),
            control: ports.control.connect(to(said.control)),
            one: said.one,
        };
        let links: Vec<Link> = all.iter().map(link).collect();
        let member = |(rank, said): (usize, &Said)| Member { rank, area: said.area, shown: said.shown };
        let members = all.iter().enumerate().map(member).collect();
        let is_near = |rank: usize| !job.membership().member().is_far(rank as u32);
        let pace =
            Pace::of(all.iter().enumerate().filter(|(rank, _)| is_near(*rank)).map(|(_, said)| said.cores));
        let crowd = (0..all.len()).map(|rank| pace.is_crowded && is_near(rank)).collect();
        let groups = Groups::new(job.rank() as usize, memory, members, crowd);
        Gaspi::begin(job, config, ports, links, groups, pace)
    }

    fn begin(
        job: Job,
        config: Config,
        ports: Ports,
        links: Vec<Link>,
        groups: Groups,
        pace: Pace,
    ) -> Result<Gaspi, GaspiError> {
        let (inbox, news) = channel();
        let (member, size) = (job.membership().member().clone(), links.len());
        let shared = Arc::new(Shared::new(job, config, ports, links, groups, inbox.clone(), pace));
        let serving = shared.clone();
        let service =
            quiet::spawn(NAME, move || serve(&serving, &news)).map_err(because(GaspiError::Memory))?;
        // Messages that came before wait for this.
        member.handle(
            KIND,
            Arc::new(move |from, body, fds| match postcard::from_bytes::<Message>(&body) {
                _ if from.slot as usize >= size => tracing::warn!("a message of {from:?}, which is no rank"),
                // A service that has ended takes none.
                Ok(message) if fds.is_empty() => drop(inbox.send(News::From(from.slot as usize, message))),
                Ok(message) => drop(inbox.send(News::Passed(from.slot as usize, message, fds))),
                Err(error) => tracing::warn!("a message of rank {} dropped: {error}", from.slot),
            }),
        );
        let told = shared.inbox.clone();
        shared.greet();
        // Called behind the last message of a member. A service that has ended does not care.
        let gone = member.on_gone(Arc::new(move |id, _| drop(told.send(News::Gone(id.slot as usize)))));
        for rank in (0..shared.size()).filter(|rank| shared.is_gone(*rank)) {
            let _ = shared.inbox.send(News::Gone(rank));
        }
        Ok(Gaspi { shared, service: Some(service), _gone: gone })
    }

    /// Configuration with which it began.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The job: a program may use ports of its node beside.
    pub fn job(&self) -> &Job {
        &self.shared.job
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u16 {
        self.shared.me as u16
    }

    /// Processes.
    pub fn ranks(&self) -> u16 {
        self.shared.size() as u16
    }

    /// What it has done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// Whether anything with a rank has failed since the start, by rank. That a process has died shows at once, without a call
    /// that has to do with it: its connections are closed.
    pub fn state_vector(&self) -> Vec<bool> {
        self.shared.deaths.look(|rank| self.shared.is_corrupt(rank))
    }

    /// Asks whether a process is alive; its program need not be calling.
    ///
    /// # Errors
    /// [`GaspiError::Rank`], [`GaspiError::Timeout`]; [`GaspiError::Failed`] when it is dead.
    pub fn ping(&self, rank: u16, timeout: Timeout) -> Result<(), GaspiError> {
        let rank = self.shared.check_rank(rank)?;
        self.shared.ask(rank, Ask::Ping, timeout).map(drop)
    }

    /// Ends another process at once, without its clean-up and without waiting for its end.
    ///
    /// # Errors
    /// [`GaspiError::Rank`] for this process and for none; [`GaspiError::Failed`] when it is dead.
    pub fn kill(&self, rank: u16, timeout: Timeout) -> Result<(), GaspiError> {
        let rank = self.shared.check_rank(rank)?;
        if rank == self.shared.me {
            return Err(GaspiError::Rank);
        }
        self.shared.send(rank, Message::Kill, timeout)
    }

    /// Waits until all requests posted to a queue are over on this side. A failed one is reported once; what is left is
    /// collected by further calls.
    ///
    /// # Errors
    /// [`GaspiError::Queue`], [`GaspiError::Timeout`], [`GaspiError::Failed`].
    #[inline]
    pub fn wait(&self, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        self.shared.wait(queue, timeout)
    }

    /// As [`wait`](Self::wait), whatever failed.
    ///
    /// # Errors
    /// [`GaspiError::Queue`], [`GaspiError::Timeout`].
    pub fn queue_purge(&self, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        self.shared.purge(queue, timeout)
    }

    /// The lowest of `count` notifications of a segment of this process, from `first` on, that is set; it stays set.
    /// `None` where `count` is 0. Nobody knows who is to set one: a wait for ever ends, too, when any process dies of which
    /// the program has not heard, by such an error or from [`state_vector`](Self::state_vector).
    ///
    /// # Errors
    /// [`GaspiError::Segment`], [`GaspiError::Null`], [`GaspiError::NotificationId`], [`GaspiError::Timeout`];
    /// [`GaspiError::Failed`]: a process has died.
    #[inline]
    pub fn notify_waitsome(
        &self,
        segment: u8,
        first: u32,
        count: u32,
        timeout: Timeout,
    ) -> Result<Option<u32>, GaspiError> {
        self.shared.waitsome(segment, first, count, timeout)
    }

    /// Takes a notification's value and leaves 0; 0: it was not set. What was written before it can be read then.
    ///
    /// # Errors
    /// [`GaspiError::Segment`], [`GaspiError::Null`], [`GaspiError::NotificationId`].
    #[inline]
    pub fn notify_reset(&self, segment: u8, id: u32) -> Result<u32, GaspiError> {
        self.shared.notify_reset(segment, id)
    }

    /// A new queue, of the lowest free id.
    ///
    /// # Errors
    /// [`GaspiError::Failed`]: there are 16.
    pub fn queue_create(&self) -> Result<u8, GaspiError> {
        self.shared.ledger().create().ok_or(GaspiError::Failed)
    }

    /// Ends a queue; its outstanding requests still go out, and nobody hears of their end.
    ///
    /// # Errors
    /// [`GaspiError::Queue`].
    pub fn queue_delete(&self, queue: u8) -> Result<(), GaspiError> {
        self.shared.ledger().delete(queue)
    }

    /// Requests that were posted and not collected by a wait.
    ///
    /// # Errors
    /// [`GaspiError::Queue`].
    pub fn queue_size(&self, queue: u8) -> Result<u32, GaspiError> {
        self.shared.ledger().size(queue)
    }

    /// Queues.
    pub fn queue_num(&self) -> u32 {
        self.shared.ledger().count()
    }

    /// Sends bytes of a segment to a rank, whose receiver takes them without saying from whom; returns once it has them.
    /// There is one message at a time for each rank, and those to other ranks go on beside it: after [`GaspiError::Timeout`] the next call goes on with that one.
    ///
    /// # Errors
    /// [`GaspiError::CommSize`] above the limit; [`GaspiError::Rank`]; those of a local side of [`write`](Self::write);
    /// [`GaspiError::Timeout`], [`GaspiError::Failed`].
    pub fn passive_send(
        &self,
        segment: u8,
        offset: u64,
        rank: u16,
        bytes: u64,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.shared.passive_send(segment, offset, rank, bytes, timeout)
    }

    /// Receives the oldest message of any rank, of at most `bytes`, and says whose it is. Sleeps until one is there; one that
    /// may take for ever ends as [`notify_waitsome`](Self::notify_waitsome) does when a process dies.
    ///
    /// # Errors
    /// [`GaspiError::CommSize`]: the message is longer, and stays; as of [`passive_send`](Self::passive_send).
    pub fn passive_receive(
        &self,
        segment: u8,
        offset: u64,
        bytes: u64,
        timeout: Timeout,
    ) -> Result<u16, GaspiError> {
        self.shared.passive_receive(segment, offset, bytes, timeout)
    }

    fn atomic(&self, id: u8, offset: u64, rank: u16, operation: AtomicOperation) -> Result<u64, GaspiError> {
        self.check_atomic(id, offset, rank)?;
        let ask = Ask::Atomic { segment: id, offset, operation };
        // It is done once, so nobody may come back to it.
        match self.shared.ask(usize::from(rank), ask, Timeout::Block)? {
            Answer::Value(old) => {
                // A word there, and one back.
                self.shared.moved(rank.into(), 8, false);
                self.shared.moved(rank.into(), 8, true);
                Ok(old)
            }
            _ => Err(GaspiError::Failed),
        }
    }

    /// Whether an atomic on this word is possible.
    ///
    /// # Errors
    /// Those of [`fetch_add`](Self::fetch_add), but the last.
    pub fn check_atomic(&self, id: u8, offset: u64, rank: u16) -> Result<(), GaspiError> {
        let segments = &self.shared.segments;
        segments.check_id(id)?;
        let known =
            usize::from(rank) >= self.shared.size() || segments.place(usize::from(rank), id).is_some();
        if !known {
            return Err(GaspiError::Null);
        }
        let rank = self.shared.check_rank(rank)?;
        let size = segments.place(rank, id).ok_or(GaspiError::Null)?.size;
        crate::segment::check_range(offset, 8, size, GaspiError::RemoteOffset)?;
        if offset.is_multiple_of(8) { Ok(()) } else { Err(GaspiError::Unaligned) }
    }

    /// Adds to a word of a rank's segment, and returns what it was. Atomic among these calls of all ranks, as one thread
    /// at the target carries them out; not with writes and plain accesses. Waits for the answer.
    ///
    /// # Errors
    /// [`GaspiError::Segment`], [`GaspiError::Null`] for an unknown segment, [`GaspiError::Rank`],
    /// [`GaspiError::RemoteOffset`], [`GaspiError::CommSize`], [`GaspiError::Unaligned`]; [`GaspiError::Failed`].
    pub fn fetch_add(&self, id: u8, offset: u64, rank: u16, add: u64) -> Result<u64, GaspiError> {
        self.atomic(id, offset, rank, AtomicOperation::FetchAdd(add))
    }

    /// Replaces a word that is `comparator`, and returns what it was. Atomic as [`fetch_add`](Self::fetch_add) is.
    ///
    /// # Errors
    /// As there.
    pub fn compare_swap(
        &self,
        id: u8,
        offset: u64,
        rank: u16,
        comparator: u64,
        new: u64,
    ) -> Result<u64, GaspiError> {
        self.atomic(id, offset, rank, AtomicOperation::CompareSwap { comparator, new })
    }

    /// Number among the processes of this host, and their count; a job's processes are all of one host.
    pub fn on_this_host(&self) -> (u16, u16) {
        (self.rank(), self.ranks())
    }
}

impl Drop for Gaspi {
    fn drop(&mut self) {
        self.shared.finish_puts();
        let _ = self.shared.inbox.send(News::Stop);
        if let Some(service) = self.service.take() {
            let _ = service.join();
        }
    }
}
