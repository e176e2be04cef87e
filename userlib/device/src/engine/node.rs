//! One node with its engine's state.

use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use extoll_abi::{MAX_TRANSFER, regs};
use ggas_kernels::Processor;
use ggas_kernels::args::{
    ENGINE_ERRORS, ENGINE_LOCKS, ENGINE_PORT_CLOSED, ENGINE_PORT_OPEN, ENGINE_PORTS, engine_node, engine_port,
};

use super::lock;
use super::memory::{EngineMemory, State};
use super::port::EnginePort;
use super::region::Regions;
use super::runner::Runner;
use crate::{
    Device, DeviceError, DeviceInfo, KernelRings, Kind, Path, PortDevice, PortSetup, SmfuMap, SmfuWindow,
};

/// Payload bytes of a fragment, as notifications count them (spec 2.3).
const FRAGMENT: u32 = extoll_abi::bindings::EXTOLL_FRAGMENT as u32;

/// A node: what its engine and its ports share.
pub(super) struct Node {
    pub(super) id: u16,
    pub(super) processor: Processor,
    pub(super) state: State,
    pub(super) regions: Mutex<Regions>,
    vpids: Mutex<[bool; ENGINE_PORTS as usize]>,
    /// Ports that there ever were.
    opened: AtomicU32,
}

impl Node {
    pub(super) fn new(id: u16, processor: &Processor, memory: &Arc<dyn EngineMemory>) -> Node {
        Node {
            id,
            processor: processor.clone(),
            state: State::new(memory.clone(), id),
            regions: Mutex::new(Regions::new(id, processor)),
            vpids: Mutex::default(),
            opened: AtomicU32::new(0),
        }
    }

    fn take_vpid(&self) -> Result<u8, DeviceError> {
        let mut vpids = lock(&self.vpids);
        let free = vpids.iter().position(|open| !open);
        let vpid = free.ok_or(DeviceError::PortsInUse { node: self.id, max: ENGINE_PORTS })?;
        vpids[vpid] = true;
        Ok(vpid as u8)
    }

    /// A number of its own for a port, never 0 (but after 2^32 of them).
    pub(super) fn number_port(&self) -> u32 {
        self.opened.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn give_vpid(&self, vpid: u8) {
        lock(&self.vpids)[usize::from(vpid)] = false;
    }

    /// Describes a closed port to the engine and opens it, which uses it from its next [change](Runner::change) on.
    pub(super) fn write_port(&self, vpid: u8, port: &engine_port) -> Result<(), DeviceError> {
        // The engine may look at it any time.
        let not_yet = engine_port { open: ENGINE_PORT_CLOSED, ..*port };
        self.state.store(port_offset(vpid), &words_of(&not_yet))?;
        self.open_port(vpid, ENGINE_PORT_OPEN)
    }

    /// Gives an open port its slot ring, which the engine uses from its next [change](Runner::change) on.
    pub(super) fn write_slots(
        &self,
        vpid: u8,
        consumed: u64,
        slots: u64,
        mask: u32,
    ) -> Result<(), DeviceError> {
        let at = port_offset(vpid);
        self.state.store(at + offset_of!(engine_port, slot_consumed), &[consumed])?;
        self.state.store_u32(at + offset_of!(engine_port, slot_mask), mask)?;
        // Last: the engine may look at it any time, and goes by this.
        self.state.store(at + offset_of!(engine_port, slots), &[slots])
    }

    /// Opens or closes a described port.
    pub(super) fn open_port(&self, vpid: u8, open: u32) -> Result<(), DeviceError> {
        self.state.store_u32(port_offset(vpid) + offset_of!(engine_port, open), open)
    }

    /// Zeroes the locks of a VPID (spec 5).
    pub(super) fn clear_locks(&self, vpid: u8) -> Result<(), DeviceError> {
        (0..ENGINE_LOCKS as usize).try_for_each(|i| {
            let index = usize::from(vpid) + i * ENGINE_PORTS as usize;
            let at = offset_of!(engine_node, lock) + 4 * index;
            self.state.store_u32(at, 0)
        })
    }
}

fn port_offset(vpid: u8) -> usize {
    offset_of!(engine_node, port) + usize::from(vpid) * size_of::<engine_port>()
}

const PORT_WORDS: usize = size_of::<engine_port>() / 8;

fn words_of(port: &engine_port) -> [u64; PORT_WORDS] {
    // SAFETY: plain numbers without padding (`engine.h` asserts it is a multiple of its alignment, and its fields are
    // in descending size).
    unsafe { std::mem::transmute_copy(port) }
}

/// What an engine could not carry out, since its node exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineErrors {
    /// Requester: illegal descriptors.
    pub command: u64,
    /// Requester: commands to nodes that do not exist.
    pub route: u64,
    /// Requester: sources without translation.
    pub source: u64,
    /// Completer: packets to VPIDs that are not open.
    pub vpid: u64,
    /// Completer: destinations without translation.
    pub target: u64,
    /// Completer: packets that came with an error.
    pub received: u64,
    /// Responder: gets and locks that cannot be answered.
    pub responder: u64,
    /// Notifications that found no room in time.
    pub dropped: u64,
    /// Requester and responder: commands and answers to nodes whose process has ended.
    pub gone: u64,
}

/// A node of an [`EngineNetwork`](super::EngineNetwork).
pub struct EngineDevice {
    node: Arc<Node>,
    runner: Arc<Runner>,
    info: DeviceInfo,
    /// Of the job whose processes have a node each.
    ranks: Option<u32>,
}

impl EngineDevice {
    pub(super) fn new(node: Arc<Node>, runner: Arc<Runner>, ranks: Option<u32>) -> EngineDevice {
        let info = DeviceInfo {
            kind: Kind::Nvlink,
            node: node.id,
            ports: ENGINE_PORTS,
            paths: &[Path::Slots],
            fragment_bytes: FRAGMENT,
            command_bytes: MAX_TRANSFER,
            smfu_bytes: 0,
            smfu_intervals: 0,
        };
        EngineDevice { node, runner, info, ranks }
    }

    /// Where its engine runs, and kernels that use its ports.
    pub fn processor(&self) -> &Processor {
        &self.node.processor
    }

    /// What its engine could not carry out.
    ///
    /// # Errors
    /// [`DeviceError::Gpu`].
    pub fn errors(&self) -> Result<EngineErrors, DeviceError> {
        let at = offset_of!(engine_node, errors);
        let words = self.node.state.load(at, ENGINE_ERRORS as usize)?;
        let [command, route, source, vpid, target, received, responder, dropped, gone] =
            std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
        Ok(EngineErrors { command, route, source, vpid, target, received, responder, dropped, gone })
    }

    /// A port of the host, or of kernels with so many slots.
    fn open(&self, setup: &PortSetup, slots: Option<u32>) -> Result<EnginePort, DeviceError> {
        let vpid = self.node.take_vpid()?;
        let port = EnginePort::new(&self.node, &self.runner, vpid, setup, slots)
            .inspect_err(|_| self.node.give_vpid(vpid))?;
        // Where this fails, the port gives its VPID back if its engine has let go of it.
        port.open()?;
        Ok(port)
    }

    fn unavailable<T>(&self, reason: &str) -> Result<T, DeviceError> {
        Err(DeviceError::NotAvailable { kind: Kind::Nvlink, reason: reason.to_owned() })
    }
}

impl Device for EngineDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open_port(&self, setup: &PortSetup) -> Result<Arc<dyn PortDevice>, DeviceError> {
        Ok(Arc::new(self.open(setup, None)?))
    }

    fn open_port_for_kernels(
        &self,
        setup: &PortSetup,
        slots: u32,
    ) -> Result<(Arc<dyn PortDevice>, Option<KernelRings>), DeviceError> {
        let port = self.open(setup, Some(slots))?;
        let rings = port.kernel_rings();
        Ok((Arc::new(port), rings))
    }

    fn ranks(&self) -> Option<u32> {
        self.ranks
    }

    fn read_register(&self, offset: u64) -> Result<u64, DeviceError> {
        let limit = regs::EXTOLL_BAR0_PART_BYTES;
        if !offset.is_multiple_of(8) || offset >= limit {
            return Err(DeviceError::RegisterOffset { offset, limit });
        }
        self.unavailable("engines have no register file; EngineDevice::errors has their counters")
    }

    fn write_register(&self, offset: u64, _value: u64) -> Result<(), DeviceError> {
        self.read_register(offset).map(drop)
    }

    unsafe fn map_smfu(&self, _map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
        self.unavailable("engines have no SMFU; windows over NVLink need none")
    }
}

impl fmt::Debug for EngineDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineDevice").field("node", &self.node.id).field("on", &self.node.processor).finish()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.id).finish()
    }
}

// `stop` is written next to `epoch`, each as one word.
const _: () = assert!(offset_of!(engine_node, epoch) == 0 && offset_of!(engine_node, stop) == 8);
