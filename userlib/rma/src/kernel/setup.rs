//! What a port for kernels consists of.

use std::sync::Arc;

use extoll_abi::PageOption;
use extoll_abi::bindings::{EXTOLL_PAGE_OPTION_SHIFT, EXTOLL_WCB_ENTRIES};
use extoll_abi::layout::ggas_port;
use ggas_device::{KernelRings, PAGE, Path, PortDevice};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{Mapped, Processor};

use super::state::{Posts, State};
use super::watched::{WatchedPage, Watcher};
use super::{KernelPort, KernelPortError, Pages, bytes_of, empty_port};
use crate::PortBase;
use crate::core::Vpid;
use crate::pages::OptionPages;
use crate::posted::Asked;
use crate::report::ReportCell;

/// A [`KernelPort`] in the making.
pub(super) struct Setup<'a> {
    vpid: Arc<Vpid>,
    processor: &'a Processor,
    mappings: Vec<Mapped>,
    port: ggas_port,
    posts: Posts,
}

impl<'a> Setup<'a> {
    /// Of a port that was just opened.
    pub(super) fn new(vpid: Arc<Vpid>, processor: &'a Processor) -> Setup<'a> {
        let port = ggas_port {
            node: vpid.address.node.into(),
            vpid: vpid.address.vpid.into(),
            option: vpid.config.slot_option.bits().into(),
            timeout_ns: vpid.config.kernel_timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            lines: EXTOLL_WCB_ENTRIES as u32 - 1,
            ..empty_port()
        };
        Setup { vpid, processor, mappings: Vec::new(), port, posts: Posts::Unseen }
    }

    /// Maps `len` bytes of memory for the processor; the mapping lives as long as the kernel port, the memory as the VPID.
    fn map<T>(&mut self, start: *mut T, len: usize) -> Result<u64, KernelPortError> {
        // SAFETY: the port's device keeps its resources until it is dropped, after the mappings.
        let mapped = unsafe { self.processor.map_host(start.cast(), len)? };
        Ok(self.keep(mapped))
    }

    /// Maps what a driver mapped for this process: registers of a card, in a page of their own, or memory that it gave. As
    /// memory where the device is a model.
    fn map_device<T>(&mut self, start: *mut T, len: usize) -> Result<u64, KernelPortError> {
        if !self.vpid.device.is_hardware() {
            return self.map(start, len);
        }
        // SAFETY: as above; the device's mappings are whole pages.
        let mapped = unsafe { self.processor.map_device(start.cast(), len)? };
        Ok(self.keep(mapped))
    }

    fn keep(&mut self, mapped: Mapped) -> u64 {
        let address = mapped.address();
        self.mappings.push(mapped);
        address
    }

    /// `rings`: where the device put queue and slots for these kernels.
    pub(super) fn finish(
        mut self,
        path: Path,
        rings: Option<KernelRings>,
    ) -> Result<KernelPort, KernelPortError> {
        let report = ReportCell::new(self.processor)?;
        self.port.report = report.address();
        let mut pages = Pages::None;
        match (path, &rings) {
            (Path::Slots, Some(rings)) => self.near(rings),
            (Path::Slots, None) => {
                self.mapped_queue()?;
                self.slots()?;
            }
            (Path::Card, _) => {
                self.mapped_queue()?;
                pages = self.card()?;
            }
        }
        // Never so lazy that a small queue looks full to the card.
        self.port.rp_lazy = self.vpid.config.kernel_free_batch.min(self.port.queue_entries / 4);
        let memory = self.processor.alloc(size_of::<ggas_port>())?;
        memory.write(0, bytes_of(&self.port))?;
        Ok(KernelPort {
            base: PortBase { vpid: self.vpid },
            processor: self.processor.clone(),
            path,
            memory,
            report,
            state: State::new(self.posts),
            _mappings: self.mappings,
            pages,
        })
    }

    fn near(&mut self, rings: &KernelRings) {
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
        let queue = self.vpid.device.queue();
        let read_pointer = self.vpid.device.registers().read_pointer;
        self.port.queue = self.map_device(queue.base.as_ptr(), queue.entries as usize * 16)?;
        self.port.queue_entries = queue.entries;
        self.port.rp_register = self.map_device(read_pointer.as_ptr(), 8)?;
        Ok(())
    }

    /// Slots in host memory.
    fn slots(&mut self) -> Result<(), KernelPortError> {
        let config = &self.vpid.config;
        let map = self.vpid.device.attach_slots(config.slots, config.slot_option)?;
        self.port.slots = self.map(map.base.as_ptr(), map.slots as usize * 32)?;
        self.port.slot_consumed = self.map(map.consumed.as_ptr(), 8)?;
        self.port.slot_mask = map.slots - 1;
        self.posts = Posts::Ring(map);
        Ok(())
    }

    /// The port's option page, and the WCB state register.
    fn card(&mut self) -> Result<Pages, KernelPortError> {
        let asked = Arc::<Asked>::default();
        let state = self.vpid.device.registers().wcb_state;
        self.port.wcb_state = self.map_device(state.as_ptr(), 8)?;
        let on_gpu = !matches!(self.processor, Processor::Cpu(_));
        let page = self.vpid.device.requester_page(self.vpid.config.slot_option);
        match page {
            Some(page) if on_gpu => {
                let page = self.map_device(page.as_ptr(), PAGE)?;
                self.set_page(page);
                Ok(Pages::Mapped)
            }
            None if on_gpu || self.vpid.config.watch_page => self.watched(asked),
            _ => self.trapped(asked),
        }
    }

    /// Where the page of the port's option is; kernels store to no other one.
    fn set_page(&mut self, address: u64) {
        self.port.req_pages = address.wrapping_sub(u64::from(self.port.option) << EXTOLL_PAGE_OPTION_SHIFT);
    }

    /// Stores that the executor turns into calls.
    fn trapped(&mut self, asked: Arc<Asked>) -> Result<Pages, KernelPortError> {
        let pages = OptionPages::reserve()?;
        let target = Requester(self.vpid.device.clone(), asked.clone());
        let guard = mmio::register(pages.range(), Arc::new(target))?;
        self.port.req_pages = pages.range().start;
        self.posts = Posts::Stored(asked);
        Ok(Pages::Trapped(guard, pages))
    }

    /// Stores to memory.
    fn watched(&mut self, asked: Arc<Asked>) -> Result<Pages, KernelPortError> {
        let option = self.vpid.config.slot_option;
        let page = Arc::new(WatchedPage::new(self.vpid.device.clone(), option, asked.clone())?);
        let (start, len) = page.memory();
        let mapped = self.map(start, len)?;
        self.set_page(mapped + PAGE as u64);
        self.port.lines = 1;
        self.posts = Posts::Stored(asked);
        let on_gpu = !matches!(self.processor, Processor::Cpu(_));
        let watcher = on_gpu.then(|| Watcher::start(page.clone())).transpose()?;
        Ok(Pages::Watched(page, watcher))
    }
}

/// Stores of executor kernels to the option pages of one port.
struct Requester(Arc<dyn PortDevice>, Arc<Asked>);

impl MmioTarget for Requester {
    fn store(&self, offset: u64, value: u64) {
        // Pages of other VPIDs lie between a port's own; a driver does not map them.
        if let (option, 0, in_page) = PageOption::from_offset(offset) {
            self.0.requester_store(option, in_page.into(), value);
            if in_page == 0 {
                self.1.note(value);
            }
        }
    }
}
