//! Ports for kernels: `struct ggas_port` in kernel memory (thesis 5.6.2).

mod setup;
mod state;
mod watched;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use extoll_abi::Address;
use extoll_abi::layout::ggas_port;
use ggas_device::{Device, Path};
use ggas_gpu::{Copier, CopierGuard, Gpu};
use ggas_kernels::mmio;
use ggas_kernels::{IdleGuard, KernelMem, Mapped, MemoryError, Processor};

use crate::core::Vpid;
use crate::pages::OptionPages;
use crate::report::{ReportCell, ReportError};
use crate::{DeviceError, KernelPortState, KernelReport, PortBase, PortConfig, PortError};
use setup::Setup;
use state::State;
use watched::{WatchedPage, Watcher};

pub use watched::PageStores;

/// Errors of opening a port for kernels.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KernelPortError {
    /// The device lacks the path that was asked for.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Kernel memory or mappings.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The device refused a slot ring, or the system refused memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The executor refused the requester pages.
    #[error(transparent)]
    Pages(#[from] mmio::Overlap),
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

/// A port whose notification queue and requester belong to kernels of one processor, as long as it is open
/// ([`Node::open_kernel_port`](crate::Node::open_kernel_port)). The host registers memory through it, which its kernels
/// and their peers name.
///
/// It is closed when it and the last of its regions are gone. What kernels posted and the card has not taken by then
/// is lost: have them wait for their notifications, or drain the port.
pub struct KernelPort {
    // What the structure refers to; gone before the port's memory.
    _mappings: Vec<Mapped>,
    pages: Pages,
    processor: Processor,
    path: Path,
    /// `struct ggas_port`.
    memory: KernelMem,
    report: ReportCell,
    state: State,
    base: PortBase,
}

impl KernelPort {
    pub(crate) fn open(
        device: &Arc<dyn Device>,
        config: PortConfig,
        processor: &Processor,
    ) -> Result<KernelPort, KernelPortError> {
        let slots = device.info().paths.contains(&Path::Slots);
        let config = config.by(device, if slots { Path::Slots } else { Path::Card })?;
        let path = config.path.unwrap_or_default();
        let (opened, rings) = match path {
            Path::Slots => device.open_port_for_kernels(&config.setup(), config.slots)?,
            Path::Card => (device.open_port(&config.setup())?, None),
        };
        Setup::new(Vpid::new(opened, config), processor).finish(path, rings)
    }

    /// Address of the `struct ggas_port`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Node and VPID, what a peer connects to.
    pub fn port_address(&self) -> Address {
        self.base.address()
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
        self.state.arm(&self.report);
        if self.is_looked_for() {
            self.base.vpid.device.arm();
        }
        let copier = match &self.processor {
            Processor::Gpu(gpu) => arm_copier(gpu.device()),
            _ => None,
        };
        Armed { port: self, _copier: copier, _idle: self.step_when_idle() }
    }

    /// Whether the device's own threads are to look for what kernels post by stores to memory. Who watches a page works for
    /// the device, too, where that has callers do its work.
    fn is_looked_for(&self) -> bool {
        let watched = matches!(self.pages, Pages::Watched(..));
        self.path == Path::Slots || watched && !self.base.vpid.device.is_driven_by_callers()
    }

    /// Has executor threads that only wait do what else threads of the host would.
    fn step_when_idle(&self) -> Option<IdleGuard> {
        let device = self.base.vpid.device.clone();
        let clock = device.clock().clone();
        let watched = match &self.pages {
            Pages::Watched(page, watcher) => {
                watcher.iter().for_each(Watcher::arm);
                Some(page.clone())
            }
            _ => None,
        };
        self.processor.on_idle(&clock, move || {
            let stored = watched.as_ref().is_some_and(|page| page.look());
            stored | device.progress()
        })
    }

    /// What kernels stored to the port's option page, where that is memory which the host watches ([`PortConfig::watch_page`]).
    pub fn stores(&self) -> Option<PageStores> {
        match &self.pages {
            Pages::Watched(page, _) => Some(page.stores()),
            _ => None,
        }
    }

    /// What a kernel's wait on this port reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        let state = || KernelPortState { armed: self.state.was_armed(), posted: self.state.posted() };
        self.report.get().map(|report| KernelReport { port: Some(state()), ..report })
    }

    /// Forgets a report. Not while kernels run.
    pub fn clear_report(&self) {
        self.report.clear();
        self.state.clear();
    }
}

impl Deref for KernelPort {
    type Target = PortBase;

    fn deref(&self) -> &PortBase {
        &self.base
    }
}

impl fmt::Debug for KernelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, path, .. } = self;
        let address = self.base.address();
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
        self.port.state.disarm(&self.port.report);
        if self.port.is_looked_for() {
            self.port.base.vpid.device.disarm();
        }
        if let Pages::Watched(page, watcher) = &self.port.pages {
            watcher.iter().for_each(Watcher::disarm);
            // What kernels stored last, before they ended.
            page.look();
        }
    }
}

/// What kernels store descriptors to.
enum Pages {
    /// A slot ring only.
    None,
    /// Addresses: the executor makes calls of stores there.
    Trapped(
        #[expect(dead_code, reason = "held")] mmio::Guard,
        #[expect(dead_code, reason = "held")] OptionPages,
    ),
    /// Memory, and on a GPU the thread that watches it.
    Watched(Arc<WatchedPage>, Option<Watcher>),
    /// The card's own, mapped for a GPU.
    Mapped,
}

fn empty_port() -> ggas_port {
    // SAFETY: plain numbers; all zero is a port without anything.
    unsafe { std::mem::zeroed() }
}

fn bytes_of(port: &ggas_port) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(port).cast(), size_of::<ggas_port>()) }
}
