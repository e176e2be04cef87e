//! Ports: a VPID with its mailbox and requester page.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::{Address, regs};
use ggas_clock::{Backoff, Step};
use ggas_device::{Device, DeviceError, MailboxSlots, VeloSetup};

use crate::core::{Core, lock};
use crate::{Message, MessageMatch, ReceiveError, VeloConnection, VeloPortError};

/// Shape and limits of a port.
#[derive(Clone, Copy, Debug)]
pub struct VeloConfig {
    /// Bytes of the mailbox, a multiple of the page size; one slot stays free.
    pub mailbox_bytes: usize,
    /// Bytes of a segment of it (spec 3.2), a multiple of the page size.
    pub segment_bytes: usize,
    /// Size of its slots: in those of 64 bytes messages above 56 bytes take two or three.
    pub slots: MailboxSlots,
    /// Traffic class that it sends with, 0 to 3.
    pub class: u8,
    /// How long a blocking send waits for room.
    pub send_timeout: Duration,
    /// Bound of every wait of kernels that use the port.
    pub kernel_timeout: Duration,
    /// Whether kernels on the CPU executor send through a ring as well, as those on a GPU do; else they store to the
    /// requester page.
    pub kernel_slots: bool,
}

impl Default for VeloConfig {
    fn default() -> VeloConfig {
        let VeloSetup { mailbox_bytes, segment_bytes, slots } = VeloSetup::default();
        VeloConfig {
            mailbox_bytes,
            segment_bytes,
            slots,
            class: 0,
            send_timeout: Duration::from_secs(5),
            kernel_timeout: Duration::from_secs(10),
            kernel_slots: false,
        }
    }
}

impl VeloConfig {
    /// What the device is asked for.
    pub(crate) fn setup(&self) -> VeloSetup {
        let VeloConfig { mailbox_bytes, segment_bytes, slots, .. } = *self;
        VeloSetup { mailbox_bytes, segment_bytes, slots }
    }
}

/// A port that may send, but not receive. Cheap to clone; any thread may use it. The VPID stays open until the last
/// handle and connection is gone, or [`VeloPort::close`].
#[derive(Clone, Debug)]
pub struct VeloHandle {
    pub(crate) core: Arc<Core>,
}

impl VeloHandle {
    /// Node and VPID, what a peer connects to.
    pub fn address(&self) -> Address {
        self.core.address
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &VeloConfig {
        &self.core.config
    }

    /// A connection to a remote port: a local object; nothing is sent, and the peer need not exist yet.
    pub fn connect(&self, remote: Address) -> VeloConnection {
        VeloConnection::new(self.core.clone(), remote, false)
    }

    /// A connection to VPID `vpid` on every node of multicast group `group` (0 to 63). Group 63 is every other node,
    /// unless management says otherwise. Each receiver gets the messages in order; receivers take them one by one.
    pub fn multicast(&self, group: u16, vpid: u8) -> VeloConnection {
        VeloConnection::new(self.core.clone(), Address::new(group, vpid), true)
    }

    /// Sets the protection ids of what is sent and of what is taken in; other messages are dropped and counted at the
    /// receiver. Both are 0 in a new port.
    ///
    /// # Errors
    /// [`DeviceError::Closed`].
    pub fn set_protection(&self, send: u16, receive: u16) -> Result<(), DeviceError> {
        self.core.device.set_protection(send, receive)
    }

    /// Messages sent that the card has not taken yet.
    pub fn outstanding(&self) -> u32 {
        lock(&self.core.sender).outstanding().into()
    }

    /// Messages that this node's mailboxes, all of them together, dropped because nobody read in time (spec 3.2).
    ///
    /// # Errors
    /// [`DeviceError`] of reading the register.
    pub fn dropped(&self) -> Result<u64, DeviceError> {
        Ok(regs::BQ_ERRORS.get(self.core.card.read_register(regs::EXTOLL_RF_BQ_VELO_GENERAL)?))
    }

    /// Closes the port as [`VeloPort::close`] does, from any of its handles: waits in progress end with
    /// [`ReceiveError::Closed`].
    ///
    /// # Errors
    /// As for [`VeloPort::close`].
    pub fn shut(&self) -> Result<(), VeloPortError> {
        self.core.close()
    }

    /// Lets the model work on the caller's thread; says whether there was something to do. A card needs no help.
    pub fn progress(&self) -> bool {
        self.core.device.progress()
    }
}

/// A port with its mailbox.
///
/// Any thread may send through it, its [handles](VeloPort::handle) and its connections while others receive; receivers
/// take turns.
///
/// ```
/// # use std::sync::Arc;
/// # use ggas_device::{Device, sim::SimNetwork};
/// use ggas_velo::{MessageMatch, VeloConfig, VeloPort};
/// use std::time::Duration;
/// # let network = SimNetwork::builder().nodes(2).build()?;
/// # let (here, there): (Arc<dyn Device>, Arc<dyn Device>) = (network.device(0)?, network.device(1)?);
/// let alice = VeloPort::open(&here, VeloConfig::default())?;
/// let bob = VeloPort::open(&there, VeloConfig::default())?;
///
/// alice.connect(bob.address()).send(b"hello", 7)?;
/// let message = bob.wait_match(&MessageMatch::any().tag(7), Duration::from_secs(10))?;
/// assert_eq!((message.source(), message.bytes()), (alice.address(), &b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct VeloPort {
    handle: VeloHandle,
}

impl Deref for VeloPort {
    type Target = VeloHandle;

    fn deref(&self) -> &VeloHandle {
        &self.handle
    }
}

impl VeloPort {
    /// Opens a port on the lowest free VPID of a device.
    ///
    /// # Errors
    /// [`VeloPortError::Device`] when no VPID is free, the network is not configured, or the mailbox cannot have the
    /// shape asked for.
    pub fn open(card: &Arc<dyn Device>, config: VeloConfig) -> Result<VeloPort, VeloPortError> {
        let device = card.open_velo(&config.setup())?;
        let core = Core::new(device, card.clone(), config);
        Ok(VeloPort { handle: VeloHandle { core: Arc::new(core) } })
    }

    /// A handle for threads that send while this one receives.
    pub fn handle(&self) -> VeloHandle {
        self.handle.clone()
    }

    /// Takes the oldest message, if there is one, and frees its slots.
    #[inline]
    pub fn poll(&self) -> Option<Message> {
        let core = &*self.handle.core;
        let device = &*core.device;
        if let Some(message) = lock(&core.mailbox).take(device) {
            return Some(message);
        }
        core.service(false);
        if device.progress() { lock(&core.mailbox).take(device) } else { None }
    }

    /// Takes the oldest message that `wanted` accepts and leaves the others in the mailbox. Slots are freed in order,
    /// so an old message that nobody wants holds its place.
    pub fn poll_match(&self, wanted: &MessageMatch) -> Option<Message> {
        self.poll_from(wanted, &mut 0)
    }

    /// One look at the messages from position `from` on.
    fn poll_from(&self, wanted: &MessageMatch, from: &mut u64) -> Option<Message> {
        let core = &*self.handle.core;
        let device = &*core.device;
        if let Some(message) = lock(&core.mailbox).take_match(device, wanted, from) {
            return Some(message);
        }
        core.service(false);
        if device.progress() { lock(&core.mailbox).take_match(device, wanted, from) } else { None }
    }

    /// Takes the oldest message, waiting up to `timeout`: spins, yields, then sleeps without using the CPU until the
    /// card writes one.
    ///
    /// # Errors
    /// [`ReceiveError::Timeout`], [`ReceiveError::Closed`].
    pub fn wait(&self, timeout: Duration) -> Result<Message, ReceiveError> {
        self.wait_match(&MessageMatch::any(), timeout)
    }

    /// Takes the oldest message that `wanted` accepts, waiting up to `timeout`; others stay in the mailbox. A wait that
    /// names a sender whose process is gone ends at once, after all that it had sent was looked at.
    ///
    /// # Errors
    /// [`ReceiveError::Timeout`], [`ReceiveError::PeerLost`], [`ReceiveError::Closed`].
    pub fn wait_match(&self, wanted: &MessageMatch, timeout: Duration) -> Result<Message, ReceiveError> {
        let core = &*self.handle.core;
        let mut backoff = Backoff::new(core.device.clock(), timeout);
        let mut from = 0;
        loop {
            if let Some(message) = self.poll_from(wanted, &mut from) {
                return Ok(message);
            }
            if core.is_closed() {
                return Err(ReceiveError::Closed);
            }
            let gone = core.departures.count();
            if let Some(peer) = core.lost_peer(wanted) {
                core.device.drain_lost();
                let lost = ReceiveError::PeerLost { port: core.address, wanted: *wanted, peer };
                return self.poll_from(wanted, &mut from).ok_or(lost);
            }
            match backoff.step() {
                Step::Again => {}
                Step::Sleep(left) => self.sleep_at(from, gone, left),
                Step::Over(waited) => {
                    let others = lock(&core.mailbox).unread();
                    return Err(ReceiveError::Timeout {
                        port: core.address,
                        wanted: *wanted,
                        waited,
                        others,
                    });
                }
            }
        }
    }

    /// Sleeps until a message has arrived at position `from`, the port closes, or more processes than `gone` left the job.
    fn sleep_at(&self, from: u64, gone: u32, left: Duration) {
        let core = &*self.handle.core;
        let watch = lock(&core.mailbox).watch(from);
        // SAFETY: the mailbox is mapped as long as the port lives, which `self` keeps.
        let arrived = || unsafe { watch.has_news() };
        let ready = || arrived() || core.is_closed() || core.departures.count() != gone;
        core.service(true);
        core.device.sleep_until(&ready, left);
    }

    /// Messages in the mailbox.
    pub fn unread(&self) -> u32 {
        lock(&self.handle.core.mailbox).unread()
    }

    /// Closes the port: drains what is on its way and frees the VPID. Connections and handles of it fail from now on;
    /// messages that were not received are lost.
    ///
    /// # Errors
    /// [`VeloPortError::Undrained`] when the card did not take all messages within the send timeout: the port is
    /// closed, they are lost. [`VeloPortError::Device`] when the card does not let go of the mailbox.
    pub fn close(self) -> Result<(), VeloPortError> {
        self.handle.core.close()
    }
}
