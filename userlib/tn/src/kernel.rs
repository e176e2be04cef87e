//! `struct ggas_tn` in kernel memory, and what it refers to (`kernels/include/ggas/tn.cuh`).

use std::sync::Arc;

use extoll_abi::layout::{ggas_slot, ggas_tn};
use ggas_device::{HostBuffer, PAGE, TriggerDevice};
use ggas_kernels::mmio::{self, MmioTarget};
use ggas_kernels::{IdleGuard, KernelMem, Mapped, Processor};
use ggas_rma::{OptionPages, ReportCell};

use crate::words::Words;
use crate::{Status, TnError};

/// What kernels on one processor have of a table.
pub(crate) struct KernelSide {
    // What the structure refers to; gone before its memory.
    _mappings: Vec<Mapped>,
    _page: Option<(mmio::Guard, OptionPages)>,
    memory: KernelMem,
    pub(crate) report: ReportCell,
}

/// What of it depends on who counts.
pub(crate) struct Ground<'a> {
    pub(crate) processor: &'a Processor,
    pub(crate) unit: &'a Arc<dyn TriggerDevice>,
    pub(crate) words: &'a Words,
    pub(crate) tags: u32,
    pub(crate) node: u16,
    pub(crate) timeout_ns: u64,
    /// Slots of a ring of tags; `None`: the executor makes calls of stores to a page.
    pub(crate) slots: Option<u32>,
}

impl KernelSide {
    pub(crate) fn new(ground: &Ground<'_>) -> Result<KernelSide, TnError> {
        let Ground { processor, unit, words, .. } = *ground;
        let mut mappings = Vec::new();
        let mut map = |start: *mut u8, len: usize| -> Result<u64, TnError> {
            // SAFETY: `Triggers` keeps the words, and its unit the ring, until this is dropped; all access is atomic.
            let mapped = unsafe { processor.map_host(start, len)? };
            let address = mapped.address();
            mappings.push(mapped);
            Ok(address)
        };
        let memory: &HostBuffer = words.memory();
        let status = map(memory.as_ptr(), memory.len())?;
        let report = ReportCell::new(processor)?;
        let mut tn = ggas_tn {
            status,
            words: status + Words::at(0) as u64,
            report: report.address(),
            timeout_ns: ground.timeout_ns,
            node: ground.node.into(),
            operations: ground.tags,
            tags: ground.tags,
            ..ggas_tn::default()
        };
        let mut page = None;
        match ground.slots {
            None => {
                let reserved = OptionPages::reserve()?;
                let guard = mmio::register(reserved.range(), Arc::new(Page(unit.clone())))?;
                tn.page = reserved.range().start;
                page = Some((guard, reserved));
            }
            Some(slots) => {
                let ring = unit.attach_slots(slots)?;
                tn.slots = map(ring.base.as_ptr().cast(), ring.slots as usize * size_of::<ggas_slot>())?;
                tn.slot_consumed = map(ring.consumed.as_ptr().cast(), 8)?;
                tn.slot_mask = ring.slots - 1;
            }
        }
        let memory = processor.alloc(size_of::<ggas_tn>())?;
        memory.write(0, bytes_of(&tn))?;
        Ok(KernelSide { _mappings: mappings, _page: page, memory, report })
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(crate) fn clear_errors(&self, so_far: Status) -> Result<(), TnError> {
        self.report.clear();
        so_far.clear_in(&self.memory)
    }
}

/// Threads of the executor that only wait do what triggers need; see [`Triggers::arm`](crate::Triggers::arm).
#[must_use = "executor threads stop helping when this is dropped"]
pub struct Armed<'a> {
    pub(crate) _idle: Option<IdleGuard>,
    pub(crate) _of: std::marker::PhantomData<&'a ()>,
}

/// Stores of executor kernels to the trigger page.
struct Page(Arc<dyn TriggerDevice>);

impl MmioTarget for Page {
    fn store(&self, offset: u64, value: u64) {
        if offset < PAGE as u64 {
            self.0.store(offset, value);
        }
    }
}

pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: only for `ggas_tn` and structures of kernel arguments: plain numbers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
