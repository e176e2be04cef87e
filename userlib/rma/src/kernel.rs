//! Ports for kernels: `struct ggas_port` in kernel memory (thesis 5.6.2).

mod setup;

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use extoll_abi::layout::ggas_port;
use extoll_abi::{Address, PageOption};
use ggas_device::{KernelRings, Path, SlotMap};
use ggas_gpu::{Copier, CopierGuard, Gpu};
use ggas_kernels::mmio;
use ggas_kernels::{IdleGuard, on_idle};
use ggas_kernels::{KernelMem, Mapped, MemoryError, Processor};

use crate::backoff::{Backoff, Step};
use crate::card::Written;
use crate::pages::OptionPages;
use crate::post::{Poster, lock};
use crate::report::{ReportCell, ReportError};
use crate::{DeviceError, KernelReport, Port, PortHandle};
use setup::Setup;

/// Errors of handing a port to kernels and of taking it back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KernelPortError {
    /// Kernels on a GPU cannot use the card path of a model.
    #[error(
        "kernels on {processor} cannot use the card path of the model: polled memory does not show that a word of \
         value 0 arrived (design section 3); use KernelPath::Slots"
    )]
    CardOnGpu {
        /// The processor.
        processor: String,
    },
    /// Kernels on a GPU reach the device in no way.
    #[error(
        "kernels on {processor} do not reach this device yet: it has requester pages only; run them on the CPU executor"
    )]
    NotOnGpu {
        /// The processor.
        processor: String,
    },
    /// Notifications behind the oldest were consumed out of order.
    #[error(
        "{0} notifications were consumed before older ones: consume the older ones first, kernels read in order"
    )]
    ConsumedOutOfOrder(u32),
    /// Kernel memory or mappings.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The device refused a slot ring, or the system refused memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The executor refused the requester pages.
    #[error(transparent)]
    Pages(#[from] mmio::Overlap),
    /// Kernels claimed slots that they never filled; the ring cannot be used any more.
    #[error(
        "kernels claimed {claimed} slots and the card took {consumed} within {waited:?}: a kernel was stopped while \
         posting. The port was closed; open a new one"
    )]
    Unfinished {
        /// Slots claimed.
        claimed: u64,
        /// Slots consumed.
        consumed: u64,
        /// How long was waited.
        waited: Duration,
    },
}

ggas_errors::debug_as_display!(KernelPortError);

impl From<ReportError> for KernelPortError {
    fn from(error: ReportError) -> KernelPortError {
        match error {
            ReportError::Host(error) => error.into(),
            ReportError::Processor(error) => error.into(),
        }
    }
}

/// A port whose notification queue and requester belong to kernels of one processor.
///
/// While it exists the host registers memory and connects through it, but consumes no notifications:
/// [`Port::for_kernels`] takes the port, [`into_port`](Self::into_port) gives it back. Host posts over the path
/// that kernels use fail with [`PostError::KernelOwned`](crate::PostError::KernelOwned); the other path stays
/// the host's.
pub struct KernelPort {
    // What the structure refers to; gone before the port's memory.
    _mappings: Vec<Mapped>,
    _pages: Option<(mmio::Guard, OptionPages)>,
    processor: Processor,
    path: Path,
    /// `struct ggas_port`.
    memory: KernelMem,
    report: ReportCell,
    /// First address of the option pages on the card path.
    requester: u64,
    /// A ring that was attached for the kernels alone.
    own_ring: Option<SlotMap>,
    /// Queue and ring in the processor's memory, and where the host goes on in its own.
    lent: Option<(KernelRings, u64)>,
    handle: PortHandle,
}

impl Port {
    /// Hands the notification queue and one requester path to kernels on `processor`; without a path, slots where the device
    /// has them, which serve kernels on GPUs, too, else its requester pages. The address of the port's structure goes into
    /// kernel arguments. If this fails the port is closed.
    ///
    /// # Errors
    /// [`KernelPortError`]; kernels on a GPU need [`Path::Slots`] on the model, and do not reach a card.
    pub fn for_kernels(
        self,
        processor: &Processor,
        path: impl Into<Option<Path>>,
    ) -> Result<KernelPort, KernelPortError> {
        let handle = self.into_handle();
        let slots = handle.core.paths.contains(&Path::Slots);
        let path = path.into().unwrap_or(if slots { Path::Slots } else { Path::Card });
        if path == Path::Card && !matches!(processor, Processor::Cpu(_)) {
            let processor = processor.name();
            return Err(match slots {
                true => KernelPortError::CardOnGpu { processor },
                false => KernelPortError::NotOnGpu { processor },
            });
        }
        Setup::new(&handle, processor)?.finish(path)
    }
}

impl KernelPort {
    /// Address of the `struct ggas_port`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Node and VPID, what a peer connects to.
    pub fn port_address(&self) -> Address {
        self.handle.address()
    }

    /// Where its kernels run.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// How they post.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Makes the device look for what kernels post without telling. Hold the guard from before the launch until
    /// after the kernels have ended; on the card path it costs nothing.
    ///
    /// For kernels on a GPU this also starts the copier there, which moves short transfers to and from GPU memory,
    /// if memory of that GPU was registered before; if it does not fit beside other kernels, copies take the slower way.
    pub fn arm(&self) -> Armed<'_> {
        if self.path == Path::Slots {
            self.handle.core.device.arm();
        }
        let copier = match &self.processor {
            Processor::Gpu(gpu) => arm_copier(gpu.device()),
            _ => None,
        };
        let device = self.handle.core.device.clone();
        let idle = matches!(self.processor, Processor::Cpu(_)).then(|| on_idle(move || device.progress()));
        Armed { port: self, _copier: copier, _idle: idle }
    }

    /// What a kernel's wait on this port reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.report.get()
    }

    /// Forgets a report. Not while kernels run.
    pub fn clear_report(&self) {
        self.report.clear();
    }

    /// Gives the port back to the host; the kernels that use it have ended. Notifications that they did not
    /// consume are still there.
    ///
    /// # Errors
    /// [`KernelPortError::Unfinished`] when a kernel was stopped in the middle of a post; [`KernelPortError::Memory`].
    /// The port is closed then.
    pub fn into_port(self) -> Result<Port, KernelPortError> {
        let mut port = empty_port();
        self.memory.read(0, bytes_of_mut(&mut port))?;
        let core = &self.handle.core;
        match (self.path, &core.poster) {
            (Path::Slots, poster) if self.lent.is_some() => self.take_lent(poster, &port)?,
            (Path::Slots, Poster::Slots(slots)) => {
                self.drain(|| Ok(consumed(slots.map())), port.slot_tail)?;
                slots.take_back(port.slot_tail);
            }
            (Path::Card, Poster::Card(card)) => {
                let option =
                    |page: u64| PageOption::new((page.wrapping_sub(self.requester) >> 20 & 31) as u8);
                let ring = port.replay.map(|entry| Written {
                    word: entry.word,
                    option: option(entry.page).unwrap_or_default(),
                });
                lock(card).take_back(port.wp as u8, ring);
            }
            (Path::Slots, Poster::Card(_)) => {
                if let Some(map) = &self.own_ring {
                    self.drain(|| Ok(consumed(map)), port.slot_tail)?;
                }
                core.device.detach_slots();
            }
            (Path::Card, Poster::Slots(_)) => {}
        }
        lock(&core.queue).resume(port.rp);
        Ok(Port::from_handle(self.handle.clone()))
    }

    /// Takes back queue and ring from the processor's memory.
    fn take_lent(&self, poster: &Poster, port: &ggas_port) -> Result<(), KernelPortError> {
        let Some((rings, host_tail)) = &self.lent else { return Ok(()) };
        self.drain(|| rings.memory.load_u64(0), port.slot_tail)?;
        self.handle.core.device.take_from_kernels(port.rp)?;
        if let Poster::Slots(slots) = poster {
            slots.take_back(*host_tail);
        }
        Ok(())
    }

    /// Waits until the card has taken all that kernels claimed.
    fn drain(
        &self,
        consumed: impl Fn() -> Result<u64, MemoryError>,
        claimed: u64,
    ) -> Result<(), KernelPortError> {
        let core = &self.handle.core;
        let mut backoff = Backoff::new(core.config.post_timeout);
        loop {
            let consumed = consumed()?;
            if consumed >= claimed {
                return Ok(());
            }
            core.device.kick();
            match backoff.step() {
                Step::Again => {}
                Step::Sleep(left) => backoff.nap(left),
                Step::Over(waited) => return Err(KernelPortError::Unfinished { claimed, consumed, waited }),
            }
        }
    }
}

impl Deref for KernelPort {
    type Target = PortHandle;

    fn deref(&self) -> &PortHandle {
        &self.handle
    }
}

impl fmt::Debug for KernelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, path, .. } = self;
        let address = self.handle.address();
        f.debug_struct("KernelPort")
            .field("port", &address)
            .field("path", path)
            .field("on", processor)
            .finish()
    }
}

/// The device keeps looking for what kernels post; see [`KernelPort::arm`].
#[must_use = "the device stops looking when this is dropped"]
pub struct Armed<'a> {
    port: &'a KernelPort,
    _copier: Option<CopierGuard>,
    /// Executor threads that only wait step a model with inline progress.
    _idle: Option<IdleGuard>,
}

/// Nothing to do while no memory of the GPU is registered: the copier's polls would only slow down kernels' own.
fn arm_copier(gpu: &Gpu) -> Option<CopierGuard> {
    let armed = Copier::in_use(gpu)?.arm();
    armed.inspect_err(|error| tracing::warn!("GPU {}: copies are slow: {error}", gpu.ordinal())).ok()
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if self.port.path == Path::Slots {
            self.port.handle.core.device.disarm();
        }
    }
}

/// How many slots of a ring in host memory the card has taken.
fn consumed(map: &SlotMap) -> u64 {
    // SAFETY: the ring is mapped as long as the port lives.
    unsafe { map.consumed.as_ref() }.load(std::sync::atomic::Ordering::Acquire)
}

fn empty_port() -> ggas_port {
    // SAFETY: plain numbers; all zero is a port without anything.
    unsafe { std::mem::zeroed() }
}

fn bytes_of(port: &ggas_port) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(port).cast(), size_of::<ggas_port>()) }
}

fn bytes_of_mut(port: &mut ggas_port) -> &mut [u8] {
    // SAFETY: as above; every bit pattern is a valid port.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(port).cast(), size_of::<ggas_port>()) }
}
