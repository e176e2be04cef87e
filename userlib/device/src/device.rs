//! What every device kind offers: the card's resources, as a driver hands them to a user.

use std::fmt::Debug;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use extoll_abi::{Address, Atomic, regs};

use crate::{DeviceError, KernelRings, LostPeer, PortDevice, PortSetup, VeloDevice, VeloSetup};

/// Kinds of devices; [`choose`](crate::choose) takes one at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The software model in this process.
    Sim,
    /// A card behind `/dev/extollN`.
    Hw,
    /// Engines on the GPUs of this host, joined by peer memory.
    Nvlink,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Sim, Kind::Hw, Kind::Nvlink];

    /// The word for it: in the environment, on command lines, in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Sim => "sim",
            Kind::Hw => "hw",
            Kind::Nvlink => "nvlink",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
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

    /// Opens a port whose kernels post through a ring of `slots` slots, with the notification queue and that ring in memory
    /// of the processor that they run on. No rings: this device has the queue in host memory, which kernels map, and
    /// slots are [attached](PortDevice::attach_slots) to the port as to one of the host.
    ///
    /// # Errors
    /// As [`open_port`](Self::open_port); [`DeviceError::SlotCount`], [`DeviceError::Gpu`].
    fn open_port_for_kernels(
        &self,
        setup: &PortSetup,
        _slots: u32,
    ) -> Result<(Arc<dyn PortDevice>, Option<KernelRings>), DeviceError> {
        Ok((self.open_port(setup)?, None))
    }

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

    /// The number of this process, by which traces know it: its rank in a job, else one that others of the network do not have
    /// meanwhile. Where the device does not know processes, of its node.
    fn process(&self) -> u32 {
        self.info().node.into()
    }

    /// How many ranks the job has, if the device is of one.
    fn ranks(&self) -> Option<u32> {
        None
    }

    /// The process that has a port, or had it last; `None`: nobody has opened it, or the device cannot tell.
    fn process_of(&self, port: Address) -> Option<u32> {
        Some(port.node.into())
    }

    /// The process that has, or had last, a node's part of a window over nodes.
    fn process_of_part(&self, node: u16) -> Option<u32> {
        Some(node.into())
    }

    /// Tells a device that knows no processes that it is of a job, on which nodes its ranks are, and which of them this is.
    fn join_job(&self, _rank: u32, _nodes: &[u16]) {}

    /// Sets up the SMFU for a window (spec 6.3): `map` says where each part of the window lives. A card has one at a time; the model
    /// stacks windows in the unit's range while there are intervals, each part taking one, but for a window of more parts than that, which
    /// has the unit to itself.
    ///
    /// # Errors
    /// [`DeviceError::Smfu`] when other windows have what it needs or the map does not fit; those of the memory.
    ///
    /// # Safety
    /// `map.local`, if there is one, stays valid memory of `map.part_bytes` bytes until the returned window is dropped;
    /// other nodes read and write it.
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
/// `i * stride` (thesis 6.4: intervals evenly distributed). On the model a node of a job may be there several times: its
/// parts are of its ranks, in their order, and each of these processes sets the same map up, with a part that begins with a page.
#[derive(Clone, Debug)]
pub struct SmfuMap {
    /// Node ids in the order of the window's parts.
    pub nodes: Vec<u16>,
    /// Bytes from part to part: a multiple of the page size.
    pub stride: u64,
    /// Bytes of each part, at most `stride`.
    pub part_bytes: u64,
    /// This process's own part, where arriving loads and stores go. None: zeroed host memory that the device has for it,
    /// which [`SmfuWindow::own`] finds; of a card's at most 4 MiB (spec 6.3).
    pub local: Option<Span>,
    /// Maps a card's pages uncached: stores of this process leave one by one, in program order, as kernels on the CPU
    /// executor expect. Otherwise they are combined, which is faster, and a fence orders them. Stores of GPUs are the same
    /// in both.
    pub uncached: bool,
    /// Which window it is, where the model's unit has several: a number on which all processes with parts of it agreed, and which no other
    /// window has. None: it follows from nodes and stride, and from how many such windows this process made since it last had none, so
    /// all have to make, and drop, windows of the same nodes and stride in the same order. What is sent to a window that its target does not have is
    /// refused. A card has one window.
    pub window: Option<u64>,
}

impl SmfuMap {
    /// Whether address bits can name the nodes (mask mode, spec 6.2): then there may be more of them than intervals.
    pub fn fits_mask(&self) -> bool {
        let consecutive = self.nodes.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        consecutive && self.stride.is_power_of_two() && self.stride <= regs::EXTOLL_SMFU_RRA_BYTES
    }

    /// Bytes of the whole window: up to the end of its last part.
    pub fn bytes(&self) -> u64 {
        (self.nodes.len() as u64)
            .saturating_sub(1)
            .saturating_mul(self.stride)
            .saturating_add(self.part_bytes)
    }

    /// Whether an access lies within one part.
    pub(crate) fn has(&self, offset: u64, len: usize) -> bool {
        offset / self.stride < self.nodes.len() as u64
            && (offset % self.stride).checked_add(len as u64).is_some_and(|end| end <= self.part_bytes)
    }
}

/// A window of the SMFU unit.
///
/// Each call becomes load or store packets (design 4). Loads and stores of one caller to one node stay in order; a store is posted: it returns before the target
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

    /// Whether the unit has atomic operations: the model's, which carries them out on host memory, and on a GPU's while its copier
    /// runs; no card's.
    fn atomics(&self) -> bool;

    /// An atomic operation on the aligned word at `offset` from the start of the window, atomic with all else that is atomic there;
    /// gives what was there. Behind stores of the same caller to the same node.
    ///
    /// # Errors
    /// [`DeviceError::SmfuAccess`] as for [`load`](Self::load), where the word is not aligned, and where the target refuses: it is
    /// memory of a device whose copier does not run, or none; or the unit has none. One whose answer stays out, or whose target is lost meanwhile, may have been done.
    fn atomic(&self, offset: u64, atomic: Atomic, timeout: Duration) -> Result<u64, DeviceError>;

    /// The same without a result: posted, in order with stores. Nobody hears of what the target refuses; its unit counts it.
    ///
    /// # Errors
    /// As for [`store`](Self::store), and where the word is not aligned, or the unit has none.
    fn reduce(&self, offset: u64, atomic: Atomic) -> Result<(), DeviceError>;

    /// Does what there is to do for the device, sends what stores left, and takes what came: for who makes accesses for others, and looks
    /// for the next one meanwhile. Whether anything moved. Nothing on a card.
    fn attend(&self) -> bool {
        false
    }

    /// The process that serves the part at `offset`, if the device knows that it is gone: accesses there fail. A card does not
    /// know.
    fn lost(&self, _offset: u64) -> Option<LostPeer> {
        None
    }

    /// Where this process has the window, if loads and stores there are the unit's: part `i` begins `i * stride` bytes
    /// further. Between parts there is nothing. A load whose answer stays out gives ones. The model has no such
    /// addresses; calls reach it, which a trapped range (`ggas_kernels::trap`) makes of kernels' accesses.
    fn pages(&self) -> Option<NonNull<u8>> {
        None
    }

    /// This node's part, where the device has the memory for it.
    fn own(&self) -> Option<NonNull<u8>> {
        None
    }
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
    /// Memory that another driver exports: the span's address is an offset in it. For cards.
    DmaBuf(DmaBuf),
}

/// A dma-buf of another driver. Equal to itself and its clones only.
#[derive(Clone, Debug)]
pub struct DmaBuf(Arc<OwnedFd>);

impl From<OwnedFd> for DmaBuf {
    fn from(fd: OwnedFd) -> DmaBuf {
        DmaBuf(Arc::new(fd))
    }
}

impl AsFd for DmaBuf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PartialEq for DmaBuf {
    fn eq(&self, other: &DmaBuf) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DmaBuf {}
