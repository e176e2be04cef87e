//! An open port of a node with an engine.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use extoll_abi::layout::ggas_near_slot;
use extoll_abi::{Access, Address, PageOption};
use ggas_kernels::args::{ENGINE_PORT_CLOSED, engine_port};
use ggas_kernels::{KernelMem, Processor};

use super::node::Node;
use super::runner::{EngineGuard, Runner};
use super::shared::Shared;
use super::{lock, refused};
use crate::{
    Departures, DeviceError, KernelRings, Kind, LostPeer, PAGE, PortDevice, PortSetup, QueueMap, RegisterMap,
    SlotMap, Span, UnitDevice,
};
use ggas_clock::{Backoff, Clock, Step};

/// Most slots of a ring: 2 MiB of memory.
const MAX_SLOTS: u32 = 1 << 16;
/// Bytes of a notification.
const ENTRY: usize = 16;
/// Bits of the option page that only say the traffic class.
const TRAFFIC_CLASS: u8 = 3;

/// A page for the read pointer, one for a WCB state that stays 0, then the queue.
const QUEUE_AT: usize = 2 * PAGE;

/// A VPID of a node with an engine.
pub(super) struct EnginePort {
    node: Arc<Node>,
    runner: Arc<Runner>,
    vpid: u8,
    entries: u32,
    memory: ManuallyDrop<Memory>,
    state: Mutex<State>,
}

/// What engines may still use when its port is gone: never given back.
static STUCK: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// All of it stays until the port is dropped. What the engine is to use is here before the engine hears of it.
struct Memory {
    /// The registers, and behind them the queue of a port of the host.
    queue: Shared,
    /// The slot ring of a port of the host.
    ring: Mutex<Option<Shared>>,
    /// Of a port of kernels.
    kernels: Option<Near>,
}

/// What kernels use of their port, in memory of their processor: read pointer and counter, the slots, the queue.
struct Near {
    _memory: KernelMem,
    rings: KernelRings,
}

impl Near {
    fn new(processor: &Processor, entries: u32, slots: u32) -> Result<Near, DeviceError> {
        // Counter and read pointer in lines of their own.
        const REGISTERS: usize = 256;
        let queue_at = REGISTERS + slots as usize * size_of::<ggas_near_slot>();
        let memory = processor.alloc(queue_at + entries as usize * ENTRY);
        let memory = memory.map_err(refused("a port's rings on its GPU"))?;
        let base = memory.address();
        let rings = KernelRings {
            queue: base + queue_at as u64,
            queue_entries: entries,
            read_pointer: base + 128,
            slots: base + REGISTERS as u64,
            slot_count: slots,
            consumed: base,
        };
        Ok(Near { _memory: memory, rings })
    }
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Nobody knows what the engine uses: the port does nothing more, and its memory is never given back.
    stuck: bool,
    /// Guards of [`PortDevice::arm`].
    armed: Vec<EngineGuard>,
}

impl EnginePort {
    /// A port that its engine does not know yet.
    pub(super) fn new(
        node: &Arc<Node>,
        runner: &Arc<Runner>,
        vpid: u8,
        setup: &PortSetup,
        kernel_slots: Option<u32>,
    ) -> Result<EnginePort, DeviceError> {
        let PortSetup { queue_bytes: bytes, segment_bytes: segment } = *setup;
        let refuse = |problem| Err(DeviceError::QueueShape { bytes, segment, problem });
        let pages = |n: usize| n != 0 && n.is_multiple_of(PAGE);
        if !pages(bytes) || !pages(segment) {
            return refuse("both must be multiples of 4096 and not 0");
        }
        if !bytes.is_multiple_of(segment.min(bytes)) {
            return refuse("make the queue a multiple of the segment");
        }
        if bytes > 1 << 30 {
            return refuse("it must be at most 1 GiB");
        }
        let entries = (bytes / ENTRY) as u32;
        let near = |slots| Near::new(&node.processor, entries, EnginePort::slot_count(slots)?);
        let kernels = kernel_slots.map(near).transpose()?;
        let entries = if kernels.is_some() { 0 } else { entries };
        let queue_bytes = QUEUE_AT + entries as usize * ENTRY;
        let queue = Shared::new(&node.processor, queue_bytes, "a notification queue")?;
        Ok(EnginePort {
            node: node.clone(),
            runner: runner.clone(),
            vpid,
            entries,
            memory: ManuallyDrop::new(Memory { queue, ring: Mutex::default(), kernels }),
            state: Mutex::default(),
        })
    }

    /// Tells the engine of the port.
    pub(super) fn open(&self) -> Result<(), DeviceError> {
        let opened = self.node.number_port();
        let port = match self.kernel_rings() {
            Some(rings) => engine_port {
                queue: rings.queue,
                rp_register: rings.read_pointer,
                slots: rings.slots,
                slot_consumed: rings.consumed,
                queue_entries: rings.queue_entries,
                slot_mask: rings.slot_count - 1,
                near_slots: 1,
                opened,
                ..Default::default()
            },
            None => {
                let base = self.memory.queue.mapped.address();
                engine_port {
                    queue: base + QUEUE_AT as u64,
                    rp_register: base,
                    queue_entries: self.entries,
                    far_queue: u32::from(matches!(self.node.processor, Processor::Gpu(_))),
                    opened,
                    ..Default::default()
                }
            }
        };
        self.runner.change(&self.node, || self.node.write_port(self.vpid, &port))
    }

    /// Where kernels find queue and slots, if it is theirs.
    pub(super) fn kernel_rings(&self) -> Option<KernelRings> {
        self.memory.kernels.as_ref().map(|near| near.rings)
    }

    /// The state of a port that can be used.
    fn usable(&self) -> Result<MutexGuard<'_, State>, DeviceError> {
        let state = lock(&self.state);
        if state.closed || state.stuck { Err(DeviceError::Closed) } else { Ok(state) }
    }

    fn slot_count(slots: u32) -> Result<u32, DeviceError> {
        if slots.is_power_of_two() && slots <= MAX_SLOTS {
            return Ok(slots);
        }
        Err(DeviceError::SlotCount { slots, max: MAX_SLOTS })
    }

    /// The host's read pointer.
    fn read_pointer(&self) -> &AtomicU64 {
        self.memory.queue.buffer.word(0)
    }

    fn shut(&self, state: &mut State) -> Result<(), DeviceError> {
        let (node, vpid) = (&*self.node, self.vpid);
        self.runner.close(node, || {
            node.open_port(vpid, ENGINE_PORT_CLOSED)?;
            let mut regions = lock(&node.regions);
            regions.of(vpid).into_iter().try_for_each(|nla| regions.invalidate(vpid, nla))
        })?;
        let mut regions = lock(&node.regions);
        regions.of(vpid).into_iter().for_each(|nla| regions.forget(nla));
        drop(regions);
        state.closed = true;
        state.armed.clear();
        node.clear_locks(vpid)?;
        node.give_vpid(vpid);
        Ok(())
    }
}

impl UnitDevice for EnginePort {
    fn address(&self) -> Address {
        Address::new(self.node.id, self.vpid)
    }

    #[inline]
    fn set_read_pointer(&self, index: u32, _rearm: bool) {
        self.read_pointer().store(index.into(), Ordering::Release);
    }

    fn registers(&self) -> RegisterMap {
        let queue = &self.memory.queue;
        RegisterMap { read_pointer: queue.pointer(0), wcb_state: queue.pointer(PAGE) }
    }

    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration) {
        let mut backoff = Backoff::new(Clock::REAL, timeout);
        while !ready() {
            match backoff.step() {
                Step::Again => {}
                Step::Sleep(left) => backoff.nap(left),
                Step::Over(_) => return,
            }
        }
    }

    fn departures(&self) -> Departures {
        self.node.state.memory().departures()
    }

    fn lost_peer(&self, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
        self.node.state.memory().lost(node).map(|peer| LostPeer { vpid, ..peer })
    }

    fn drain_lost(&self) {
        self.runner.drain_lost(&self.node);
    }

    fn close(&self) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(());
        }
        let shut = self.shut(&mut state);
        state.stuck |= shut.is_err();
        shut
    }
}

impl PortDevice for EnginePort {
    fn queue(&self) -> QueueMap {
        QueueMap { base: self.memory.queue.pointer(QUEUE_AT), entries: self.entries }
    }

    /// There are no requester pages: ports are opened with the slot path only.
    fn requester_store(&self, _option: PageOption, _offset: u64, _value: u64) {}

    fn attach_slots(&self, slots: u32, option: PageOption) -> Result<SlotMap, DeviceError> {
        EnginePort::slot_count(slots)?;
        if option.bits() & !TRAFFIC_CLASS != PageOption::TE.bits() {
            let reason =
                "engines translate all addresses and raise no interrupts: use the default page option";
            return Err(DeviceError::NotAvailable { kind: Kind::Nvlink, reason: reason.to_owned() });
        }
        let mut state = self.usable()?;
        let mut attached = lock(&self.memory.ring);
        if attached.is_some() || self.memory.kernels.is_some() {
            return Err(DeviceError::SlotsAttached);
        }
        let ring = Shared::new(&self.node.processor, PAGE + slots as usize * 32, "a slot ring")?;
        let map = SlotMap { base: ring.pointer(PAGE), slots, consumed: ring.pointer(0) };
        let base = ring.mapped.address();
        *attached = Some(ring);
        let (node, vpid) = (&*self.node, self.vpid);
        let told = self.runner.change(node, || node.write_slots(vpid, base, base + PAGE as u64, slots - 1));
        told.map(|()| map).inspect_err(|_| {
            state.stuck = true;
            let told = node.open_port(vpid, ENGINE_PORT_CLOSED).and_then(|()| self.runner.announce(node));
            if let Err(error) = told {
                tracing::error!(port = %self.address(), "closing it: {error}");
            }
        })
    }

    unsafe fn register(&self, span: Span, access: Access) -> Result<u64, DeviceError> {
        let state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        lock(&self.node.regions).register(&self.node.state, self.vpid, &span, access)
    }

    fn unregister(&self, nla: u64) -> Result<(), DeviceError> {
        if lock(&self.state).closed {
            return Err(DeviceError::Closed);
        }
        let node = &*self.node;
        self.runner.change(node, || lock(&node.regions).invalidate(self.vpid, nla))?;
        lock(&node.regions).forget(nla);
        Ok(())
    }

    fn arm(&self) {
        match self.runner.clone().hold() {
            Ok(guard) => lock(&self.state).armed.push(guard),
            Err(error) => tracing::error!(port = %self.address(), "nothing will be carried out: {error}"),
        }
    }

    fn disarm(&self) {
        // Dropped without the lock: the engines finish what there is to do.
        let guard = lock(&self.state).armed.pop();
        drop(guard);
    }
}

impl Drop for EnginePort {
    fn drop(&mut self) {
        let closed = self.close();
        // SAFETY: taken once, here.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        if closed.is_err() || lock(&self.state).stuck {
            lock(&STUCK).push(memory);
        }
    }
}

impl fmt::Debug for EnginePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EnginePort").field(&self.address()).finish()
    }
}

#[cfg(test)]
mod tests;
