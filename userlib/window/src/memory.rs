//! The memory of a window: one range of addresses, part i at base + i * stride, where all parts can be mapped.

use std::fmt;
use std::sync::Arc;

use ggas_device::{HostBuffer, PAGE, Place, SmfuMap, SmfuWindow, Span};
use ggas_gpu::{Gpu, GpuError, GpuWindow};
use ggas_kernels::{KernelMem, Processor};
use ggas_rma::Node;

use crate::cards::CardParts;
use crate::{Mapping, WindowError, WindowInfo};

/// Where the parts are.
pub(crate) enum Parts {
    /// Host memory, for kernels on the CPU executors of one or several processes.
    Host(HostBuffer, Mapping),
    /// Memory of GPUs that reach each other; and whether they do so with atomics.
    Gpus(GpuWindow, bool),
    /// Each member has memory of its own that the others' kernels do not reach, and why. Of this process's members,
    /// the first of which is `first`.
    Apart { first: usize, parts: Vec<KernelMem>, reason: String },
    /// Behind the pages of a card's window, or of a trapped one.
    Card(CardParts),
}

impl Parts {
    /// Zeroed parts for these processors and the bytes from part to part.
    pub(crate) fn new(processors: &[&Processor], bytes: usize) -> Result<(Parts, usize), WindowError> {
        let too_large = WindowError::TooLarge { members: processors.len(), bytes };
        let stride = bytes.checked_next_multiple_of(PAGE);
        let total = stride.and_then(|stride| stride.checked_mul(processors.len()));
        let (Some(stride), Some(total)) = (stride, total) else { return Err(too_large) };
        let gpus: Vec<Gpu> = processors.iter().filter_map(|processor| gpu_of(processor)).collect();
        if gpus.is_empty() {
            fits(processors.len(), bytes, total)?;
            return Ok((Parts::Host(HostBuffer::zeroed(total)?, Mapping::Process), stride));
        }
        if gpus.len() < processors.len() {
            let reason = "some members are on the CPU and some on a GPU".to_owned();
            return Ok((Parts::apart(processors, bytes, reason)?, stride));
        }
        match GpuWindow::new(&gpus, bytes) {
            Ok(window) => {
                let stride = window.stride() as usize;
                Ok((Parts::Gpus(window, atomics(&gpus)), stride))
            }
            Err(error @ (GpuError::NoPeerAccess { .. } | GpuError::Unsupported { .. })) => {
                Ok((Parts::apart(processors, bytes, error.to_string())?, stride))
            }
            Err(error) => Err(WindowError::Gpu(error)),
        }
    }

    pub(crate) fn apart(
        processors: &[&Processor],
        bytes: usize,
        reason: String,
    ) -> Result<Parts, WindowError> {
        let parts = processors.iter().map(|processor| processor.alloc(bytes)).collect::<Result<_, _>>()?;
        Ok(Parts::Apart { first: 0, parts, reason })
    }

    /// How kernels reach all parts.
    pub(crate) fn mapping(&self) -> Result<Mapping, String> {
        match self {
            Parts::Host(_, mapping) => Ok(*mapping),
            Parts::Gpus(..) => Ok(Mapping::Peers),
            Parts::Card(card) => Ok(card.mapping()),
            Parts::Apart { reason, .. } => Err(reason.clone()),
        }
    }

    /// Whether kernels may use atomics on all parts.
    pub(crate) fn atomics(&self) -> bool {
        match self {
            Parts::Host(..) => true,
            Parts::Gpus(_, atomics) => *atomics,
            Parts::Card(card) => card.atomics,
            Parts::Apart { .. } => false,
        }
    }

    /// The memory of a member of this process whose parts lie apart; asked for members of this process only.
    fn apart_of(first: usize, parts: &[KernelMem], rank: usize) -> &KernelMem {
        &parts[rank - first]
    }

    /// Address of part `rank` in the global range, where the parts are mapped.
    pub(crate) fn global(&self, rank: usize, stride: usize) -> u64 {
        match self {
            Parts::Card(card) => card.global(rank),
            _ => self.local(rank, stride),
        }
    }

    /// Address of part `rank`: of a member of this process, or of any where the parts are mapped.
    pub(crate) fn local(&self, rank: usize, stride: usize) -> u64 {
        match self {
            Parts::Card(card) if rank == card.rank => card.local(),
            Parts::Card(card) => card.global(rank),
            Parts::Host(memory, _) => memory.address() + (rank * stride) as u64,
            Parts::Gpus(window, _) => window.address(rank).unwrap_or_default(),
            Parts::Apart { first, parts, .. } => Parts::apart_of(*first, parts, rank).address(),
        }
    }

    /// The unit's window over parts on `nodes`, of which this one is `rank`, with the number that these have for it; or why there is none.
    pub(crate) fn smfu(
        &self,
        node: &Node,
        (nodes, number): (&[u16], Option<u64>),
        rank: usize,
        info: &WindowInfo,
    ) -> Result<Arc<dyn SmfuWindow>, String> {
        if let Parts::Card(card) = self {
            return Ok(card.smfu.clone());
        }
        info.trapped.clone()?;
        let map = SmfuMap {
            nodes: nodes.to_vec(),
            stride: info.stride as u64,
            part_bytes: info.bytes as u64,
            local: Some(self.span(rank, info.stride, info.bytes)),
            uncached: false,
            window: number,
        };
        // SAFETY: members, which keep the unit's window, are dropped before the parts.
        unsafe { node.device().map_smfu(&map) }.map(Arc::from).map_err(|error| error.to_string())
    }

    /// Part `rank` as the card sees it.
    pub(crate) fn span(&self, rank: usize, stride: usize, len: usize) -> Span {
        let place = match self {
            Parts::Host(..) => Place::Host,
            Parts::Card(card) => card.place(),
            Parts::Gpus(window, _) => window.gpu(rank).map_or(Place::Host, |gpu| Place::Gpu(gpu.clone())),
            Parts::Apart { first, parts, .. } => match Parts::apart_of(*first, parts, rank).device_buffer() {
                Some(buffer) => Place::Gpu(buffer.gpu().clone()),
                None => Place::Host,
            },
        };
        Span { address: self.local(rank, stride), len, place }
    }

    /// Copies out; the range was checked.
    pub(crate) fn read(&self, rank: usize, at: At, into: &mut [u8]) -> Result<(), WindowError> {
        match self {
            Parts::Host(memory, _) => memory.read(at.in_window(rank), into),
            Parts::Gpus(window, _) => window.read(rank, at.offset as u64, into)?,
            Parts::Apart { first, parts, .. } => {
                Parts::apart_of(*first, parts, rank).read(at.offset, into)?
            }
            Parts::Card(card) => card.read(rank, at, into)?,
        }
        Ok(())
    }

    /// Copies in; the range was checked.
    pub(crate) fn write(&self, rank: usize, at: At, from: &[u8]) -> Result<(), WindowError> {
        match self {
            Parts::Host(memory, _) => memory.write(at.in_window(rank), from),
            Parts::Gpus(window, _) => window.write(rank, at.offset as u64, from)?,
            Parts::Apart { first, parts, .. } => {
                Parts::apart_of(*first, parts, rank).write(at.offset, from)?
            }
            Parts::Card(card) => card.write(rank, at, from)?,
        }
        Ok(())
    }

    /// Makes bytes zero; the range was checked.
    pub(crate) fn zero(&self, rank: usize, at: At, len: usize) -> Result<(), WindowError> {
        /// What goes to a GPU at once.
        const PIECE: usize = 1 << 20;
        if let Parts::Host(memory, _) = self {
            memory.zero(at.in_window(rank), len);
            return Ok(());
        }
        let zeros = vec![0; len.min(PIECE)];
        (0..len).step_by(PIECE).try_for_each(|done| {
            let at = At { offset: at.offset + done, ..at };
            self.write(rank, at, &zeros[..PIECE.min(len - done)])
        })
    }

    /// Loads a word with acquire order; range and alignment were checked.
    pub(crate) fn load_u64(&self, rank: usize, at: At) -> Result<u64, WindowError> {
        match self {
            Parts::Host(memory, _) => Ok(memory.load_u64(at.in_window(rank))),
            Parts::Apart { first, parts, .. } => {
                Ok(Parts::apart_of(*first, parts, rank).load_u64(at.offset)?)
            }
            Parts::Gpus(..) | Parts::Card(_) => {
                let mut word = [0; 8];
                self.read(rank, at, &mut word)?;
                Ok(u64::from_ne_bytes(word))
            }
        }
    }

    /// Stores a word with release order; range and alignment were checked.
    pub(crate) fn store_u64(&self, rank: usize, at: At, value: u64) -> Result<(), WindowError> {
        match self {
            Parts::Host(memory, _) => memory.store_u64(at.in_window(rank), value),
            Parts::Apart { first, parts, .. } => {
                Parts::apart_of(*first, parts, rank).store_u64(at.offset, value)?
            }
            Parts::Gpus(..) | Parts::Card(_) => self.write(rank, at, &value.to_ne_bytes())?,
        }
        Ok(())
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parts::Host(memory, mapping) => f.debug_tuple("Host").field(memory).field(mapping).finish(),
            Parts::Gpus(window, _) => f.debug_tuple("Gpus").field(&window.base()).finish(),
            Parts::Apart { reason, .. } => f.debug_tuple("Apart").field(reason).finish(),
            Parts::Card(card) => card.fmt(f),
        }
    }
}

/// A place in a part, and how far the parts are from each other.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) offset: usize,
    pub(crate) stride: usize,
}

impl At {
    pub(crate) fn in_window(self, rank: usize) -> usize {
        rank * self.stride + self.offset
    }
}

/// Whether all these GPUs reach each other's memory with atomics.
fn atomics(gpus: &[Gpu]) -> bool {
    let native = |gpu: &Gpu, peer: &Gpu| {
        gpu == peer || gpu.info().peers.get(peer.ordinal()).is_some_and(|to| to.atomics)
    };
    gpus.iter().all(|gpu| gpus.iter().all(|peer| native(gpu, peer)))
}

/// The GPU that a processor is, if it is one.
pub(crate) fn gpu_of(processor: &Processor) -> Option<Gpu> {
    match processor {
        Processor::Gpu(gpu) => Some(gpu.device().clone()),
        _ => None,
    }
}

/// Refuses what the machine's memory could never hold, before any of it is taken: pages come as they are touched, and
/// then it is too late to say no.
pub(crate) fn fits(members: usize, bytes: usize, total: usize) -> Result<(), WindowError> {
    let most = machine_bytes();
    match total as u64 > most {
        true => Err(WindowError::MoreThanMachine { members, bytes, total, most }),
        false => Ok(()),
    }
}

/// Bytes of memory that this process can have at most: the machine's, or less where its control group says so.
fn machine_bytes() -> u64 {
    // SAFETY: asks for numbers.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let all = match (u64::try_from(pages), u64::try_from(page)) {
        (Ok(pages), Ok(page)) => pages.saturating_mul(page),
        _ => u64::MAX,
    };
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    all.min(group.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX))
}
