//! Ports for kernels: `struct ggas_velo` in kernel memory (`kernels/include/ggas/velo.cuh`).

use std::fmt;
use std::sync::Arc;

use extoll_abi::Address;
use extoll_abi::layout::{ggas_velo, ggas_velo_slot};
use ggas_device::{Device, DeviceError, VeloDevice};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{IdleGuard, KernelMem, Mapped, MemoryError, Processor};
use ggas_rma::{KernelReport, OptionPages, ReportCell, ReportError};

use crate::VeloConfig;

/// Errors of opening a port for kernels.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KernelVeloError {
    /// Kernel memory or mappings.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The device has no VPID free, or not this mailbox, or the system refused memory.
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

/// A port whose mailbox, and requester page or a ring in its place, belong to kernels of one processor as long as it is
/// open.
///
/// Kernels on the CPU executor have the requester page. The model cannot see a GPU's plain stores to that page (design
/// section 3): kernels there send through a ring of slots that it polls. Messages that the network has not taken when the
/// port is dropped are lost: kernels wait for that by `gpu_velo_drain`.
pub struct KernelVelo {
    // What the structure refers to; gone before the port's memory.
    _mappings: Vec<Mapped>,
    _pages: Option<(mmio::Guard, OptionPages)>,
    processor: Processor,
    /// `struct ggas_velo`.
    memory: KernelMem,
    report: ReportCell,
    device: Arc<dyn VeloDevice>,
}

impl KernelVelo {
    /// Opens a port for kernels on `processor`, on the lowest free VPID of a device. The address of the port's structure
    /// goes into kernel arguments.
    ///
    /// # Errors
    /// [`KernelVeloError`].
    pub fn open(
        card: &Arc<dyn Device>,
        config: VeloConfig,
        processor: &Processor,
    ) -> Result<KernelVelo, KernelVeloError> {
        let device = card.open_velo(&config.setup())?;
        let mut mappings = Vec::new();
        let mut map = |start: *mut u8, len: usize| -> Result<u64, KernelVeloError> {
            // SAFETY: the port's device keeps its resources until it is dropped, after the mappings.
            let mapped = unsafe { processor.map_host(start, len)? };
            let address = mapped.address();
            mappings.push(mapped);
            Ok(address)
        };
        let (mailbox, registers, address) = (device.mailbox(), device.registers(), device.address());
        let report = ReportCell::new(processor)?;
        let mut port = ggas_velo {
            mailbox: map(mailbox.base.as_ptr().cast(), mailbox.slots as usize * mailbox.size.bytes())?,
            rp_register: map(registers.read_pointer.as_ptr().cast(), 8)?,
            wcb_state: map(registers.wcb_state.as_ptr().cast(), 8)?,
            report: report.address(),
            timeout_ns: config.kernel_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            slots: mailbox.slots,
            slot_bytes: mailbox.size.bytes() as u32,
            node: address.node.into(),
            vpid: address.vpid.into(),
            // Never so lazy that a small mailbox looks full to the card.
            rp_lazy: 32.min(mailbox.slots / 4),
            ..empty_port()
        };
        let mut pages = None;
        if matches!(processor, Processor::Cpu(_)) && !config.kernel_slots {
            let reserved = OptionPages::reserve()?;
            let target = Requester { device: device.clone(), class: config.class };
            let guard = mmio::register(reserved.range(), Arc::new(target))?;
            port.page = reserved.range().start;
            pages = Some((guard, reserved));
        } else if let Some(slots) = device.attach_slots(config.class)? {
            port.send_slots =
                map(slots.base.as_ptr().cast(), slots.slots as usize * size_of::<ggas_velo_slot>())?;
            port.send_consumed = map(slots.consumed.as_ptr().cast(), 8)?;
            port.send_mask = slots.slots - 1;
        }
        let memory = processor.alloc(size_of::<ggas_velo>())?;
        memory.write(0, bytes_of(&port))?;
        Ok(KernelVelo {
            _mappings: mappings,
            _pages: pages,
            processor: processor.clone(),
            memory,
            report,
            device,
        })
    }

    /// Address of the `struct ggas_velo`, for kernel arguments.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Node and VPID, what a peer connects to.
    pub fn port_address(&self) -> Address {
        self.device.address()
    }

    /// Sets the protection ids of what is sent and of what is taken in; other messages are dropped and counted at the
    /// receiver. Both are 0 in a new port.
    ///
    /// # Errors
    /// [`DeviceError::Closed`].
    pub fn set_protection(&self, send: u16, receive: u16) -> Result<(), DeviceError> {
        self.device.set_protection(send, receive)
    }

    /// Lets executor threads that only wait step a model with inline progress. Hold it while the kernels run.
    #[must_use = "the threads stop stepping when this is dropped"]
    pub fn arm(&self) -> Option<IdleGuard> {
        let device = self.device.clone();
        let clock = device.clock().clone();
        self.processor.on_idle(&clock, move || device.progress())
    }

    /// What a kernel's wait on this port reported, if one failed.
    pub fn report(&self) -> Option<KernelReport> {
        self.report.get()
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
