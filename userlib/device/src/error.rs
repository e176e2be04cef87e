//! What can go wrong on a device, and what to do about it.

use std::time::Duration;

use crate::LostPeer;
use crate::limit::LimitSource;

/// Errors of devices and of ports on them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This kind of device cannot be used on this machine.
    #[error("no {kind} device here: {reason}")]
    NotAvailable {
        /// The kind that was asked for.
        kind: crate::Kind,
        /// Why, and what would have to change.
        reason: String,
    },
    /// Memory of other drivers is for cards.
    #[error("the {kind} device reaches no dma-buf: register the memory itself, or use a card")]
    DmaBuf {
        /// The device.
        kind: crate::Kind,
    },
    /// A card reaches this GPU's memory in no way.
    #[error("a card does not reach memory of GPU {gpu}: as a dma-buf: {dma_buf}; by gpumap: {gpumap}")]
    GpuMemory {
        /// Ordinal of the GPU.
        gpu: usize,
        /// Why not as a dma-buf of the GPU's driver.
        dma_buf: String,
        /// Why not as a mapping by gpumap.
        gpumap: String,
    },
    /// The node has no place in the network yet (spec 8.2, scratchpad 3).
    #[error(
        "the network state of node {node} is {state}, not 1 (configured): let the network management \
         configure the node, then open the port again"
    )]
    NetworkState {
        /// Node id as far as the card knows it.
        node: u16,
        /// Value of the scratchpad register.
        state: u64,
    },
    /// Every VPID that applications may use is taken (spec 9.2).
    #[error("all {max} ports of node {node} are open: close one, or spread the ports over more nodes")]
    PortsInUse {
        /// The node.
        node: u16,
        /// How many ports applications may open on one node.
        max: u32,
    },
    /// This user has as many ports of the card, or as much memory in their queues, as the driver allows one user.
    #[error(
        "this user may have no more ports or queue memory on node {node}: close a port, ask for smaller queues, or have \
         the administrator raise user_ports and user_queue_mib in /sys/module/extoll/parameters"
    )]
    UserLimit {
        /// The node.
        node: u16,
    },
    /// The administrator's table has no protection id for this user, or for the cgroup of the process.
    #[error(
        "node {node}: this user may open no ports: have the administrator give it, or the cgroup of this process, a \
         protection id, in `protection` of /sys/module/extoll/parameters on all nodes"
    )]
    NoProtectionId {
        /// The node.
        node: u16,
    },
    /// The node is the card of a virtual machine, which has all its ports.
    #[error(
        "node {node} is the card of a virtual machine, and all its ports are the machine's: join on another node \
         (GGAS_NODE), or give the card another one (extoll-vm-server --node)"
    )]
    NodeOfGuest {
        /// The node.
        node: u16,
    },
    /// A notification queue of this shape cannot be set up.
    #[error("notification queue of {bytes} bytes in segments of {segment} bytes: {problem}")]
    QueueShape {
        /// Asked size of the queue.
        bytes: usize,
        /// Asked size of a segment.
        segment: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A slot ring of this shape cannot be set up.
    #[error("a slot ring of {slots} slots: the number must be a power of two from 1 to {max}")]
    SlotCount {
        /// Asked number.
        slots: u32,
        /// Largest number allowed.
        max: u32,
    },
    /// A table of triggered operations of this shape cannot be made.
    #[error("a table for {tags} tags: the number must be from 1 to {max} with this lookup")]
    TriggerTags {
        /// Asked number.
        tags: u32,
        /// Largest number allowed.
        max: u32,
    },
    /// The port already has a table of triggered operations.
    #[error("the port already has a table of triggered operations: drop that first")]
    TriggersInUse,
    /// The port already has a slot ring.
    #[error("the port already has a slot ring: detach it before attaching another one")]
    SlotsAttached,
    /// The device has no such way to post descriptors.
    #[error("this device has no slot path: use the card path")]
    NoSlotPath,
    /// A region needs at least one byte.
    #[error("a region of 0 bytes cannot be registered: give it at least one byte")]
    EmptyRegion,
    /// The span wraps around the end of the address space.
    #[error("{len} bytes at {address:#x} do not fit into the address space")]
    BadSpan {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
    /// Registering would lock more memory than allowed.
    #[error(
        "registering {requested} bytes on top of {locked} would pass the locked-memory limit of {limit} \
         bytes ({source_hint})",
        source_hint = .origin.hint()
    )]
    LockedMemory {
        /// Bytes that this registration would lock.
        requested: u64,
        /// Bytes already locked on this node.
        locked: u64,
        /// The limit in bytes.
        limit: u64,
        /// Where the limit comes from.
        origin: LimitSource,
    },
    /// No translation table has enough contiguous free entries (spec 4.2).
    #[error(
        "no free range of {pages} pages in the translation tables of node {node}: unregister regions, or \
         register smaller ones"
    )]
    NoTable {
        /// The node.
        node: u16,
        /// Pages asked for.
        pages: u64,
    },
    /// The GPU that holds the memory cannot be used.
    #[error(transparent)]
    Gpu(#[from] ggas_gpu::GpuError),
    /// The engines did not start.
    #[error("the engines of the nodes do not start: {0}")]
    Engine(#[source] ggas_kernels::LaunchError),
    /// A network logical address that this port did not register.
    #[error("NLA {nla:#x} is not the start of a region of this port")]
    NotRegistered {
        /// The address.
        nla: u64,
    },
    /// The operating system refused memory.
    #[error("the operating system refused {bytes} bytes of memory for {what}: {source}")]
    Memory {
        /// Purpose.
        what: &'static str,
        /// Size.
        bytes: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The memory is not mapped with the access asked for.
    #[error(
        "{len} bytes at {address:#x} cannot be registered: part of them is not mapped, or not with this access, or \
         belongs to a device whose driver does not allow it (the module's parameter mmio_modules names those that do)"
    )]
    NotMapped {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
    /// Device memory that the card's accesses would not reach.
    #[error(
        "{len} bytes at {address:#x} are memory of a device to which the card has no way that the kernel knows to work: \
         put both behind one switch, without ACS redirection; the kernel's log names the device"
    )]
    NoWay {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
    /// Only the privileged may do this.
    #[error(
        "{what} is for the privileged: run with CAP_SYS_RAWIO, or load the extoll module with trusted=1 on a cluster \
         whose users are trusted"
    )]
    Privilege {
        /// What was asked for.
        what: &'static str,
    },
    /// The card is not there any more.
    #[error("the card {how}: look at dmesg; close all ports, then bring the card back and open them again")]
    CardLost {
        /// What happened.
        how: &'static str,
    },
    /// The driver refused for a reason that it does not document for this call.
    #[error("{what}: the driver refused: {source}; look at dmesg")]
    Driver {
        /// What was asked for.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The card did not do within the bound what the driver waited for.
    #[error(
        "waited {waited:?} for {what} on node {node}; the card does not answer: reset it, or restart the node"
    )]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The node.
        node: u16,
        /// How long.
        waited: Duration,
    },
    /// Another process still copies from memory that was to be taken back.
    #[error(
        "waited {waited:?} for copies out of memory of node {node} by other processes of the job (ranks {ranks:?}): they \
         are alive but do not run; the memory is kept. Let them go on (SIGCONT), or end them"
    )]
    HeldByPeers {
        /// The node whose memory it is.
        node: u16,
        /// Processes that hold references.
        ranks: Vec<u32>,
        /// How long.
        waited: Duration,
    },
    /// The process that served the other side is gone.
    #[error("{0}")]
    PeerLost(LostPeer),
    /// The register file takes aligned 64-bit accesses inside its 32 MiB (spec 1.2).
    #[error("register offset {offset:#x}: use a multiple of 8 below {limit:#x}")]
    RegisterOffset {
        /// The offset.
        offset: u64,
        /// Size of the register file.
        limit: u64,
    },
    /// The port was closed.
    #[error("the port is closed: open a new one")]
    Closed,
    /// A set-up of the SMFU that the unit cannot express (spec 6).
    #[error("the SMFU of node {node} cannot serve this window: {problem}")]
    Smfu {
        /// The node.
        node: u16,
        /// What is wrong and what would fit.
        problem: String,
    },
    /// A trapped load or store did not complete.
    #[error("SMFU access of {len} bytes at window offset {offset:#x} on node {node}: {problem}")]
    SmfuAccess {
        /// The node.
        node: u16,
        /// Offset from the start of the window.
        offset: u64,
        /// Length in bytes.
        len: usize,
        /// The unit's reason.
        problem: String,
    },
}

ggas_errors::debug_as_display!(DeviceError);
