//! An open port of a modelled node.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use extoll_abi::{Access, Address, BqReadPointer, PageOption, regs};
use extoll_sim::SlotRing;
use ggas_clock::Clock;

use super::lock;
use super::node::Node;
use super::queue::{QueueMemory, RMA_QUEUE};
use super::trigger::SimTriggers;
use super::wait::wait_until;
use crate::{
    Departures, DeviceError, HostBuffer, LostPeer, PAGE, PortDevice, PortSetup, QueueMap, RegisterMap,
    SlotMap, Span, TriggerDevice, TriggerSetup, UnitDevice,
};

/// Most slots of a ring: 2 MiB of memory.
pub(super) const MAX_SLOTS: u32 = 1 << 16;

/// How long commands that were committed may take to leave the card when a port closes.
const DRAIN: Duration = Duration::from_secs(1);

/// A VPID of a modelled node, set up as the driver does at open and mmap (spec 9.2).
pub(super) struct SimPort {
    node: Arc<Node>,
    vpid: u8,
    queues: ManuallyDrop<Mutex<Queues>>,
    state: Mutex<State>,
}

/// The queue in force, and those before it, which may still be looked at.
struct Queues {
    now: QueueMemory,
    before: Vec<QueueMemory>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// The card may still write the queue: its memory is never given back.
    stuck: bool,
    attached: bool,
    /// Rings stay mapped until the port is dropped; the last one may be attached.
    rings: Vec<HostBuffer>,
}

impl SimPort {
    pub(super) fn open(node: Arc<Node>, vpid: u8, setup: &PortSetup) -> Result<SimPort, DeviceError> {
        let queue = QueueMemory::new(&node.memory, &setup.into())?;
        let nic = &node.nic;
        if let Err(error) = queue.program(nic, vpid, &RMA_QUEUE) {
            if !queue.release(nic, &node.memory, vpid, &RMA_QUEUE) {
                std::mem::forget(queue);
            }
            return Err(error);
        }
        nic.wcb_state(vpid).store(0, Ordering::Release);
        nic.reg_write(regs::vpid_table(vpid), regs::vpid_entry(0));
        let queues = Mutex::new(Queues { now: queue, before: Vec::new() });
        Ok(SimPort { node, vpid, queues: ManuallyDrop::new(queues), state: Mutex::default() })
    }

    fn detach(&self, state: &mut State) {
        if std::mem::take(&mut state.attached) {
            self.node.nic.detach_slots(self.vpid);
        }
    }
}

impl UnitDevice for SimPort {
    fn address(&self) -> Address {
        Address::new(self.node.nic.node(), self.vpid)
    }

    fn clock(&self) -> &Clock {
        self.node.nic.clock()
    }

    #[inline]
    fn set_read_pointer(&self, index: u32, rearm: bool) {
        self.node.nic.rp_register(self.vpid).store(BqReadPointer::new(index, rearm).0, Ordering::Release);
    }

    fn registers(&self) -> RegisterMap {
        RegisterMap {
            read_pointer: NonNull::from(self.node.nic.rp_register(self.vpid)),
            wcb_state: NonNull::from(self.node.nic.wcb_state(self.vpid)),
        }
    }

    #[inline]
    fn progress(&self) -> bool {
        self.node.inline && self.node.nic.progress()
    }

    fn is_driven_by_callers(&self) -> bool {
        self.node.inline
    }

    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration) {
        self.node.nic.wait_notification(timeout, &mut || ready());
    }

    fn departures(&self) -> Departures {
        self.node.peers.departures()
    }

    fn lost_peer(&self, node: u16, vpid: Option<u8>) -> Option<LostPeer> {
        self.node.peers.lost(node, vpid)
    }

    fn drain_lost(&self) {
        self.node.peers.drain_lost(&self.node.nic);
    }

    fn is_sending(&self) -> bool {
        !self.node.nic.requester_idle(self.vpid)
    }

    fn close(&self) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(());
        }
        let node = &*self.node;
        // Closing a VPID forgets what it committed and the requester has not sent; a card without a way out keeps it.
        let idle = || node.nic.requester_idle(self.vpid);
        if let Err(error) = wait_until(&node.nic, DRAIN, "commands of a port that closes", idle) {
            tracing::warn!(port = %self.address(), "commands are lost: {error}");
        }
        self.detach(&mut state);
        // Who sleeps for a notification learns that none will come.
        node.nic.wake_sleepers();
        node.nic.reg_write(regs::vpid_table(self.vpid), 0);
        let unregistered = lock(&node.regions).unregister_all(self.vpid);
        if !lock(&self.queues).now.release(&node.nic, &node.memory, self.vpid, &RMA_QUEUE) {
            state.stuck = true;
        }
        // A port whose regions the card does not let go of stays open to `unregister`, and keeps its VPID.
        unregistered?;
        state.closed = true;
        node.nic.wcb_state(self.vpid).store(0, Ordering::Release);
        node.clear_locks(self.vpid);
        if !state.stuck {
            node.give_vpid(self.vpid);
        }
        Ok(())
    }
}

impl PortDevice for SimPort {
    fn queue(&self) -> QueueMap {
        lock(&self.queues).now.map()
    }

    fn reshape_queue(&self, setup: &PortSetup) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        let Node { nic, memory, .. } = &*self.node;
        let new = QueueMemory::new(memory, &setup.into())?;
        if let Err(error) = new.program(nic, self.vpid, &RMA_QUEUE) {
            // No register was written: the old queue is in force.
            if !new.undeclare(memory) {
                std::mem::forget(new);
            }
            return Err(error);
        }
        let mut queues = lock(&self.queues);
        state.stuck |= !queues.now.undeclare(memory);
        let old = std::mem::replace(&mut queues.now, new);
        queues.before.push(old);
        Ok(())
    }

    #[inline]
    fn requester_store(&self, option: PageOption, offset: u64, value: u64) {
        let in_page = offset & (PAGE as u64 - 1);
        self.node.nic.requester_store(option.page_offset(self.vpid) | in_page, value);
    }

    #[inline]
    fn requester_line(&self, option: PageOption, words: [u64; 3]) {
        self.node.nic.requester_line(option.page_offset(self.vpid), words);
    }

    fn attach_slots(&self, slots: u32, option: PageOption) -> Result<SlotMap, DeviceError> {
        if !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(DeviceError::SlotCount { slots, max: MAX_SLOTS });
        }
        let mut state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        if state.attached {
            return Err(DeviceError::SlotsAttached);
        }
        let (ring, map) = ring_memory(slots)?;
        let config = SlotRing {
            base: map.base.as_ptr().cast(),
            count: slots,
            consumed: map.consumed.as_ptr(),
            option: option.bits().into(),
        };
        // SAFETY: the ring is kept until the port is dropped, which detaches first; all access is atomic.
        let attached = unsafe { self.node.nic.attach_slots(self.vpid, config) };
        attached.map_err(|_| DeviceError::SlotsAttached)?;
        state.attached = true;
        state.rings.push(ring);
        Ok(map)
    }

    fn open_triggers(&self, setup: &TriggerSetup) -> Result<Option<Box<dyn TriggerDevice>>, DeviceError> {
        if lock(&self.state).closed {
            return Err(DeviceError::Closed);
        }
        Ok(Some(Box::new(SimTriggers::open(self.node.clone(), self.vpid, setup)?)))
    }

    #[inline]
    fn kick(&self) {
        self.node.nic.kick();
    }

    unsafe fn register(&self, span: Span, access: Access) -> Result<u64, DeviceError> {
        let state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        lock(&self.node.regions).register(self.vpid, span, access)
    }

    fn unregister(&self, nla: u64) -> Result<(), DeviceError> {
        if lock(&self.state).closed {
            return Err(DeviceError::Closed);
        }
        lock(&self.node.regions).unregister(self.vpid, nla)
    }

    fn arm(&self) {
        self.node.nic.arm(self.vpid);
    }

    fn disarm(&self) {
        self.node.nic.disarm(self.vpid);
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        let closed = self.close();
        let state = lock(&self.state);
        if closed.is_ok() && !state.stuck {
            drop(state);
            // SAFETY: dropped once, here; the card has let go of it.
            unsafe { ManuallyDrop::drop(&mut self.queues) };
        }
    }
}

/// Memory of a ring of `slots` slots. The counter has a page of its own: it and the slots are mapped to kernels
/// separately.
pub(super) fn ring_memory(slots: u32) -> Result<(HostBuffer, SlotMap), DeviceError> {
    let ring = HostBuffer::private(PAGE + slots as usize * 32, PAGE, "a slot ring")?;
    let (base, consumed) = (NonNull::from(ring.word(PAGE)).cast(), NonNull::from(ring.word(0)));
    Ok((ring, SlotMap { base, slots, consumed }))
}

impl fmt::Debug for SimPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimPort").field(&self.address()).finish()
    }
}

// The counter is shared with the card, which only stores to it.
const _: () = assert!(size_of::<crate::Slot>() == 32 && align_of::<AtomicU64>() == 8);
