//! Handing a port to kernels.

use std::sync::Arc;

use extoll_abi::PageOption;
use extoll_abi::layout::ggas_port;
use ggas_device::{KernelRings, Path, PortDevice, SlotMap};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{Mapped, Processor};

use super::{KernelPort, KernelPortError, bytes_of, empty_port};
use crate::PortHandle;
use crate::pages::OptionPages;
use crate::post::{Poster, lock};
use crate::report::ReportCell;

/// A [`KernelPort`] in the making.
pub(super) struct Setup<'a> {
    handle: &'a PortHandle,
    processor: &'a Processor,
    mappings: Vec<Mapped>,
    port: ggas_port,
}

impl<'a> Setup<'a> {
    pub(super) fn new(
        handle: &'a PortHandle,
        processor: &'a Processor,
    ) -> Result<Setup<'a>, KernelPortError> {
        let core = &handle.core;
        let port = ggas_port {
            node: core.address.node.into(),
            vpid: core.address.vpid.into(),
            option: core.config.slot_option.bits().into(),
            timeout_ns: core.config.kernel_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            ..empty_port()
        };
        Ok(Setup { handle, processor, mappings: Vec::new(), port })
    }

    /// Maps `len` bytes for the processor; the mapping lives as long as the kernel port, the memory as the port.
    fn map<T>(&mut self, start: *mut T, len: usize) -> Result<u64, KernelPortError> {
        // SAFETY: the port's device keeps its resources until it is dropped, after the mappings.
        let mapped = unsafe { self.processor.map_host(start.cast(), len)? };
        let address = mapped.address();
        self.mappings.push(mapped);
        Ok(address)
    }

    pub(super) fn finish(mut self, path: Path) -> Result<KernelPort, KernelPortError> {
        let core = self.handle.core.clone();
        let report = ReportCell::new(self.processor)?;
        self.port.report = report.address();
        let lent = match path {
            Path::Slots => core.device.lend_to_kernels(core.config.slots)?,
            Path::Card => None,
        };
        match &lent {
            Some(rings) => self.lent(rings),
            None => self.mapped_queue()?,
        }
        // Never so lazy that a small queue looks full to the card.
        self.port.rp_lazy = core.config.kernel_free_batch.min(self.port.queue_entries / 4);
        let own_ring = match (path, &lent) {
            (Path::Slots, None) => self.slots()?,
            _ => None,
        };
        let lent = lent.map(|rings| match &core.poster {
            Poster::Slots(slots) => (rings, slots.give_to_kernels()),
            Poster::Card(_) => (rings, 0),
        });
        let pages = match path {
            Path::Slots => None,
            Path::Card => Some(self.card()?),
        };
        let memory = self.processor.alloc(size_of::<ggas_port>())?;
        {
            let queue = lock(&core.queue);
            if queue.held() > 0 {
                return Err(KernelPortError::ConsumedOutOfOrder(queue.held()));
            }
            self.port.rp = queue.read_pointer();
            self.port.rp_written = self.port.rp;
        }
        memory.write(0, bytes_of(&self.port))?;
        Ok(KernelPort {
            handle: self.handle.clone(),
            processor: self.processor.clone(),
            path,
            memory,
            report,
            requester: self.port.req_pages,
            own_ring,
            lent,
            _mappings: self.mappings,
            _pages: pages,
        })
    }

    /// Queue and ring where the device put them for these kernels.
    fn lent(&mut self, rings: &KernelRings) {
        self.port.queue = rings.queue;
        self.port.queue_entries = rings.queue_entries;
        self.port.rp_register = rings.read_pointer;
        self.port.slots = rings.slots;
        self.port.slot_mask = rings.slot_count - 1;
        self.port.slot_consumed = rings.consumed;
        self.port.slots_near = 1;
    }

    /// The queue in host memory.
    fn mapped_queue(&mut self) -> Result<(), KernelPortError> {
        let device = self.handle.core.device.clone();
        let queue = device.queue();
        self.port.queue = self.map(queue.base.as_ptr(), queue.entries as usize * 16)?;
        self.port.queue_entries = queue.entries;
        self.port.rp_register = self.map(device.registers().read_pointer.as_ptr(), 8)?;
        Ok(())
    }

    /// The port's ring, or one for the kernels alone when the host posts over the card path.
    fn slots(&mut self) -> Result<Option<SlotMap>, KernelPortError> {
        let core = self.handle.core.clone();
        let (map, tail, own) = match &core.poster {
            Poster::Slots(slots) => (*slots.map(), slots.give_to_kernels(), None),
            Poster::Card(_) => {
                let map = core.device.attach_slots(core.config.slots, core.config.slot_option)?;
                (map, 0, Some(map))
            }
        };
        self.port.slots = self.map(map.base.as_ptr(), map.slots as usize * 32)?;
        self.port.slot_consumed = self.map(map.consumed.as_ptr(), 8)?;
        self.port.slot_mask = map.slots - 1;
        self.port.slot_tail = tail;
        Ok(own)
    }

    /// Option pages whose stores the executor turns into calls, and the WCB state register.
    fn card(&mut self) -> Result<(mmio::Guard, OptionPages), KernelPortError> {
        let core = self.handle.core.clone();
        let pages = OptionPages::reserve()?;
        let guard = mmio::register(pages.range(), Arc::new(Requester(core.device.clone())))?;
        self.port.req_pages = pages.range().start;
        self.port.wcb_state = self.map(core.device.registers().wcb_state.as_ptr(), 8)?;
        self.port.wp = match &core.poster {
            Poster::Card(card) => lock(card).give_to_kernels().into(),
            Poster::Slots(_) => 0,
        };
        Ok((guard, pages))
    }
}

/// Stores of executor kernels to the option pages of one port.
struct Requester(Arc<dyn PortDevice>);

impl MmioTarget for Requester {
    fn store(&self, offset: u64, value: u64) {
        // Pages of other VPIDs lie between a port's own; a driver does not map them.
        if let (option, 0, in_page) = PageOption::from_offset(offset) {
            self.0.requester_store(option, in_page.into(), value);
        }
    }
}
