//! Ports for kernels: `struct ggas_velo` in kernel memory (`kernels/include/ggas/velo.cuh`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use extoll_abi::Address;
use extoll_abi::layout::{ggas_velo, ggas_velo_line, ggas_velo_slot};
use ggas_device::{DeviceError, VeloDevice, VeloSlotMap};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{IdleGuard, KernelMem, Mapped, MemoryError, Processor, on_idle};
use ggas_rma::{KernelReport, OptionPages, ReportCell, ReportError};

use crate::core::lock;
use crate::sender::Line;
use crate::{VeloHandle, VeloPort};

/// How long messages of kernels may take to leave the ring when a port is taken back.
const DRAIN: Duration = Duration::from_secs(1);

/// Errors of handing a port to kernels and of taking it back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KernelVeloError {
    /// Messages behind the oldest were received out of order.
    #[error(
        "{0} slots were consumed before older ones: receive the older messages first, kernels read in order"
    )]
    ConsumedOutOfOrder(u32),
    /// The network did not take messages of kernels, most likely because their receiver does not read its mailbox.
    #[error(
        "the card took all but {messages} messages of kernels within {waited:?}: see that their receivers read"
    )]
    Untaken {
        /// How many are lost.
        messages: u64,
        /// For how long it had time.
        waited: Duration,
    },
    /// Kernel memory or mappings.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The system refused memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The executor refused the requester page.
    #[error(transparent)]
    Pages(#[from] mmio::Overlap),
}

ggas_errors::debug_as_display!(KernelVeloError);

impl From<ReportError> for KernelVeloError {
    fn from(error: ReportError) -> KernelVeloError {
        match error {
            ReportError::Host(error) => error.into(),
            ReportError::Processor(error) => error.into(),
        }
    }
}

/// A port whose mailbox belongs to kernels of one processor, until [`into_port`](Self::into_port). Kernels on the CPU
/// executor have its requester page as well. The model cannot see a GPU's plain stores to that page (design section 3):
/// kernels there send through a ring of slots that it polls, and the host goes on sending beside them; the order
/// between the two is open.
pub struct KernelVelo {
    // What the structure refers to; gone before the port's memory.
    _mappings: Vec<Mapped>,
    pages: Option<(mmio::Guard, OptionPages)>,
    ring: Option<VeloSlotMap>,
    processor: Processor,
    /// `struct ggas_velo`.
    memory: KernelMem,
    report: ReportCell,
    handle: VeloHandle,
}

impl VeloPort {
    /// Hands the mailbox, and the requester page or a ring in its place, to kernels on `processor`. The address of the
    /// port's structure goes into kernel arguments. If this fails the port is closed.
    ///
    /// # Errors
    /// [`KernelVeloError`].
    pub fn for_kernels(self, processor: &Processor) -> Result<KernelVelo, KernelVeloError> {
        let handle = self.into_handle();
        let core = handle.core.clone();
        let mut mappings = Vec::new();
        let mut map = |start: *mut u8, len: usize| -> Result<u64, KernelVeloError> {
            // SAFETY: the port's device keeps its resources until it is dropped, after the mappings.
            let mapped = unsafe { processor.map_host(start, len)? };
            let address = mapped.address();
            mappings.push(mapped);
            Ok(address)
        };
        let (mailbox, registers) = (core.device.mailbox(), core.device.registers());
        let report = ReportCell::new(processor)?;
        let mut port = ggas_velo {
            mailbox: map(mailbox.base.as_ptr().cast(), mailbox.slots as usize * mailbox.size.bytes())?,
            rp_register: map(registers.read_pointer.as_ptr().cast(), 8)?,
            wcb_state: map(registers.wcb_state.as_ptr().cast(), 8)?,
            report: report.address(),
            timeout_ns: core.config.kernel_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            slots: mailbox.slots,
            slot_bytes: mailbox.size.bytes() as u32,
            node: handle.address().node.into(),
            vpid: handle.address().vpid.into(),
            // Never so lazy that a small mailbox looks full to the card.
            rp_lazy: 32.min(mailbox.slots / 4),
            ..empty_port()
        };
        let (mut pages, mut ring) = (None, None);
        if matches!(processor, Processor::Cpu(_)) && !core.config.kernel_slots {
            let reserved = OptionPages::reserve()?;
            let target = Requester { device: core.device.clone(), class: core.config.class };
            let guard = mmio::register(reserved.range(), Arc::new(target))?;
            port.page = reserved.range().start;
            port.wp = lock(&core.sender).give_to_kernels().into();
            pages = Some((guard, reserved));
        } else if let Some(slots) = core.device.attach_slots(core.config.class)? {
            ring = Some(slots);
            port.send_slots =
                map(slots.base.as_ptr().cast(), slots.slots as usize * size_of::<ggas_velo_slot>())?;
            port.send_consumed = map(slots.consumed.as_ptr().cast(), 8)?;
            port.send_mask = slots.slots - 1;
        }
        {
            let mailbox = lock(&core.mailbox);
            if mailbox.held() > 0 {
                return Err(KernelVeloError::ConsumedOutOfOrder(mailbox.held()));
            }
            port.rp = mailbox.read_pointer();
            port.rp_written = port.rp;
        }
        let memory = processor.alloc(size_of::<ggas_velo>())?;
        memory.write(0, bytes_of(&port))?;
        Ok(KernelVelo {
            _mappings: mappings,
            pages,
            ring,
            processor: processor.clone(),
            memory,
            report,
            handle,
        })
    }
}

impl KernelVelo {
    /// Address of the `struct ggas_velo`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Node and VPID, what a peer connects to.
    pub fn port_address(&self) -> Address {
        self.handle.address()
    }

    /// The host's handle: for sending beside kernels on a GPU.
    pub fn handle(&self) -> &VeloHandle {
        &self.handle
    }

    /// Lets executor threads that only wait step a model with inline progress. Hold it while the kernels run.
    #[must_use = "the threads stop stepping when this is dropped"]
    pub fn arm(&self) -> Option<IdleGuard> {
        let device = self.handle.core.device.clone();
        matches!(self.processor, Processor::Cpu(_)).then(|| on_idle(move || device.progress()))
    }

    /// What a kernel's wait on this port reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.report.get()
    }

    /// Gives the port back to the host; the kernels that use it have ended. Messages that they did not receive are
    /// still there.
    ///
    /// # Errors
    /// [`KernelVeloError::Memory`]; [`KernelVeloError::Untaken`]. The port is closed then.
    pub fn into_port(self) -> Result<VeloPort, KernelVeloError> {
        let mut port = empty_port();
        self.memory.read(0, bytes_of_mut(&mut port))?;
        let core = &self.handle.core;
        self.drain(&port)?;
        core.device.detach_slots();
        if self.pages.is_some() {
            let class = core.config.class;
            let line =
                |line: &ggas_velo_line| Line { word: line.word, words: line.words.min(16) as u8, class };
            lock(&core.sender).take_back(port.wp as u8, port.replay.iter().map(line));
        }
        core.device.set_read_pointer(port.rp, false);
        lock(&core.mailbox).resume(port.rp);
        Ok(VeloPort::from_handle(self.handle.clone()))
    }
}

impl KernelVelo {
    /// Waits until the card has taken what kernels put into the ring.
    fn drain(&self, port: &ggas_velo) -> Result<(), KernelVeloError> {
        let Some(ring) = &self.ring else { return Ok(()) };
        // SAFETY: mapped until the ring is detached, by the caller.
        let taken = || unsafe { ring.consumed.as_ref() }.load(Ordering::Acquire);
        let left = || port.send_tail.wrapping_sub(taken());
        let until = Instant::now() + DRAIN;
        while left() > 0 {
            if Instant::now() > until {
                return Err(KernelVeloError::Untaken { messages: left(), waited: DRAIN });
            }
            if !self.handle.core.device.progress() {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for KernelVelo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelVelo")
            .field("port", &self.port_address())
            .field("on", &self.processor)
            .finish_non_exhaustive()
    }
}

/// Stores of executor kernels to the requester page of one port.
struct Requester {
    device: Arc<dyn VeloDevice>,
    class: u8,
}

impl MmioTarget for Requester {
    fn store(&self, offset: u64, value: u64) {
        // A driver maps one page.
        if offset < ggas_device::PAGE as u64 {
            self.device.store(self.class, offset, &[value]);
        }
    }
}

fn empty_port() -> ggas_velo {
    // SAFETY: plain numbers; all zero is a port without anything.
    unsafe { std::mem::zeroed() }
}

fn bytes_of(port: &ggas_velo) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(port).cast(), size_of::<ggas_velo>()) }
}

fn bytes_of_mut(port: &mut ggas_velo) -> &mut [u8] {
    // SAFETY: as above; every bit pattern is a valid port.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(port).cast(), size_of::<ggas_velo>()) }
}
