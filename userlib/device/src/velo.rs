//! VELO ports: what a driver hands to users of the card's unit for small messages (spec 7).

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use extoll_abi::SlotSize;

use crate::{DeviceError, UnitDevice};

/// Slots of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MailboxSlots {
    /// 64 bytes: a message takes one, two or three.
    B64,
    /// 128 bytes: a message takes one.
    #[default]
    B128,
}

impl MailboxSlots {
    /// Bytes of a slot.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.size().bytes() as usize
    }

    /// As the card names it.
    #[inline]
    pub const fn size(self) -> SlotSize {
        match self {
            MailboxSlots::B64 => SlotSize::B64,
            MailboxSlots::B128 => SlotSize::B128,
        }
    }
}

/// Shape of a VELO port, fixed when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct VeloSetup {
    /// Bytes of the mailbox: a multiple of the page size. One slot always stays free.
    pub mailbox_bytes: usize,
    /// Bytes of a physically contiguous segment of it (spec 3.2): a multiple of the page size.
    pub segment_bytes: usize,
    /// Size of its slots.
    pub slots: MailboxSlots,
}

impl Default for VeloSetup {
    /// The driver's shape: 2 MiB in segments of 64 KiB (spec 7).
    fn default() -> VeloSetup {
        VeloSetup { mailbox_bytes: 2 << 20, segment_bytes: 64 << 10, slots: MailboxSlots::default() }
    }
}

/// A mailbox as the card fills it: the last word of a slot is its status, 0 in a free one, and the payload lies
/// right before it (spec 7).
#[derive(Clone, Copy, Debug)]
pub struct MailboxMap {
    /// First word of the first slot; valid until the port is closed and dropped.
    pub base: NonNull<AtomicU64>,
    /// Number of slots.
    pub slots: u32,
    /// Size of a slot.
    pub size: MailboxSlots,
}

/// A ring of messages from kernels whose stores to a requester page the device cannot see (design 3), as
/// `struct ggas_velo_slot` of the kernels' `layout.h` says: entry `i` of the running count uses slot `i % slots` and
/// carries `i + 1`; the count starts at 0.
#[derive(Clone, Copy, Debug)]
pub struct VeloSlotMap {
    /// First slot; valid until the port is closed and dropped.
    pub base: NonNull<AtomicU64>,
    /// Number of slots, a power of two.
    pub slots: u32,
    /// Slots consumed so far, advanced by the device.
    pub consumed: NonNull<AtomicU64>,
}

// SAFETY: where atomics lie; who follows the pointers answers for it.
unsafe impl Send for VeloSlotMap {}
// SAFETY: as above.
unsafe impl Sync for VeloSlotMap {}

/// An open VELO port's resources, besides those of every [`UnitDevice`]. Everything is callable from any thread; who may send and who may receive at a time
/// is the library's business (`ggas-velo`).
///
/// A message to itself, by hand:
///
/// ```
/// use std::sync::atomic::Ordering;
/// use std::time::Duration;
/// use extoll_abi::{VeloHeader, VeloStatus};
/// use ggas_device::{Device, VeloSetup, sim::SimNetwork};
///
/// let network = SimNetwork::builder().nodes(1).build()?;
/// let port = network.device(0)?.open_velo(&VeloSetup::default())?;
/// let header = VeloHeader { destination: port.address(), tag: 7, length: 8, ..VeloHeader::default() };
/// port.store(0, 0, &[header.encode()?, 42]);
/// port.fence();
///
/// // SAFETY: the mailbox is mapped while the port is open; its slots have 16 words.
/// let (payload, status) = unsafe { (port.mailbox().base.add(14).as_ref(), port.mailbox().base.add(15).as_ref()) };
/// port.sleep_until(&|| status.load(Ordering::Acquire) != 0, Duration::from_secs(10));
/// assert_eq!(VeloStatus(status.load(Ordering::Acquire)).tag(), 7);
/// assert_eq!(payload.load(Ordering::Relaxed), 42);
/// status.store(0, Ordering::Relaxed);
/// port.set_read_pointer(1, false);
/// port.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait VeloDevice: UnitDevice {
    /// The mailbox.
    fn mailbox(&self) -> MailboxMap;

    /// Stores words, ascending from byte `offset`, to the requester page of traffic class `class` (0 to 3): the
    /// header to offset 0, the payload in whole quadwords to 8 and on (spec 7).
    fn store(&self, class: u8, offset: u64, words: &[u64]);

    /// Attaches a ring for messages in traffic class `class`, and keeps the device looking at it until the
    /// port is closed; messages that were not consumed are forgotten then. `None`: this device has none, it sees every store to a requester page.
    ///
    /// # Errors
    /// [`DeviceError::Closed`]; [`DeviceError::SlotsAttached`]; the system's refusal of memory.
    fn attach_slots(&self, _class: u8) -> Result<Option<VeloSlotMap>, DeviceError> {
        Ok(None)
    }

    /// Sets the protection ids of what the port sends, and of what it takes in; other messages are dropped and
    /// counted at the receiver.
    ///
    /// # Errors
    /// [`DeviceError::Closed`]. On a card [`DeviceError::Privilege`], and [`DeviceError::NotAvailable`] for two ids.
    fn set_protection(&self, send: u16, receive: u16) -> Result<(), DeviceError>;
}
