//! What one member of this process has: ports, and the structures that its kernels use.

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};

use extoll_abi::Address;
use extoll_abi::layout::{
    GGAS_MEMORY_TRACED_BIT, ggas_queue_entry, ggas_queue_peer, ggas_queue_state, ggas_queues,
};
use ggas_kernels::{KernelMem, MemoryError, Processor};
use ggas_rma::{
    Armed, DeviceError, KernelPort, KernelPortError, KernelPortState, KernelReport, Node, PortConfig,
    PortError, ReportCell,
};
use ggas_window::Moves;

use crate::{QueuesConfig, QueuesError};

/// A member of this process.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub processor: Processor,
    /// At most as many as queues, which take them in turn.
    pub ports: Vec<KernelPort>,
    /// `struct ggas_queues`.
    memory: KernelMem,
    report: ReportCell,
    /// Where somebody asks what its kernels move.
    moves: Option<Moves>,
    /// The ports have been armed at some time.
    armed: AtomicBool,
}

/// What kernels count, and what they hear of the other members. Of each member of this process one.
#[derive(Debug)]
pub(crate) struct PeerTables {
    /// `struct ggas_queue_peer` by port and member, of one port where there are none.
    tables: Vec<KernelMem>,
    /// `struct ggas_queue_state` by port.
    states: Vec<KernelMem>,
    members: usize,
}

impl PeerTables {
    /// Where commands go: `addresses` are those of all members' ports; commands of port `i` go to the peer's port of that
    /// number, or to one that it shares.
    pub fn new(endpoints: &[Endpoint], addresses: &[Vec<Address>]) -> Result<PeerTables, QueuesError> {
        let table = |endpoint: &Endpoint| {
            let row = |port: usize| {
                addresses.iter().map(move |theirs| {
                    let to = theirs.get(port % theirs.len().max(1));
                    ggas_queue_peer {
                        node: to.map_or(u32::MAX, |to| to.node.into()),
                        vpid: to.map_or(0, |to| to.vpid.into()),
                        ..ggas_queue_peer::default()
                    }
                })
            };
            let rows: Vec<ggas_queue_peer> = (0..endpoint.ports.len().max(1)).flat_map(row).collect();
            filled(&endpoint.processor, &rows)
        };
        let state = |endpoint: &Endpoint| {
            endpoint.processor.alloc(size_of::<ggas_queue_state>() * endpoint.ports.len().max(1))
        };
        let tables = endpoints.iter().map(table).collect::<Result<_, MemoryError>>()?;
        let states = endpoints.iter().map(state).collect::<Result<_, MemoryError>>()?;
        Ok(PeerTables { tables, states, members: addresses.len() })
    }

    /// Address of the state of a port of the `own`-th member here.
    fn state(&self, own: usize, port: usize) -> u64 {
        self.states[own].address() + (port * size_of::<ggas_queue_state>()) as u64
    }

    /// Address of the rows of a port of the `own`-th member here.
    fn of(&self, own: usize, port: usize) -> u64 {
        self.tables[own].address() + (port * self.members * size_of::<ggas_queue_peer>()) as u64
    }

    pub fn on_gpu(&self) -> bool {
        self.tables.iter().any(|table| table.device_buffer().is_some())
    }

    /// Kernels hear that a member's process is gone: which one it is, before they look.
    pub fn lose(&self, member: usize) -> Result<(), MemoryError> {
        let row = self.members * size_of::<ggas_queue_peer>();
        for table in &self.tables {
            for port in 0..table.len() / row {
                let at = port * row + member * size_of::<ggas_queue_peer>();
                table.store_u32(at + offset_of!(ggas_queue_peer, lost), 1)?;
            }
        }
        let size = size_of::<ggas_queue_state>();
        for states in &self.states {
            for port in 0..states.len() / size {
                states.store_u32(port * size + offset_of!(ggas_queue_state, lost), 1)?;
            }
        }
        Ok(())
    }
}

impl Endpoint {
    pub fn open(
        member: usize,
        node: &Node,
        processor: &Processor,
        config: &QueuesConfig,
        moves: Option<Moves>,
    ) -> Result<Endpoint, QueuesError> {
        let ports = open_ports(member, node, processor, config)?;
        let memory = processor.alloc(size_of::<ggas_queues>())?;
        let words = moves.as_ref().map(Moves::words);
        let report = ReportCell::with_words(processor, words.as_ref().map_or(&[], |words| words))?;
        let armed = AtomicBool::new(false);
        Ok(Endpoint { processor: processor.clone(), ports, memory, report, moves, armed })
    }

    /// What kernels see, once it is known where the others are; `flags`: `struct ggas_memory` by member.
    pub fn set_up(
        &self,
        config: &QueuesConfig,
        tables: &PeerTables,
        own: usize,
        (member, members): (usize, usize),
        flags: u64,
    ) -> Result<(), QueuesError> {
        let ports = self.ports.len();
        let mut queues = ggas_queues {
            flags,
            report: self.report.address(),
            timeout_ns: config.timeout_ns(),
            queues: config.queues,
            ports: ports as u32,
            member: member as u32,
            members: members as u32,
            flag_count: config.flags,
            on_card: self.ports.iter().any(|port| port.path() == ggas_rma::Path::Card).into(),
            ..ggas_queues::default()
        };
        for (number, entry) in queues.queue.iter_mut().enumerate().take(config.queues as usize) {
            let port = number % ports.max(1);
            *entry = ggas_queue_entry {
                port: self.ports.get(port).map_or(0, KernelPort::address),
                state: if ports == 0 { 0 } else { tables.state(own, port) },
                peers: tables.of(own, port),
                port_number: port as u32,
                limit: config.limit(),
            };
        }
        Ok(self.memory.write(0, bytes_of(&[queues]))?)
    }

    /// A part of another member that has so many bytes, as its kernels see it.
    pub fn length(&self, bytes: u64, of_other: bool) -> u64 {
        let traced = of_other && self.moves.is_some();
        bytes | u64::from(traced) << GGAS_MEMORY_TRACED_BIT
    }

    /// Address of its `struct ggas_queues`.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    pub fn arm(&self) -> Vec<Armed<'_>> {
        self.armed.store(true, Ordering::Relaxed);
        self.ports.iter().map(KernelPort::arm).collect()
    }

    /// The first failure that its kernels left.
    pub fn report(&self) -> Option<KernelReport> {
        let own = self.report.get().map(|report| {
            let state = KernelPortState { armed: self.armed.load(Ordering::Relaxed), posted: None };
            KernelReport { port: (!self.ports.is_empty()).then_some(state), ..report }
        });
        own.or_else(|| self.ports.iter().find_map(KernelPort::report))
    }

    pub fn clear_report(&self) {
        self.report.clear();
        self.ports.iter().for_each(KernelPort::clear_report);
    }
}

/// As many ports as are asked for and free, and one at least.
fn open_ports(
    member: usize,
    node: &Node,
    processor: &Processor,
    config: &QueuesConfig,
) -> Result<Vec<KernelPort>, QueuesError> {
    let setup = PortConfig { kernel_timeout: config.timeout, ..config.port };
    let mut ports = Vec::new();
    for _ in 0..config.wanted_ports() {
        match node.open_kernel_port(setup, processor).map_err(in_use) {
            Ok(port) => ports.push(port),
            Err(Refusal::InUse(source)) if ports.is_empty() => {
                return Err(QueuesError::PortsInUse { member, source: Box::new(source) });
            }
            Err(Refusal::InUse(why)) => {
                tracing::info!(
                    "member {member}: {} queues share {} ports: {why}",
                    config.queues,
                    ports.len()
                );
                break;
            }
            Err(Refusal::Other(error)) => return Err(error.into()),
        }
    }
    Ok(ports)
}

enum Refusal {
    InUse(DeviceError),
    Other(KernelPortError),
}

fn in_use(error: KernelPortError) -> Refusal {
    match error {
        KernelPortError::Port(PortError::Device(
            source @ (DeviceError::PortsInUse { .. } | DeviceError::UserLimit { .. }),
        ))
        | KernelPortError::Device(
            source @ (DeviceError::PortsInUse { .. } | DeviceError::UserLimit { .. }),
        ) => Refusal::InUse(source),
        error => Refusal::Other(error),
    }
}

/// Memory of kernels that holds these structures.
pub(crate) fn filled<T: Copy>(processor: &Processor, values: &[T]) -> Result<KernelMem, MemoryError> {
    let bytes = bytes_of(values);
    let memory = processor.alloc(bytes.len().max(8))?;
    memory.write(0, bytes)?;
    Ok(memory)
}

/// Of structures of `extoll_abi::layout`, or numbers.
fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers without padding (the layout's offsets are asserted in extoll-abi).
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
