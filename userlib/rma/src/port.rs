//! Ports: a VPID with its notification queue and requester.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use extoll_abi::{Address, Notification, PageOption};
use ggas_device::{Device, DeviceInfo, Path, PortDevice, PortSetup, Sent};

use crate::card::card;
use crate::core::{Core, Vpid};
use crate::post::{Poster, lock};
use crate::slots::Slots;
use crate::{Connection, Match, Notifications, PortError, PostError, WaitError};
use ggas_clock::{Backoff, Step};

/// Shape and limits of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// Bytes of the notification queue, a multiple of the page size; 16 bytes an entry, one stays free.
    pub queue_bytes: usize,
    /// Bytes of a segment of it (spec 3.2), a multiple of the page size.
    pub segment_bytes: usize,
    /// How it is posted to the card. `None`: in the way that the device has; of several, the host takes the first
    /// ([`DeviceInfo::paths`]), and kernels take slots, which serve those on GPUs, too. A port's own
    /// [`config`](PortBase::config) says which.
    pub path: Option<Path>,
    /// Slots of the ring on the slot path, a power of two.
    pub slots: u32,
    /// Option of everything posted through the slot ring, and by kernels. On the card path the host posts with
    /// each connection's own.
    pub slot_option: PageOption,
    /// How long a blocking post waits for room.
    pub post_timeout: Duration,
    /// Bound of every wait of kernels that use the port.
    pub kernel_timeout: Duration,
    /// Notifications that kernels free before they write the read pointer, which costs them a store to the host:
    /// at most a quarter of the queue.
    pub kernel_free_batch: u32,
    /// On the card path of the model, kernels of the executor store to memory that is watched, as kernels on a GPU always do
    /// there, in place of calls: they then have one descriptor at a time on its way to the card.
    pub watch_page: bool,
    /// Whether `GGAS_TRACE` has what the host posts here; not where its caller counts that itself.
    pub traced: bool,
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        let PortSetup { queue_bytes, segment_bytes } = PortSetup::default();
        PortConfig {
            queue_bytes,
            segment_bytes,
            path: None,
            slots: 256,
            slot_option: PageOption::default(),
            post_timeout: Duration::from_secs(5),
            kernel_timeout: Duration::from_secs(10),
            kernel_free_batch: 32,
            watch_page: false,
            traced: true,
        }
    }
}

impl PortConfig {
    /// With the path said: what it was, else `usual`; one that `device` has.
    pub(crate) fn by(self, device: &Arc<dyn Device>, usual: Path) -> Result<PortConfig, PortError> {
        let DeviceInfo { kind, paths, .. } = *device.info();
        let path = self.path.unwrap_or(usual);
        if !paths.contains(&path) {
            return Err(PortError::NoPath {
                kind,
                path,
                available: paths.first().copied().unwrap_or_default(),
            });
        }
        Ok(PortConfig { path: Some(path), ..self })
    }

    /// What the device is asked for.
    pub(crate) fn setup(&self) -> PortSetup {
        PortSetup { queue_bytes: self.queue_bytes, segment_bytes: self.segment_bytes }
    }
}

/// What all ports have, of the host ([`Port`], [`PortHandle`]) and for kernels ([`KernelPort`](crate::KernelPort)): an
/// address, and memory that is registered.
#[derive(Clone, Debug)]
pub struct PortBase {
    pub(crate) vpid: Arc<Vpid>,
}

impl PortBase {
    /// Node and VPID, what a peer connects to.
    pub fn address(&self) -> Address {
        self.vpid.address
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &PortConfig {
        &self.vpid.config
    }

    /// The device's side of the port: its queue and registers as they are mapped.
    pub fn device(&self) -> &dyn PortDevice {
        &*self.vpid.device
    }

    /// Lets the model work on the caller's thread; says whether there was something to do. A card needs no help.
    pub fn progress(&self) -> bool {
        self.vpid.device.progress()
    }
}

/// A port that may post, connect and register, but not consume notifications. Cheap to clone; any thread may use
/// it. The VPID stays open until the last handle, connection and region is gone, or [`Port::close`].
#[derive(Clone, Debug)]
pub struct PortHandle {
    base: PortBase,
    pub(crate) core: Arc<Core>,
}

impl Deref for PortHandle {
    type Target = PortBase;

    fn deref(&self) -> &PortBase {
        &self.base
    }
}

impl PortHandle {
    /// A connection to a remote port with default options: translated addresses, traffic class 0.
    ///
    /// Connections are local objects (thesis 5.6.1): nothing is sent, and the peer need not exist yet.
    pub fn connect(&self, remote: Address) -> Connection {
        self.connect_with(remote, PageOption::default())
    }

    /// A connection with options (spec 2.1): traffic class, physical addresses, remote registers, interrupts.
    pub fn connect_with(&self, remote: Address, option: PageOption) -> Connection {
        Connection::new(self.core.clone(), remote, option)
    }

    /// Posts three words as they are: the card answers illegal ones with error notifications and counters.
    /// Waits for room up to the port's post timeout.
    ///
    /// # Errors
    /// [`PostError::Timeout`], [`PostError::SlotOption`], [`PostError::Closed`].
    pub fn post_raw(&self, option: PageOption, words: [u64; 3]) -> Result<(), PostError> {
        self.core.post(option, &words)
    }

    /// As [`post_raw`](Self::post_raw), without waiting.
    ///
    /// # Errors
    /// [`PostError::WouldBlock`] when there is no room, else as above.
    pub fn try_post_raw(&self, option: PageOption, words: [u64; 3]) -> Result<(), PostError> {
        self.core.try_post(option, &words)
    }

    /// Descriptors posted that the card has not taken yet.
    pub fn outstanding(&self) -> u64 {
        self.core.poster.outstanding()
    }

    /// Whether the card has carried out everything that was posted: it reads no memory for it any more, and its regions
    /// may go. A command that was taken may wait for its way, as to a process that is met only then; cards that cannot
    /// tell (see [`UnitDevice::is_sending`](ggas_device::UnitDevice::is_sending)) count as done once they have taken all.
    /// It says nothing of the other side. A card that callers drive makes a step where it is not.
    pub fn is_idle(&self) -> bool {
        let device = &*self.core.device;
        if self.outstanding() == 0 && !device.is_sending() {
            return true;
        }
        device.progress();
        false
    }

    /// Waits up to `timeout` until the card has taken everything that was posted. What it rejects for want of room is
    /// written again, in its order, by the next call on this port (spec 2.4): call this before waiting at other ports
    /// only.
    ///
    /// # Errors
    /// [`PortError::Undrained`].
    pub fn drain(&self, timeout: Duration) -> Result<(), PortError> {
        self.core.drain(timeout)
    }

    /// Closes the port as [`Port::close`] does, from any of its handles: waits in progress end with
    /// [`WaitError::Closed`].
    ///
    /// # Errors
    /// As for [`Port::close`].
    pub fn shut(&self) -> Result<(), PortError> {
        self.core.close()
    }
}

/// An open port with its notification queue.
///
/// Any thread may post through it, its [handles](Port::handle) and its connections while another consumes
/// notifications. The data that a completer notification announces is visible to who consumed it (spec 2.3).
///
/// See [`Node::open_port`](crate::Node::open_port) for an example.
#[derive(Debug)]
pub struct Port {
    handle: PortHandle,
}

impl Deref for Port {
    type Target = PortHandle;

    fn deref(&self) -> &PortHandle {
        &self.handle
    }
}

impl Port {
    pub(crate) fn open(device: &Arc<dyn Device>, config: PortConfig) -> Result<Port, PortError> {
        let first = device.info().paths.first().copied().unwrap_or_default();
        let config = config.by(device, first)?;
        let sent = config.traced.then(|| Sent::asked(device)).flatten();
        Port::over(device.open_port(&config.setup())?, config, sent)
    }

    /// A port over resources of a device.
    fn over(
        device: Arc<dyn PortDevice>,
        config: PortConfig,
        sent: Option<Arc<Sent>>,
    ) -> Result<Port, PortError> {
        let poster = match config.path {
            Some(Path::Slots) => {
                let map = device.attach_slots(config.slots, config.slot_option)?;
                Poster::Slots(Slots::new(map, config.slot_option))
            }
            _ => Poster::Card(Mutex::new(card(&*device))),
        };
        let vpid = Vpid::new(device, config);
        let core = Arc::new(Core::new(vpid.clone(), poster, sent));
        Ok(Port { handle: PortHandle { base: PortBase { vpid }, core } })
    }

    /// A handle for threads that post while this one consumes.
    pub fn handle(&self) -> PortHandle {
        self.handle.clone()
    }

    /// Consumes the oldest notification, if there is one, and frees its entry.
    #[inline]
    pub fn poll(&self) -> Option<Notification> {
        let core = &*self.handle.core;
        let device = &*core.device;
        if let Some(notification) = lock(&core.queue).take(device) {
            return Some(notification);
        }
        core.poster.service(device, false);
        if device.progress() { lock(&core.queue).take(device) } else { None }
    }

    /// Consumes the oldest notification that `wanted` accepts and leaves the others in the queue. Entries are
    /// freed in the order of the queue, so an old notification that nobody wants holds its place.
    pub fn poll_match(&self, wanted: &Match) -> Option<Notification> {
        self.poll_from(wanted, &mut 0)
    }

    /// One look at the entries from position `from` on.
    fn poll_from(&self, wanted: &Match, from: &mut u64) -> Option<Notification> {
        let core = &*self.handle.core;
        let device = &*core.device;
        if let Some(notification) = lock(&core.queue).take_match(device, wanted, from) {
            return Some(notification);
        }
        core.poster.service(device, false);
        if device.progress() { lock(&core.queue).take_match(device, wanted, from) } else { None }
    }

    /// Consumes the oldest notification, waiting up to `timeout`: spins, yields, then sleeps without using the
    /// CPU until the card writes one.
    ///
    /// # Errors
    /// [`WaitError::Timeout`], [`WaitError::Closed`].
    pub fn wait(&self, timeout: Duration) -> Result<Notification, WaitError> {
        self.wait_match(&Match::any(), timeout)
    }

    /// Consumes the oldest notification that `wanted` accepts, waiting up to `timeout`; others stay queued.
    ///
    /// A wait that names a [remote](Match::from) whose process is gone ends at once, after all that the process had
    /// sent was looked at; other waits know nobody to miss and go on to their timeout.
    ///
    /// # Errors
    /// [`WaitError::Timeout`], [`WaitError::PeerLost`], [`WaitError::Closed`].
    pub fn wait_match(&self, wanted: &Match, timeout: Duration) -> Result<Notification, WaitError> {
        self.wait_by(wanted, timeout, |from| self.poll_from(wanted, from))
    }

    /// Waits until `look` finds something; it looks at the entries from a position on and moves that forward.
    pub(crate) fn wait_by<T>(
        &self,
        wanted: &Match,
        timeout: Duration,
        look: impl Fn(&mut u64) -> Option<T>,
    ) -> Result<T, WaitError> {
        let core = &*self.handle.core;
        let mut backoff = Backoff::new(core.device.clock(), timeout);
        let mut from = 0;
        loop {
            if let Some(found) = look(&mut from) {
                return Ok(found);
            }
            if core.is_closed() {
                return Err(WaitError::Closed);
            }
            let gone = core.departures.count();
            if let Some(peer) = core.lost_peer(wanted) {
                // What the lost peer had sent before still counts; after that nothing comes.
                core.device.drain_lost();
                let (port, wanted) = (core.address, Box::new(*wanted));
                return look(&mut from).ok_or(WaitError::PeerLost { port, wanted, peer });
            }
            match backoff.step() {
                Step::Again => {}
                Step::Sleep(left) => self.sleep_at(from, gone, left),
                Step::Over(waited) => {
                    let (port, wanted) = (core.address, Box::new(*wanted));
                    let others = lock(&core.queue).unread();
                    let posted = core.asked.posted();
                    return Err(WaitError::Timeout { port, wanted, waited, others, posted });
                }
            }
        }
    }

    /// Sleeps until a notification has arrived at position `from` of the queue, the port closes, or more processes than
    /// `gone` have left the job.
    fn sleep_at(&self, from: u64, gone: u32, left: Duration) {
        let core = &*self.handle.core;
        let watch = lock(&core.queue).watch(from);
        // No lock is taken here: the device may call this under its own.
        // SAFETY: the queue is mapped as long as the port lives, which `self` keeps.
        let arrived = || unsafe { watch.has_news() };
        let ready = || arrived() || core.is_closed() || core.departures.count() != gone;
        core.poster.service(&*core.device, true);
        core.device.sleep_until(&ready, left);
    }

    /// The notifications as an iterator that consumes and frees them: those that are there now, or with
    /// [`Notifications::timeout`] those that arrive.
    pub fn notifications(&self) -> Notifications<'_> {
        Notifications::new(self)
    }

    /// Closes the port: drains what is on its way, removes its regions, frees the VPID (spec 9.2). Connections
    /// and handles of it fail from now on; its regions keep their memory, which the card no longer reaches.
    ///
    /// # Errors
    /// [`PortError::Undrained`] when the card did not take all descriptors within the post timeout: the port is
    /// closed, they are lost. [`PortError::Device`] when the card does not let go of the port.
    pub fn close(self) -> Result<(), PortError> {
        self.handle.core.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::fake::Fake;
    use ggas_device::{LostPeer, PeerEnd};

    const SOON: Duration = Duration::from_secs(20);
    const GONE: LostPeer = LostPeer { rank: 3, node: 1, vpid: Some(0), end: PeerEnd::Lost };

    fn port() -> (Arc<Fake>, Port) {
        let fake = Arc::new(Fake::new());
        // The fake card commits nothing, so closing waits this long.
        let config = PortConfig { post_timeout: Duration::from_millis(5), ..PortConfig::default() };
        let port = Port::over(fake.clone(), config, None).unwrap();
        (fake, port)
    }

    #[test]
    fn posts_to_a_lost_peer_fail_at_once_and_others_go_out() {
        let (fake, port) = port();
        let [lost, alive] = [0, 1].map(|vpid| port.connect(Address::new(1, vpid)));
        lost.notification_put(1, 0, Spec::COMPLETER).unwrap();
        fake.lose(GONE);
        let error = lost.notification_put(1, 0, Spec::COMPLETER).unwrap_err();
        assert!(matches!(error, PostError::PeerLost(peer) if peer == GONE), "{error}");
        assert!(error.to_string().contains("node 1 vpid 0 is lost: member 3 died"), "{error}");
        alive.notification_put(1, 0, Spec::COMPLETER).unwrap();
        assert_eq!(fake.written().len(), 2);
    }

    #[test]
    fn a_wait_that_names_a_lost_peer_sees_what_it_sent_and_then_fails_at_once() {
        let (fake, port) = port();
        let from = |vpid| Match::any().from(Address::new(1, vpid));
        // Still on its way when the peer is lost: arrives with the last look.
        fake.arrives_late(Address::new(1, 0));
        fake.lose(GONE);
        assert_eq!(port.wait_match(&from(0), SOON).unwrap().remote(), Address::new(1, 0));
        let error = port.wait_match(&from(0), SOON).unwrap_err();
        assert!(matches!(error, WaitError::PeerLost { peer: GONE, .. }), "{error}");
        // Others are not concerned.
        let error = port.wait_match(&from(1), Duration::ZERO).unwrap_err();
        assert!(matches!(error, WaitError::Timeout { .. }), "{error}");
        assert!(matches!(port.wait(Duration::ZERO), Err(WaitError::Timeout { .. })));
    }

    #[test]
    fn a_wait_in_progress_ends_when_its_peer_is_lost() {
        let (fake, port) = port();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| port.wait_match(&Match::any().from_node(1), SOON));
            fake.until_asleep();
            fake.lose(LostPeer { vpid: None, end: PeerEnd::Left, ..GONE });
            let error = wait.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("member 3 has left the network"), "{error}");
        });
    }
}
