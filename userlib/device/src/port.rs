//! What an open port offers, and where its resources are mapped.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use extoll_abi::{Access, PageOption};

#[cfg(doc)]
use crate::Device;
use crate::{DeviceError, Span, TriggerDevice, TriggerSetup, UnitDevice};

/// Shape of a port, fixed when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct PortSetup {
    /// Bytes of the notification queue: a multiple of the page size. One entry (16 bytes) always stays free.
    pub queue_bytes: usize,
    /// Bytes of a physically contiguous segment of it (spec 3.2): a multiple of the page size.
    pub segment_bytes: usize,
}

impl Default for PortSetup {
    /// librma2's shape: 256 KiB in segments of 64 KiB (spec 3.3).
    fn default() -> PortSetup {
        PortSetup { queue_bytes: 256 << 10, segment_bytes: 64 << 10 }
    }
}

/// A notification queue as the card fills it: `entries` entries of two words each, word 1 written last and
/// non-zero in a new entry (spec 3.1).
#[derive(Clone, Copy, Debug)]
pub struct QueueMap {
    /// First entry; valid until the port is closed and dropped.
    pub base: NonNull<[AtomicU64; 2]>,
    /// Number of entries.
    pub entries: u32,
}

/// One entry of a slot ring, shared with whoever posts (`struct ggas_slot`): the descriptor's words, then `seq`,
/// stored last with release.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// Descriptor words.
    pub word: [AtomicU64; 3],
    /// Running number of the descriptor plus one.
    pub seq: AtomicU64,
}

/// A slot ring (design 3): entry `i` of the running count uses slot `i % slots` and carries `seq = i + 1`; the
/// count starts at 0.
#[derive(Clone, Copy, Debug)]
pub struct SlotMap {
    /// First slot; valid until the port is closed and dropped.
    pub base: NonNull<Slot>,
    /// Number of slots, a power of two.
    pub slots: u32,
    /// Slots consumed so far, advanced by the device.
    pub consumed: NonNull<AtomicU64>,
}

/// Queue and slot ring of a port in memory of the processor whose kernels use it; see
/// [`Device::open_port_for_kernels`]. Addresses are the processor's, valid until the port is dropped.
#[derive(Clone, Copy, Debug)]
pub struct KernelRings {
    /// First entry of the notification queue.
    pub queue: u64,
    /// Number of entries.
    pub queue_entries: u32,
    /// Read-pointer register.
    pub read_pointer: u64,
    /// First slot, a `struct ggas_near_slot`; the running count starts at 0.
    pub slots: u64,
    /// Number of slots, a power of two.
    pub slot_count: u32,
    /// Slots consumed so far, a word.
    pub consumed: u64,
}

/// Registers of a port that a driver maps into a kernel's address space; each lies in a page of its own.
#[derive(Clone, Copy, Debug)]
pub struct RegisterMap {
    /// Read pointer of the notification queue (spec 3.2).
    pub read_pointer: NonNull<AtomicU64>,
    /// WCB state (spec 2.4).
    pub wcb_state: NonNull<AtomicU64>,
}

/// An open port's resources, besides those of every [`UnitDevice`]. Everything is callable from any thread; who may post and who may consume at a time
/// is the library's business (`ggas-rma`).
///
/// A notification put to itself, by hand:
///
/// ```
/// use std::sync::atomic::Ordering;
/// use std::time::Duration;
/// use extoll_abi::{Descriptor, Modifier, Request, Spec};
/// use ggas_device::{Device, PageOption, PortSetup, sim::SimNetwork};
///
/// let network = SimNetwork::builder().nodes(1).build()?;
/// let port = network.device(0)?.open_port(&PortSetup::default())?;
/// let request = Request::NotificationPut { class: 7, payload: 42 };
/// let descriptor = Descriptor::encode(port.address(), Spec::COMPLETER, Modifier::NONE, &request)?;
/// for (i, word) in descriptor.word.iter().enumerate() {
///     port.requester_store(PageOption::TE, 8 * i as u64, *word);
/// }
/// port.fence();
///
/// // SAFETY: the queue is mapped while the port is open, and has more than one entry.
/// let entry = unsafe { port.queue().base.as_ref() };
/// port.sleep_until(&|| entry[1].load(Ordering::Acquire) != 0, Duration::from_secs(10));
/// assert_eq!(entry[0].load(Ordering::Relaxed), 42);
/// entry[1].store(0, Ordering::Relaxed);
/// port.set_read_pointer(1, false);
/// port.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PortDevice: UnitDevice {
    /// The notification queue; no entries where kernels have it in memory of their processor ([`KernelRings`]).
    fn queue(&self) -> QueueMap;

    /// Replaces the notification queue by an empty one of another shape, as a new mapping does (spec 9.2). What the
    /// old one held is lost; its memory stays mapped until the port is dropped.
    ///
    /// # Errors
    /// [`DeviceError::QueueShape`], [`DeviceError::Memory`]: the queue is as before. [`DeviceError::Closed`].
    fn reshape_queue(&self, setup: &PortSetup) -> Result<(), DeviceError> {
        let PortSetup { queue_bytes: bytes, segment_bytes: segment } = *setup;
        let problem = "this device fixes it when the port is opened";
        Err(DeviceError::QueueShape { bytes, segment, problem })
    }

    /// Option pages that the port may post to: bit `i` for option `i` (spec 2.1). Physical addresses and remote
    /// registers may be for the privileged.
    fn options(&self) -> u32 {
        u32::MAX
    }

    /// The page of an option where a driver maps it: one of [`options`](Self::options), valid until the port is closed and
    /// dropped. `None` where a store is a call.
    fn requester_page(&self, _option: PageOption) -> Option<NonNull<u8>> {
        None
    }

    /// Stores one descriptor word to the option page of `option`, at byte `offset` of the page (0, 8 or 16;
    /// spec 2.1), which is one of [`options`](Self::options). Other offsets are counted as errors by the card.
    fn requester_store(&self, option: PageOption, offset: u64, value: u64);

    /// Stores all words of a descriptor in ascending order, as [`requester_store`](Self::requester_store) stores each.
    fn requester_line(&self, option: PageOption, words: [u64; 3]) {
        for (i, word) in words.into_iter().enumerate() {
            self.requester_store(option, 8 * i as u64, word);
        }
    }

    /// Attaches the port's slot ring, whose descriptors are all issued with `option`. It stays until the port is closed:
    /// slots that were not consumed are forgotten then.
    ///
    /// # Errors
    /// [`DeviceError::NoSlotPath`], [`DeviceError::SlotCount`], [`DeviceError::SlotsAttached`].
    fn attach_slots(&self, slots: u32, option: PageOption) -> Result<SlotMap, DeviceError>;

    /// Makes the port's table of triggered operations. `None`: the device has no unit for them, as the card has none.
    ///
    /// # Errors
    /// [`DeviceError::TriggerTags`], [`DeviceError::TriggersInUse`], [`DeviceError::Closed`].
    fn open_triggers(&self, _setup: &TriggerSetup) -> Result<Option<Box<dyn TriggerDevice>>, DeviceError> {
        Ok(None)
    }

    /// Tells the device of new entries in the slot ring. A model with inline progress works here.
    fn kick(&self) {}

    /// Registers memory for this VPID: pins its pages, writes their translations and returns the network logical
    /// address of the first byte (spec 4.2).
    ///
    /// # Errors
    /// [`DeviceError::EmptyRegion`], [`DeviceError::LockedMemory`], [`DeviceError::NoTable`],
    /// [`DeviceError::Memory`], [`DeviceError::Closed`].
    ///
    /// # Safety
    /// The memory stays valid until [`unregister`](Self::unregister) returned `Ok`: the card reads and writes it.
    unsafe fn register(&self, span: Span, access: Access) -> Result<u64, DeviceError>;

    /// Removes the region that starts at `nla` and waits until the card has finished with it: afterwards no
    /// access reaches the old pages (spec 4.2).
    ///
    /// # Errors
    /// [`DeviceError::NotRegistered`]; [`DeviceError::Timeout`] when the card does not confirm: then the memory
    /// must stay as it is.
    fn unregister(&self, nla: u64) -> Result<(), DeviceError>;

    /// Says that someone stores to the slot ring without telling the device, which must keep looking from now on.
    /// Calls nest.
    fn arm(&self) {}

    /// Ends what [`arm`](Self::arm) began.
    fn disarm(&self) {}
}
