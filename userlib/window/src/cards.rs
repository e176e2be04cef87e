//! Windows over nodes that only their cards join: one member here, the others wherever the network leads. Kernels have
//! pages of a card, or on the model a trapped range.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use extoll_abi::Atomic;
use extoll_abi::bindings::EXTOLL_WINDOW_NODES;
use ggas_device::{
    DeviceError, Kind, PAGE, PeerEnd, Place, SmfuMap, SmfuWindow, Span, copy_in, copy_out, trace_of,
};
use ggas_gpu::GpuError;
use ggas_kernels::trap::{NoAtomics, Trap, TrapError, TrapTarget};
use ggas_kernels::{KernelMem, Mapped, MemoryError, Processor};
use ggas_rma::Node;

use crate::copier::arm;
use crate::memory::{At, Parts, gpu_of};
use crate::window::{Asked, Part};
use crate::{Mapping, Window, WindowError, WindowInfo};

/// Bound of the host's own loads from other nodes.
const ANSWER: Duration = Duration::from_secs(10);

impl Window {
    /// A window over `nodes`, in the order of its members, of which this process has one: that of `node`. For nodes that no
    /// [`Job`](ggas_members::Job) joins, such as hosts with cards. It lies behind the SMFU of each node, within
    /// [`DeviceInfo::smfu_bytes`](ggas_device::DeviceInfo::smfu_bytes).
    ///
    /// The call concerns this node only. Make it on every node with the same `nodes` and `bytes`, and let the nodes meet
    /// before anyone accesses another's part: what comes earlier finds memory that the window does not have yet. The bytes
    /// are zero at first.
    ///
    /// A card has one window at a time. On the model a node has as many as there are intervals for: 63 parts of all of its windows together,
    /// within those bytes, or one window of more parts. Windows of the same `nodes` and of as many pages are told apart by the order in which a
    /// node makes them: the first of all nodes is one window, so is the second, until a node has dropped all of its own and begins with
    /// the first again. Make and drop those in the same order everywhere. Others are told apart by what they are. An access to a window that its target
    /// does not have, or has dropped, is refused: a load or an atomic operation fails, and a store is lost.
    ///
    /// * On a card (`hw`) kernels reach other parts by pointers: their loads and stores are the SMFU's (thesis 6.5). Stores
    ///   to one node stay in order, and a load from it comes behind them; there are no atomics on other parts, and a load
    ///   that no node answers gives ones. A kernel of the CPU executor has its part in the driver's memory, at most 4 MiB; one on a
    ///   GPU has it there as well, unless the module gpumap gives the card a way to GPU memory.
    /// * On the model (`sim`) kernels of the CPU executor have a *trapped* range ([`Mapping::Trapped`]): each load and store
    ///   there by the functions of `vocab.h`, `ggas.cuh`, `put.cuh` and `coll.cuh` is one of the node's SMFU, of 1 to 16 bytes.
    ///   It passes intervals or address bits, counters and time-outs, and order is as on a card; the own part is memory.
    ///   Plain C++ accesses, and those of the host, fault. Atomics are operations of the model's SMFU, which no card has: atomic with
    ///   what else is atomic on the word; on a part in GPU memory that GPU's copier does it, which runs while the window lives there. Where
    ///   it does not start, one fails, and of one without a result that the target refuses nobody hears. A load, or an atomic operation with a result, is answered within
    ///   `timeout`, or by the card's own time-out if that is shorter, and a store is taken within 10 s; else all kernels of the
    ///   start end with [`LaunchError::Access`](ggas_kernels::LaunchError::Access), which names kernel, thread, member and
    ///   offset. Kernels on a GPU have the host make these accesses, in the order of the kernels, up to 1,024 bytes at once; where they were compiled
    ///   without that ([`Trap::on`](ggas_kernels::trap::Trap::on)), they have their own part only.
    ///
    /// # Errors
    /// [`WindowError::NoMembers`], [`WindowError::Empty`], [`WindowError::Twice`], [`WindowError::TooLarge`];
    /// [`WindowError::NotHere`] unless `node` is one of `nodes`; [`WindowError::Device`] where the SMFU does not take the
    /// window, or other windows have its intervals or its range; [`WindowError::Memory`].
    pub fn on_nodes(
        node: &Node,
        nodes: &[u16],
        processor: &Processor,
        bytes: usize,
        timeout: Duration,
    ) -> Result<Window, WindowError> {
        let rank = rank_of(node.id(), nodes)?;
        if bytes == 0 {
            return Err(WindowError::Empty);
        }
        let too_large = || WindowError::TooLarge { members: nodes.len(), bytes };
        let stride = stride_of_devices(nodes.len(), bytes);
        let stride =
            stride.filter(|stride| stride.checked_mul(nodes.len()).is_some()).ok_or_else(too_large)?;
        let shape = Shape { stride, bytes, atomics: gpu_of(processor).is_none(), number: None };
        let parts = Arc::new(Parts::behind_a_card(node, nodes, rank, processor, shape, timeout)?);
        let info =
            WindowInfo { mapped: parts.mapping(), atomics: parts.atomics(), trapped: Ok(()), bytes, stride };
        let asked = (rank, trace_of(&**node.device()).map(Asked::Nodes));
        let part = Part::new(node, processor, asked, (nodes, None), &parts, &info, timeout)?;
        let _copier = arm(node, processor);
        if let Err(problem) = &part.smfu {
            return Err(DeviceError::Smfu { node: node.id(), problem: problem.clone() }.into());
        }
        Ok(Window { members: vec![part], first: rank, len: nodes.len(), parts, info, timeout, _copier })
    }
}

/// From one part to the next, behind the devices of so many nodes: more of them than intervals need parts of a power of two
/// of bytes.
pub(crate) fn stride_of_devices(nodes: usize, bytes: usize) -> Option<usize> {
    match nodes as u64 <= EXTOLL_WINDOW_NODES {
        true => bytes.checked_next_multiple_of(PAGE),
        false => bytes.max(PAGE).checked_next_power_of_two(),
    }
}

/// The place of a node among those of a window.
fn rank_of(node: u16, nodes: &[u16]) -> Result<usize, WindowError> {
    if nodes.is_empty() {
        return Err(WindowError::NoMembers);
    }
    let mut ids = nodes.to_vec();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(WindowError::Twice(twice[0]));
    }
    nodes.iter().position(|id| *id == node).ok_or(WindowError::NotHere { node, nodes: nodes.to_vec() })
}

/// The parts of a window whose pages are a card's.
pub(crate) struct CardParts {
    /// Where kernels have the window. Goes first: a trapped range waits for accesses under way.
    pages: Pages,
    own: Own,
    pub(crate) smfu: Arc<dyn SmfuWindow>,
    /// Memory of the own part on a GPU, which the unit lets go of first.
    _memory: Option<Arc<GpuPart>>,
    pub(crate) rank: usize,
    stride: usize,
    /// On all parts.
    pub(crate) atomics: bool,
}

/// Where kernels reach all parts by the unit.
enum Pages {
    Card(Mapped),
    Trapped(Trap),
}

impl Pages {
    fn address(&self) -> u64 {
        match self {
            Pages::Card(mapped) => mapped.address(),
            Pages::Trapped(trap) => trap.address(),
        }
    }
}

/// What the parts of such a window are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// From one part to the next.
    pub(crate) stride: usize,
    /// That members may use.
    pub(crate) bytes: usize,
    /// None is known on which others have no atomics, if the devices have any.
    pub(crate) atomics: bool,
    /// On which all processes agreed, if they could.
    pub(crate) number: Option<u64>,
}

/// What accesses to a trapped range become.
struct Trapped {
    smfu: Arc<dyn SmfuWindow>,
    nodes: Vec<u16>,
    /// By member. The unit does those to this node's own part at once.
    stores: Vec<Stores>,
    rank: usize,
    stride: u64,
    timeout: Duration,
    atomics: bool,
}

/// Posted accesses to a member's part: how many went, and how many of them are known to be performed.
#[derive(Default)]
struct Stores {
    went: AtomicU64,
    done: AtomicU64,
}

impl Trapped {
    /// One more that nobody answers went to where `offset` is.
    fn went(&self, offset: u64) {
        let member = (offset / self.stride) as usize;
        if let Some(stores) = self.stores.get(member).filter(|_| member != self.rank) {
            stores.went.fetch_add(1, Ordering::Release);
        }
    }

    /// Where some part has none, an operation without a result on it would be lost.
    fn check_atomics(&self) -> Result<(), NoAtomics> {
        if self.atomics { Ok(()) } else { Err(NoAtomics) }
    }
}

impl TrapTarget for Trapped {
    fn load(&self, offset: u64, into: &mut [u8]) -> Result<(), TrapError> {
        Ok(self.smfu.load(offset, into, self.timeout)?)
    }

    fn store(&self, offset: u64, from: &[u8]) -> Result<(), TrapError> {
        self.smfu.store(offset, from)?;
        self.went(offset);
        Ok(())
    }

    fn atomic(&self, offset: u64, atomic: Atomic) -> Result<u64, TrapError> {
        self.check_atomics()?;
        Ok(self.smfu.atomic(offset, atomic, self.timeout)?)
    }

    fn reduce(&self, offset: u64, atomic: Atomic) -> Result<(), TrapError> {
        self.check_atomics()?;
        self.smfu.reduce(offset, atomic)?;
        self.went(offset);
        Ok(())
    }

    /// A load comes behind the stores to its node. Of members that do not answer the others do not suffer.
    fn settle(&self) -> Result<(), TrapError> {
        let settle = |(member, stores): (u64, &Stores)| {
            let went = stores.went.load(Ordering::Acquire);
            if stores.done.load(Ordering::Acquire) < went {
                self.smfu.load(member * self.stride, &mut [0], self.timeout)?;
                stores.done.fetch_max(went, Ordering::AcqRel);
            }
            Ok(())
        };
        (0..).zip(&self.stores).map(settle).fold(Ok(()), Result::and)
    }

    fn attend(&self) -> bool {
        self.smfu.attend()
    }

    fn place(&self, offset: u64) -> String {
        let member = offset / self.stride;
        let node = self.nodes.get(member as usize).map_or("none".to_owned(), u16::to_string);
        format!("byte {} of member {member}'s part (node {node})", offset % self.stride)
    }
}

/// This node's part.
enum Own {
    /// In memory of the device: where the host has it, and where kernels do.
    Device(NonNull<u8>, Mapped),
    /// In memory of the GPU that its kernels run on.
    Gpu(Arc<GpuPart>),
}

// SAFETY: the pointer is to memory of the device that lives as long as the parts; all access to it is atomic.
unsafe impl Send for CardParts {}
// SAFETY: as above.
unsafe impl Sync for CardParts {}

impl Parts {
    /// Those of the card of `node`; for kernels that cannot have a way to others, memory of its own for this member.
    pub(crate) fn behind_a_card(
        node: &Node,
        nodes: &[u16],
        rank: usize,
        processor: &Processor,
        Shape { stride, bytes, atomics, number }: Shape,
        timeout: Duration,
    ) -> Result<Parts, WindowError> {
        let map = SmfuMap {
            nodes: nodes.to_vec(),
            stride: stride as u64,
            part_bytes: stride as u64,
            local: None,
            uncached: gpu_of(processor).is_none(),
            window: number,
        };
        let (smfu, memory) = open(node, map, processor)?;
        let all = stride * nodes.len();
        let atomics = atomics && smfu.atomics();
        let pages = match (smfu.pages(), processor) {
            // SAFETY: the window's pages stay until `smfu` is dropped, after this.
            (Some(pages), _) => Pages::Card(unsafe { processor.map_device(pages.as_ptr(), all) }?),
            (None, _) => {
                let (unit, nodes, stride) = (smfu.clone(), nodes.to_vec(), stride as u64);
                let stores = nodes.iter().map(|_| Stores::default()).collect();
                let target = Trapped { smfu: unit, nodes, stores, rank, stride, timeout, atomics };
                match Trap::on(processor, all, Arc::new(target)) {
                    Ok(trap) => Pages::Trapped(trap),
                    // Its kernels were compiled without looking at addresses.
                    Err(MemoryError::Gpu(error @ GpuError::NoImage)) => {
                        drop((smfu, memory));
                        let reason =
                            format!("kernels on this GPU cannot have the host reach other nodes: {error}");
                        return Ok(Parts::Apart {
                            first: rank,
                            parts: vec![processor.alloc(bytes)?],
                            reason,
                        });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let own = match (&memory, smfu.own()) {
            (Some(part), _) => Own::Gpu(part.clone()),
            (None, Some(own)) if node.info().kind == Kind::Sim => {
                // SAFETY: as above.
                Own::Device(own, unsafe { processor.map_host(own.as_ptr(), stride) }?)
            }
            (None, Some(own)) => {
                // SAFETY: as above.
                Own::Device(own, unsafe { processor.map_device(own.as_ptr(), stride) }?)
            }
            (None, None) => {
                let problem = "the device has no memory for this node's part".to_owned();
                return Err(DeviceError::Smfu { node: node.id(), problem }.into());
            }
        };
        Ok(Parts::Card(CardParts { pages, own, smfu, _memory: memory, rank, stride, atomics }))
    }
}

/// What the unit gives, and this node's part where it is GPU memory.
type Opened = (Arc<dyn SmfuWindow>, Option<Arc<GpuPart>>);

/// A part in GPU memory. It begins with a page, as a unit wants that has several.
struct GpuPart {
    memory: KernelMem,
    start: usize,
}

impl GpuPart {
    fn new(processor: &Processor, len: usize) -> Result<GpuPart, MemoryError> {
        let memory = processor.alloc(len + PAGE)?;
        let start = (memory.address() as usize).next_multiple_of(PAGE) - memory.address() as usize;
        Ok(GpuPart { memory, start })
    }

    fn address(&self) -> u64 {
        self.memory.address() + self.start as u64
    }
}

/// Takes the unit: with memory of the GPU that kernels run on where the card has a way there, else with the device's.
fn open(node: &Node, mut map: SmfuMap, processor: &Processor) -> Result<Opened, WindowError> {
    if let Some(gpu) = gpu_of(processor) {
        let len = map.part_bytes as usize;
        let part = Arc::new(GpuPart::new(processor, len)?);
        map.local = Some(Span { address: part.address(), len, place: Place::Gpu(gpu) });
        // SAFETY: the memory is kept beside the window, and dropped behind it.
        match unsafe { node.device().map_smfu(&map) } {
            Ok(smfu) => return Ok((Arc::from(smfu), Some(part))),
            Err(error) => tracing::info!("a window's part is in host memory, not on the GPU: {error}"),
        }
        map.local = None;
    }
    // SAFETY: there is no memory of ours.
    let smfu = unsafe { node.device().map_smfu(&map) }?;
    Ok((Arc::from(smfu), None))
}

impl CardParts {
    pub(crate) fn mapping(&self) -> Mapping {
        match self.pages {
            Pages::Card(_) => Mapping::Card,
            Pages::Trapped(_) => Mapping::Trapped,
        }
    }

    /// Where kernels reach part `rank` through the unit, their own node's too.
    pub(crate) fn global(&self, rank: usize) -> u64 {
        self.pages.address() + (rank * self.stride) as u64
    }

    /// Where kernels have this node's part.
    pub(crate) fn local(&self) -> u64 {
        match &self.own {
            Own::Device(_, mapped) => mapped.address(),
            Own::Gpu(part) => part.address(),
        }
    }

    /// What memory this node's part is.
    pub(crate) fn place(&self) -> Place {
        let buffer = match &self.own {
            Own::Device(..) => None,
            Own::Gpu(part) => part.memory.device_buffer(),
        };
        buffer.map_or(Place::Host, |buffer| Place::Gpu(buffer.gpu().clone()))
    }

    /// The first of `parts` parts whose process died, as far as the device knows.
    pub(crate) fn lost(&self, parts: usize) -> Option<usize> {
        let end = |part: &usize| Some(self.smfu.lost((part * self.stride) as u64)?.end);
        (0..parts).find(|part| end(part) == Some(PeerEnd::Lost))
    }

    /// Copies out of any part; the range was checked.
    pub(crate) fn read(&self, rank: usize, at: At, into: &mut [u8]) -> Result<(), WindowError> {
        match &self.own {
            _ if rank != self.rank => self.smfu.load(at.in_window(rank) as u64, into, ANSWER)?,
            // SAFETY: the range is inside the part, which the unit's window keeps.
            Own::Device(own, _) => unsafe { copy_out(own.as_ptr().add(at.offset), into) },
            Own::Gpu(part) => part.memory.read(part.start + at.offset, into)?,
        }
        Ok(())
    }

    /// Copies into any part; the range was checked.
    pub(crate) fn write(&self, rank: usize, at: At, from: &[u8]) -> Result<(), WindowError> {
        match &self.own {
            _ if rank != self.rank => self.smfu.store(at.in_window(rank) as u64, from)?,
            // SAFETY: as above.
            Own::Device(own, _) => unsafe { copy_in(from, own.as_ptr().add(at.offset)) },
            Own::Gpu(part) => part.memory.write(part.start + at.offset, from)?,
        }
        Ok(())
    }
}

impl fmt::Debug for CardParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardParts")
            .field("smfu", &self.smfu)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}
