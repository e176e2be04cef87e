//! One modelled node with the driver's state for it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use extoll_abi::{Address, MAX_TRANSFER, regs};
use extoll_sim::{HostMemory, Nic, RangeKind};

use super::flush::Flushes;
use super::peers::Peers;
use super::port::SimPort;
use super::region::{Regions, declare};
use super::smfu::{self, Opened};
use super::velo::SimVelo;
use crate::{
    Device, DeviceError, DeviceInfo, HostBuffer, Kind, LockedMemory, PAGE, Path, PortDevice, PortSetup,
    SmfuMap, SmfuWindow, Span, VeloDevice, VeloSetup,
};

/// VPIDs that applications may have (spec 9.2).
const PORTS: usize = regs::EXTOLL_VPID_LAST_USER as usize + 1;
/// Locks of all VPIDs, then a page of words that flushes are confirmed in.
const LOCK_BYTES: usize =
    (regs::EXTOLL_LOCKS_PER_VPID * regs::EXTOLL_LOCK_BYTES * regs::EXTOLL_VPIDS) as usize;
const NOTIFY_AT: usize = LOCK_BYTES;

/// How a node is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeConfig {
    pub(super) inline: bool,
    pub(super) locked_memory: LockedMemory,
    /// How long taking memory from the card may take.
    pub(super) release_timeout: Duration,
}

/// What the driver keeps for one node; ports keep it alive.
pub(super) struct Node {
    pub(super) nic: Arc<Nic>,
    pub(super) memory: Arc<HostMemory>,
    pub(super) inline: bool,
    pub(super) regions: Mutex<Regions>,
    /// Windows of this process.
    pub(super) smfu: Mutex<Opened>,
    /// Other processes, of this node and of others.
    pub(super) peers: Peers,
    /// Which VPIDs are open, where this process alone serves the node.
    vpids: Mutex<[bool; PORTS]>,
    /// Lock table and flush words.
    shared: Arc<HostBuffer>,
}

impl Node {
    /// Brings the card up, as loading the kernel modules does (spec 3.2, 4.2, 5, 8).
    pub(super) fn start(
        nic: Arc<Nic>,
        memory: Arc<HostMemory>,
        peers: Peers,
        config: &NodeConfig,
    ) -> Result<Node, DeviceError> {
        let what = "the lock table";
        let shared = Arc::new(HostBuffer::private(LOCK_BYTES + PAGE, PAGE, what)?);
        let refused = |_| DeviceError::BadSpan { address: shared.address(), len: shared.len() };
        // SAFETY: the node's drop takes the range back before the buffer goes.
        unsafe { memory.add_range(RangeKind::Host, shared.address(), shared.len()) }.map_err(refused)?;
        if nic.reg_read(regs::EXTOLL_RF_INFO_NETWORK_STATE) != regs::EXTOLL_NETWORK_CONFIGURED {
            initialise_node(&nic);
        }
        nic.reg_write(regs::EXTOLL_RF_ATU_ENABLE, 1);
        nic.reg_write(regs::EXTOLL_RF_RMA_LOCK_BASE, shared.address());
        let flushes =
            Flushes::new(nic.clone(), peers.clone(), config.release_timeout, shared.clone(), NOTIFY_AT);
        let regions = Regions::new(nic.clone(), memory.clone(), config.locked_memory, flushes);
        Ok(Node {
            nic,
            memory,
            inline: config.inline,
            regions: Mutex::new(regions),
            smfu: Mutex::default(),
            peers,
            vpids: Mutex::new([false; PORTS]),
            shared,
        })
    }

    /// Takes the lowest free VPID.
    fn take_vpid(&self) -> Result<u8, DeviceError> {
        let node = self.nic.node();
        if let Some(fabric) = self.peers.fabric() {
            let nodes = fabric.nodes();
            return nodes.take_vpid(PORTS as u32).ok_or_else(|| match nodes.is_of_guest() {
                true => DeviceError::NodeOfGuest { node },
                false => DeviceError::PortsInUse { node, max: PORTS as u32 },
            });
        }
        let mut vpids = super::lock(&self.vpids);
        let free = vpids.iter().position(|open| !open);
        let vpid = free.ok_or(DeviceError::PortsInUse { node, max: PORTS as u32 })?;
        vpids[vpid] = true;
        Ok(vpid as u8)
    }

    pub(super) fn give_vpid(&self, vpid: u8) {
        if let Some(fabric) = self.peers.fabric() {
            return fabric.nodes().give_vpid(vpid);
        }
        super::lock(&self.vpids)[usize::from(vpid)] = false;
    }

    /// Zeroes the locks of a VPID: lock i of VPID v stands at index v + 256 i (spec 5).
    pub(super) fn clear_locks(&self, vpid: u8) {
        for i in 0..regs::EXTOLL_LOCKS_PER_VPID as usize {
            let at = 4 * (usize::from(vpid) + regs::EXTOLL_VPIDS as usize * i);
            self.shared.write(at, &[0; 4]);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Its engine, or a peer's thread, may hold the card for a while yet; this process may join again at once.
        self.nic.detach();
        self.nic.reg_write(regs::EXTOLL_RF_RMA_LOCK_BASE, 0);
        self.nic.reg_write(regs::EXTOLL_RF_ATU_ENABLE, 0);
        if self.memory.remove_range(self.shared.address(), self.shared.len()).is_err() {
            // The card might still write there.
            std::mem::forget(self.shared.clone());
        }
    }
}

/// Registers that the driver writes at load (spec 3.2, 5, 8.2, 8.3), and those that the network's management
/// writes: node state and configuration. All processes of a node see the same ones: those that join later must not
/// undo what others have set since. The network state comes last and says that the others are there; two
/// processes that join at once write the same values.
fn initialise_node(nic: &Nic) {
    use regs::*;
    let network_port = |port: u64| EXTOLL_RF_NP_GENERAL + EXTOLL_RF_NP_STRIDE * port;
    let bq_timeout_enable = 1 << 32;
    for (register, value) in [
        (EXTOLL_RF_BQ_RMA_GENERAL, BQ_ENABLE.put(1)),
        (EXTOLL_RF_BQ_VELO_GENERAL, BQ_ENABLE.put(1)),
        (EXTOLL_RF_RMA_CONFIG, CONFIG_MTU.put(512)),
        (EXTOLL_RF_RMA_LOCK_CONFIG, lock_config(EXTOLL_LOCKS_PER_VPID as u32, EXTOLL_VPIDS as u32)),
        (EXTOLL_RF_RMA_BQ_TIMEOUT, EXTOLL_BQ_TIMEOUT_DEFAULT | bq_timeout_enable),
        (EXTOLL_RF_RMA_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_DEFAULT << EXTOLL_WCB_TIMEOUT_VALUE_SHIFT | 1),
        (EXTOLL_RF_VELO_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_DEFAULT << EXTOLL_WCB_TIMEOUT_VALUE_SHIFT | 1),
        (EXTOLL_RF_VELO_TIMEOUT, VELO_TIMEOUT.put(EXTOLL_VELO_TIMEOUT_DEFAULT) | VELO_TIMEOUT_ENABLE.put(1)),
        (EXTOLL_RF_VELO_COMPLETER, VELO_COMPLETER_PORT.put(EXTOLL_VELO_COMPLETER_PORT_DEFAULT)),
        (network_port(0), 81),
        (network_port(1), 0xff),
        (network_port(2), 0xff),
        (network_port(3), 0xff),
        (EXTOLL_RF_INFO_NETWORK_STATE, EXTOLL_NETWORK_CONFIGURED),
    ] {
        nic.reg_write(register, value);
    }
}

/// A modelled node as a [`Device`].
pub struct SimDevice {
    node: Arc<Node>,
    info: DeviceInfo,
}

impl SimDevice {
    pub(super) fn new(node: Node) -> SimDevice {
        let info = DeviceInfo {
            kind: Kind::Sim,
            node: node.nic.node(),
            ports: PORTS as u32,
            paths: &[Path::Card, Path::Slots],
            fragment_bytes: 496,
            command_bytes: MAX_TRANSFER,
            smfu_bytes: smfu::WINDOW_BYTES,
            smfu_intervals: regs::EXTOLL_SMFU_INTERVALS as u32 - 1,
        };
        SimDevice { node: Arc::new(node), info }
    }

    /// Takes the lowest free VPID and opens something on it. Both units' VPIDs come from one pool, so that each is
    /// served by one process.
    fn open_vpid<T>(&self, open: impl FnOnce(u8) -> Result<T, DeviceError>) -> Result<T, DeviceError> {
        let state = self.node.nic.reg_read(regs::EXTOLL_RF_INFO_NETWORK_STATE);
        if state != regs::EXTOLL_NETWORK_CONFIGURED {
            return Err(DeviceError::NetworkState { node: self.info.node, state });
        }
        let vpid = self.node.take_vpid()?;
        open(vpid).inspect_err(|_| self.node.give_vpid(vpid))
    }

    /// The modelled card itself: for tests and fault injection.
    pub fn nic(&self) -> &Arc<Nic> {
        &self.node.nic
    }
}

/// Memory that the node reaches without translation.
struct Exposed {
    memory: Arc<HostMemory>,
    span: Span,
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if let Err(error) = self.memory.remove_range(self.span.address, self.span.len) {
            tracing::error!("ending access to a physical buffer: {error}");
        }
    }
}

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exposed").field(&self.span).finish()
    }
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimDevice").field(&self.info.node).finish()
    }
}

impl Device for SimDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open_port(&self, setup: &PortSetup) -> Result<Arc<dyn PortDevice>, DeviceError> {
        Ok(Arc::new(self.open_vpid(|vpid| SimPort::open(self.node.clone(), vpid, setup))?))
    }

    fn open_velo(&self, setup: &VeloSetup) -> Result<Arc<dyn VeloDevice>, DeviceError> {
        Ok(Arc::new(self.open_vpid(|vpid| SimVelo::open(self.node.clone(), vpid, setup))?))
    }

    fn process(&self) -> u32 {
        self.node.peers.process().unwrap_or(self.info.node.into())
    }

    fn ranks(&self) -> Option<u32> {
        self.node.peers.ranks()
    }

    fn process_of(&self, port: Address) -> Option<u32> {
        self.node.peers.process_of(port)
    }

    fn process_of_part(&self, node: u16) -> Option<u32> {
        self.node.peers.process_of_part(node)
    }

    fn read_register(&self, offset: u64) -> Result<u64, DeviceError> {
        Ok(self.node.nic.reg_read(checked(offset)?))
    }

    fn write_register(&self, offset: u64, value: u64) -> Result<(), DeviceError> {
        self.node.nic.reg_write(checked(offset)?, value);
        Ok(())
    }

    fn progress(&self) -> bool {
        self.node.nic.progress()
    }

    unsafe fn expose(&self, span: Span) -> Result<Box<dyn fmt::Debug + Send + Sync>, DeviceError> {
        declare(&self.node.memory, &span)?;
        Ok(Box::new(Exposed { memory: self.node.memory.clone(), span }))
    }

    unsafe fn map_smfu(&self, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
        // SAFETY: the caller's promise is ours.
        unsafe { smfu::map(&self.node, map) }
    }
}

/// Register accesses are 64 bits wide and inside the register file.
fn checked(offset: u64) -> Result<u64, DeviceError> {
    let limit = regs::EXTOLL_BAR0_PART_BYTES;
    if !offset.is_multiple_of(8) || offset >= limit {
        return Err(DeviceError::RegisterOffset { offset, limit });
    }
    Ok(offset)
}
