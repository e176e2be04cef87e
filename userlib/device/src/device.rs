//! What every device kind offers: the card's resources, as a driver hands them to a user.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use extoll_abi::{Access, Address, PageOption};

use crate::{Departures, DeviceError, LostPeer, VeloDevice, VeloSetup};

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The software model in this process.
    Sim,
    /// A card behind `/dev/extollN`.
    Hw,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Sim => "sim",
            Kind::Hw => "hw",
        })
    }
}

/// The two ways to hand a descriptor to the requester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// Three words stored to an option page, collected by the VPID's write-combining buffer (spec 2.4). Works
    /// on every device.
    #[default]
    Card,
    /// A ring of 32-byte slots in memory, polled by the model. Not on the card; the only path for kernels on a
    /// GPU over the model.
    Slots,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Path::Card => "card",
            Path::Slots => "slots",
        })
    }
}

/// What a device is and can do.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its kind.
    pub kind: Kind,
    /// Node id.
    pub node: u16,
    /// Ports that applications may open on the node (spec 9.2).
    pub ports: u32,
    /// Ways to post.
    pub paths: &'static [Path],
    /// Payload bytes of one network fragment (spec 2.3).
    pub fragment_bytes: u32,
    /// Most bytes of one put or get (spec 2.2).
    pub command_bytes: u32,
    /// Bytes of the SMFU window that applications may use (spec 1.2).
    pub smfu_bytes: u64,
    /// Intervals of the SMFU (spec 6.1).
    pub smfu_intervals: u32,
}

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

/// One card, or one modelled node.
///
/// ```
/// use std::sync::Arc;
/// use ggas_device::{Access, Device, HostBuffer, PortSetup, Span, sim::SimNetwork};
///
/// let network = SimNetwork::builder().nodes(2).build()?;
/// let device: Arc<dyn Device> = network.device(0)?;
/// let port = device.open_port(&PortSetup::default())?;
/// let buffer = HostBuffer::zeroed(8192)?;
/// // SAFETY: the buffer outlives its registration.
/// let nla = unsafe { port.register(Span::host(&buffer), Access::ALL)? };
/// assert_eq!(nla % 4096, 0);
/// port.unregister(nla)?;
/// port.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Device: Debug + Send + Sync {
    /// What the device is and can do.
    fn info(&self) -> &DeviceInfo;

    /// Opens a port on the lowest free VPID of the node (spec 9.2).
    ///
    /// # Errors
    /// [`DeviceError::NetworkState`], [`DeviceError::PortsInUse`], [`DeviceError::QueueShape`],
    /// [`DeviceError::Memory`].
    fn open_port(&self, setup: &PortSetup) -> Result<Arc<dyn PortDevice>, DeviceError>;

    /// Opens a port of VELO, the unit for small messages, on the lowest free VPID of the node (spec 7).
    ///
    /// # Errors
    /// As [`open_port`](Self::open_port); [`DeviceError::NotAvailable`] on devices without the unit.
    fn open_velo(&self, _setup: &VeloSetup) -> Result<Arc<dyn VeloDevice>, DeviceError> {
        let reason = "it has no VELO unit: use RMA ports".to_string();
        Err(DeviceError::NotAvailable { kind: self.info().kind, reason })
    }

    /// Reads a register: byte offset in BAR 0 (spec 8).
    ///
    /// # Errors
    /// [`DeviceError::RegisterOffset`].
    fn read_register(&self, offset: u64) -> Result<u64, DeviceError>;

    /// Writes a register: byte offset in BAR 0 (spec 8).
    ///
    /// # Errors
    /// [`DeviceError::RegisterOffset`].
    fn write_register(&self, offset: u64, value: u64) -> Result<(), DeviceError>;

    /// Lets the device do what it can on the caller's thread; says whether there was something. Hardware has
    /// nothing to do here.
    fn progress(&self) -> bool {
        false
    }

    /// Sets up the SMFU for a window (spec 6.3): `map` says where each part of the window lives.
    ///
    /// # Errors
    /// [`DeviceError::Smfu`] when the unit is in use by another window or the map does not fit.
    ///
    /// # Safety
    /// `map.local` stays valid memory of `map.part_bytes` bytes until the returned window is dropped; other
    /// nodes read and write it.
    unsafe fn map_smfu(&self, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError>;

    /// Makes memory reachable for commands without address translation (spec 2.1), as physical buffers are (spec
    /// 9.3), until what is returned is dropped. Its bus address is `span.address`.
    ///
    /// # Errors
    /// [`DeviceError::BadSpan`]; [`DeviceError::NotAvailable`] where memory has no bus address of this kind.
    ///
    /// # Safety
    /// The memory stays valid until the returned object is dropped: every node may read and write it.
    unsafe fn expose(&self, _span: Span) -> Result<Box<dyn Debug + Send + Sync>, DeviceError> {
        let reason = "physical buffers come from the pmap device there".to_owned();
        Err(DeviceError::NotAvailable { kind: self.info().kind, reason })
    }
}

/// How a window lies in the SMFU's address range: part `i` belongs to node `nodes[i]` and starts at
/// `i * stride` (thesis 6.4: intervals evenly distributed).
#[derive(Clone, Debug)]
pub struct SmfuMap {
    /// Node ids in the order of the window's parts.
    pub nodes: Vec<u16>,
    /// Bytes from part to part: a multiple of the page size.
    pub stride: u64,
    /// Bytes of each part, at most `stride`.
    pub part_bytes: u64,
    /// This node's own part, where arriving loads and stores go.
    pub local: Span,
}

/// Trapped access to a window through the SMFU unit: each call becomes load or store packets (design 4).
///
/// Loads and stores of one caller to one node stay in order; a store is posted: it returns before the target
/// memory changes. Dropping the window gives the unit back.
pub trait SmfuWindow: Debug + Send + Sync {
    /// Stores bytes at `offset` from the start of the window.
    ///
    /// # Errors
    /// [`DeviceError::SmfuAccess`] when the range is outside, crosses parts, or the network does not take it
    /// within the device's own bound; [`DeviceError::PeerLost`] when the process that serves the part is gone.
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), DeviceError>;

    /// Loads bytes from `offset` from the start of the window.
    ///
    /// # Errors
    /// [`DeviceError::SmfuAccess`] as above, or when the answer stays out.
    fn load(&self, offset: u64, into: &mut [u8], timeout: Duration) -> Result<(), DeviceError>;
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

/// Registers of a port that a driver maps into a kernel's address space; each lies in a page of its own.
#[derive(Clone, Copy, Debug)]
pub struct RegisterMap {
    /// Read pointer of the notification queue (spec 3.2).
    pub read_pointer: NonNull<AtomicU64>,
    /// WCB state (spec 2.4).
    pub wcb_state: NonNull<AtomicU64>,
}

/// Memory to register: where it starts as the card sees it, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte. Any alignment; the card translates whole pages, so the rest of the first and last page is
    /// reachable too.
    pub address: u64,
    /// Length in bytes.
    pub len: usize,
    /// Host or GPU memory.
    pub place: Place,
}

impl Span {
    /// All of a host buffer.
    pub fn host(buffer: &crate::HostBuffer) -> Span {
        Span { address: buffer.address(), len: buffer.len(), place: Place::Host }
    }
}

/// Where memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of this process.
    Host,
    /// Memory of this GPU, by its unified virtual address.
    Gpu(ggas_gpu::Gpu),
}

/// An open port's resources. Everything is callable from any thread; who may post and who may consume at a time
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
/// port.requester_fence();
///
/// // SAFETY: the queue is mapped while the port is open, and has more than one entry.
/// let entry = unsafe { port.queue().base.as_ref() };
/// port.sleep_until(&|| entry[1].load(Ordering::Acquire) != 0, Duration::from_secs(1));
/// assert_eq!(entry[0].load(Ordering::Relaxed), 42);
/// entry[1].store(0, Ordering::Relaxed);
/// port.set_read_pointer(1, false);
/// port.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PortDevice: Debug + Send + Sync {
    /// Node and VPID.
    fn address(&self) -> Address;

    /// The notification queue.
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

    /// Writes the read-pointer register: `index` is the next unread entry; `rearm` allows the next interrupt
    /// (spec 3.2).
    fn set_read_pointer(&self, index: u32, rearm: bool);

    /// The registers that kernels use directly.
    fn registers(&self) -> RegisterMap;

    /// Option pages that the port may post to: bit `i` for option `i` (spec 2.1). Physical addresses and remote
    /// registers may be for the privileged.
    fn options(&self) -> u32 {
        u32::MAX
    }

    /// Stores one descriptor word to the option page of `option`, at byte `offset` of the page (0, 8 or 16;
    /// spec 2.1), which is one of [`options`](Self::options). Other offsets are counted as errors by the card.
    fn requester_store(&self, option: PageOption, offset: u64, value: u64);

    /// Makes the stores before it leave the CPU's write-combining buffers (SFENCE on a card).
    fn requester_fence(&self) {}

    /// Attaches a slot ring whose descriptors are all issued with `option`.
    ///
    /// # Errors
    /// [`DeviceError::NoSlotPath`], [`DeviceError::SlotCount`], [`DeviceError::SlotsAttached`].
    fn attach_slots(&self, slots: u32, option: PageOption) -> Result<SlotMap, DeviceError>;

    /// Tells the device of new entries in the slot ring. A model with inline progress works here.
    fn kick(&self) {}

    /// Detaches the ring: slots that were not consumed are forgotten. The memory stays until the port is dropped.
    fn detach_slots(&self);

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

    /// Lets the device do what it can on the caller's thread (see [`Device::progress`]).
    fn progress(&self) -> bool {
        false
    }

    /// Sleeps until the queue may hold something new, `ready` says so, or `timeout` is over. May return early.
    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration);

    /// Counts the processes of the job that are gone; look at [`lost_peer`](Self::lost_peer) once it is not 0.
    fn departures(&self) -> Departures {
        Departures::default()
    }

    /// The process that served `vpid` of `node` (`None`: any process of the node), if it is gone.
    fn lost_peer(&self, _node: u16, _vpid: Option<u8>) -> Option<LostPeer> {
        None
    }

    /// Takes in all that lost peers sent before they went, as far as there is room for its notifications.
    fn drain_lost(&self) {}

    /// Says that someone stores to the slot ring without telling the device, which must keep looking from now on.
    /// Calls nest.
    fn arm(&self) {}

    /// Ends what [`arm`](Self::arm) began.
    fn disarm(&self) {}

    /// Drains what is on its way, disables the VPID, removes its regions and frees its queue and VPID (spec
    /// 9.2). The second call does nothing.
    ///
    /// # Errors
    /// [`DeviceError::Timeout`] when traffic does not drain; the VPID is then kept out of use.
    fn close(&self) -> Result<(), DeviceError>;
}
