//! An open VELO port of a modelled node (spec 7).

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use extoll_abi::{Address, BqReadPointer, regs, velo_page};
use extoll_sim::{VELO_SLOT_WORDS, VeloSlotRing};
use ggas_clock::Clock;

use super::lock;
use super::node::Node;
use super::queue::{QueueMemory, QueueShape, VELO_QUEUE};
use super::wait::wait_until;
use crate::{
    Departures, DeviceError, HostBuffer, LostPeer, MailboxMap, MailboxSlots, PAGE, RegisterMap, UnitDevice,
    VeloDevice, VeloSetup, VeloSlotMap,
};

/// How long messages that were committed may take to leave the card when a port closes.
const DRAIN: Duration = Duration::from_secs(1);

/// Slots of a ring for kernels.
const SLOTS: u32 = 256;

/// A VPID of a modelled node with a mailbox, set up as the driver does at open and mmap.
pub(super) struct SimVelo {
    node: Arc<Node>,
    vpid: u8,
    slots: MailboxSlots,
    queue: ManuallyDrop<QueueMemory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// The card polls a slot ring.
    attached: bool,
    /// The last ring; its user may still look at it after it was detached.
    ring: Option<HostBuffer>,
    /// The card may still write the mailbox: its memory is never given back.
    stuck: bool,
}

impl SimVelo {
    pub(super) fn open(node: Arc<Node>, vpid: u8, setup: &VeloSetup) -> Result<SimVelo, DeviceError> {
        let shape = QueueShape {
            bytes: setup.mailbox_bytes,
            segment_bytes: setup.segment_bytes,
            slot: setup.slots.size(),
            what: "a mailbox",
        };
        let queue = QueueMemory::new(&node.memory, &shape)?;
        let nic = &node.nic;
        if let Err(error) = queue.program(nic, vpid, &VELO_QUEUE) {
            if !queue.release(nic, &node.memory, vpid, &VELO_QUEUE) {
                std::mem::forget(queue);
            }
            return Err(error);
        }
        nic.velo_wcb_state(vpid).store(0, Ordering::Release);
        nic.reg_write(regs::velo_tx(vpid), regs::velo_tx_value(nic.node(), vpid, 0));
        // Only now that there is a mailbox (spec 7).
        nic.reg_write(regs::velo_rx(vpid), regs::velo_rx_value(0));
        Ok(SimVelo {
            node,
            vpid,
            slots: setup.slots,
            queue: ManuallyDrop::new(queue),
            state: Mutex::default(),
        })
    }

    fn detach(&self, state: &mut State) {
        if std::mem::take(&mut state.attached) {
            self.node.nic.disarm(self.vpid);
            self.node.nic.detach_velo_slots(self.vpid);
        }
    }
}

impl UnitDevice for SimVelo {
    fn address(&self) -> Address {
        Address::new(self.node.nic.node(), self.vpid)
    }

    fn clock(&self) -> &Clock {
        self.node.nic.clock()
    }

    #[inline]
    fn set_read_pointer(&self, index: u32, rearm: bool) {
        let register = self.node.nic.velo_rp_register(self.vpid);
        register.store(BqReadPointer::new(index, rearm).0, Ordering::Release);
    }

    fn registers(&self) -> RegisterMap {
        RegisterMap {
            read_pointer: NonNull::from(self.node.nic.velo_rp_register(self.vpid)),
            wcb_state: NonNull::from(self.node.nic.velo_wcb_state(self.vpid)),
        }
    }

    #[inline]
    fn progress(&self) -> bool {
        self.node.inline && self.node.nic.progress()
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

    fn close(&self) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(());
        }
        self.detach(&mut state);
        let nic = &self.node.nic;
        let idle = || nic.velo_idle(self.vpid);
        if let Err(error) = wait_until(nic, DRAIN, "messages of a port that closes", idle) {
            tracing::warn!(port = %self.address(), "messages are lost: {error}");
        }
        // Without a mailbox the card takes nothing more for this VPID, and writes nothing.
        nic.reg_write(regs::velo_rx(self.vpid), 0);
        nic.reg_write(regs::velo_tx(self.vpid), 0);
        state.stuck = !self.queue.release(nic, &self.node.memory, self.vpid, &VELO_QUEUE);
        state.closed = true;
        nic.velo_wcb_state(self.vpid).store(0, Ordering::Release);
        if !state.stuck {
            self.node.give_vpid(self.vpid);
        }
        // Who sleeps for a message learns that none will come.
        nic.wake_sleepers();
        Ok(())
    }
}

impl VeloDevice for SimVelo {
    fn mailbox(&self) -> MailboxMap {
        let map = self.queue.map();
        MailboxMap { base: map.base.cast(), slots: map.entries, size: self.slots }
    }

    #[inline]
    fn store(&self, class: u8, offset: u64, words: &[u64]) {
        self.node.nic.velo_store(velo_page(class, self.vpid) | offset & 0xfff, words);
    }

    fn attach_slots(&self, class: u8) -> Result<Option<VeloSlotMap>, DeviceError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        if state.attached {
            return Err(DeviceError::SlotsAttached);
        }
        // The counter has a page of its own: it and the slots are mapped to kernels separately.
        let ring = HostBuffer::private(PAGE + SLOTS as usize * VELO_SLOT_WORDS * 8, PAGE, "a slot ring")?;
        let (base, consumed) = (NonNull::from(ring.word(PAGE)), NonNull::from(ring.word(0)));
        let config =
            VeloSlotRing { base: base.as_ptr().cast(), count: SLOTS, consumed: consumed.as_ptr(), class };
        // SAFETY: the ring is kept until the port is dropped, which detaches first; all access is atomic.
        let attached = unsafe { self.node.nic.attach_velo_slots(self.vpid, config) };
        attached.map_err(|_| DeviceError::SlotsAttached)?;
        self.node.nic.arm(self.vpid);
        (state.attached, state.ring) = (true, Some(ring));
        Ok(Some(VeloSlotMap { base, slots: SLOTS, consumed }))
    }

    fn set_protection(&self, send: u16, receive: u16) -> Result<(), DeviceError> {
        let state = lock(&self.state);
        if state.closed {
            return Err(DeviceError::Closed);
        }
        let nic = &self.node.nic;
        nic.reg_write(regs::velo_tx(self.vpid), regs::velo_tx_value(nic.node(), self.vpid, send));
        nic.reg_write(regs::velo_rx(self.vpid), regs::velo_rx_value(receive));
        Ok(())
    }
}

impl Drop for SimVelo {
    fn drop(&mut self) {
        let closed = self.close();
        if closed.is_ok() && !lock(&self.state).stuck {
            // SAFETY: dropped once, here; the card has let go of it.
            unsafe { ManuallyDrop::drop(&mut self.queue) };
        }
    }
}

impl fmt::Debug for SimVelo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimVelo").field(&self.address()).finish()
    }
}
