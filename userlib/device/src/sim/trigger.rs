//! The trigger unit of a modelled node's port, driven by its registers.

use std::fmt;
use std::sync::{Arc, Mutex};

use extoll_abi::regs::{self, *};
use extoll_sim::SlotRing;

use super::lock;
use super::node::Node;
use super::port::{MAX_SLOTS, ring_memory};
use crate::{
    DeviceError, HostBuffer, SlotMap, TriggerCounts, TriggerDevice, TriggerError, TriggerRegistration,
    TriggerSetup,
};

/// The table of one VPID.
pub(super) struct SimTriggers {
    node: Arc<Node>,
    vpid: u8,
    tags: u32,
    state: Mutex<State>,
}

/// Locked for as long as a command's registers belong to one thread.
#[derive(Default)]
struct State {
    /// Once it is attached.
    ring: Option<HostBuffer>,
}

impl SimTriggers {
    pub(super) fn open(node: Arc<Node>, vpid: u8, setup: &TriggerSetup) -> Result<SimTriggers, DeviceError> {
        if node.nic.reg_read(regs::trigger(vpid, EXTOLL_TRIGGER_CONTROL)) != 0 {
            return Err(DeviceError::TriggersInUse);
        }
        let TriggerSetup { lookup, tags, status } = *setup;
        let control = TRIGGER_ENTRIES.put(tags.into()) | TRIGGER_LOOKUP.put(lookup.bits());
        let triggers = SimTriggers { node, vpid, tags, state: Mutex::default() };
        triggers.write(EXTOLL_TRIGGER_CONTROL, control);
        if triggers.read(EXTOLL_TRIGGER_CONTROL) != control {
            return Err(DeviceError::TriggerTags { tags, max: lookup.most() });
        }
        triggers.write(EXTOLL_TRIGGER_STATUS, valid(status));
        Ok(triggers)
    }

    fn read(&self, offset: u64) -> u64 {
        self.node.nic.reg_read(regs::trigger(self.vpid, offset))
    }

    fn write(&self, offset: u64, value: u64) {
        self.node.nic.reg_write(regs::trigger(self.vpid, offset), value);
    }

    /// Has the unit carry out a command; returns what it says of the tag's count.
    fn command(&self, command: u64, tag: u64) -> Result<u64, TriggerError> {
        self.write(EXTOLL_TRIGGER_TAG, tag);
        self.write(EXTOLL_TRIGGER_COMMAND, command);
        match self.read(EXTOLL_TRIGGER_RESULT) {
            EXTOLL_TRIGGER_DONE_OK => Ok(self.read(EXTOLL_TRIGGER_VALUE)),
            EXTOLL_TRIGGER_FULL => Err(TriggerError::Full { tags: self.tags }),
            EXTOLL_TRIGGER_TAKEN => Err(TriggerError::Taken { tag }),
            EXTOLL_TRIGGER_WAITS => Err(TriggerError::Waits { tag }),
            EXTOLL_TRIGGER_BUSY => Err(TriggerError::Busy),
            EXTOLL_TRIGGER_BAD => Err(TriggerError::Threshold { tag }),
            _ => Err(TriggerError::Unknown { tag }),
        }
    }
}

fn valid(nla: u64) -> u64 {
    nla | TRIGGER_VALID.put(1)
}

impl TriggerDevice for SimTriggers {
    fn register(&self, registration: &TriggerRegistration) -> Result<(), TriggerError> {
        let TriggerRegistration { tag, threshold, takes_fields, option, descriptor, done } = *registration;
        let _state = lock(&self.state);
        for (i, word) in (0..).zip(descriptor.word) {
            self.write(EXTOLL_TRIGGER_DESC + 8 * i, word);
        }
        let how = TRIGGER_THRESHOLD.put(threshold.into()) | TRIGGER_OPTION.put(option.bits().into());
        self.write(EXTOLL_TRIGGER_HOW, how | TRIGGER_FIELDS.put(takes_fields.into()));
        self.write(EXTOLL_TRIGGER_DONE, done.map_or(0, valid));
        self.command(EXTOLL_TRIGGER_CMD_REGISTER, tag).map(drop)
    }

    fn cancel(&self, tag: u64) -> Result<u32, TriggerError> {
        let _state = lock(&self.state);
        self.command(EXTOLL_TRIGGER_CMD_CANCEL, tag).map(|count| count as u32)
    }

    fn rearm(&self, tag: u64) -> Result<(), TriggerError> {
        let _state = lock(&self.state);
        self.command(EXTOLL_TRIGGER_CMD_REARM, tag).map(drop)
    }

    fn counted(&self, tag: u64) -> Option<u32> {
        let _state = lock(&self.state);
        self.command(EXTOLL_TRIGGER_CMD_LOOK, tag).ok().map(|count| count as u32)
    }

    fn counts(&self) -> TriggerCounts {
        let counter = |which| self.read(EXTOLL_TRIGGER_COUNTERS + 8 * which);
        TriggerCounts {
            used: counter(EXTOLL_TRIGGER_COUNT_USED),
            unregistered: counter(EXTOLL_TRIGGER_COUNT_UNREGISTERED),
            waiting: counter(EXTOLL_TRIGGER_COUNT_WAITING),
            started: counter(EXTOLL_TRIGGER_COUNT_STARTED),
            refused: counter(EXTOLL_TRIGGER_COUNT_REFUSED),
            late: counter(EXTOLL_TRIGGER_COUNT_LATE),
            failed: counter(EXTOLL_TRIGGER_COUNT_FAILED),
            compared: counter(EXTOLL_TRIGGER_COUNT_COMPARED),
        }
    }

    #[inline]
    fn store(&self, offset: u64, value: u64) {
        self.node.nic.trigger_store(self.vpid, offset, value);
    }

    fn attach_slots(&self, slots: u32) -> Result<SlotMap, DeviceError> {
        if !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(DeviceError::SlotCount { slots, max: MAX_SLOTS });
        }
        let mut state = lock(&self.state);
        if state.ring.is_some() {
            return Err(DeviceError::SlotsAttached);
        }
        let (ring, map) = ring_memory(slots)?;
        let config = SlotRing {
            base: map.base.as_ptr().cast(),
            count: slots,
            consumed: map.consumed.as_ptr(),
            option: 0,
        };
        // SAFETY: the ring is kept until this is dropped, which detaches first; all access is atomic.
        let attached = unsafe { self.node.nic.attach_trigger_slots(self.vpid, config) };
        attached.map_err(|_| DeviceError::SlotsAttached)?;
        self.node.nic.arm(self.vpid);
        state.ring = Some(ring);
        Ok(map)
    }
}

impl Drop for SimTriggers {
    fn drop(&mut self) {
        if lock(&self.state).ring.is_some() {
            self.node.nic.disarm(self.vpid);
            self.node.nic.detach_trigger_slots(self.vpid);
        }
        self.write(EXTOLL_TRIGGER_CONTROL, 0);
    }
}

impl fmt::Debug for SimTriggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTriggers").field("node", &self.node.nic.node()).field("vpid", &self.vpid).finish()
    }
}
