//! Copies between nodes: pointers that name their rank, and a thread at each rank that serves the copies of others.
//!
//! A copy goes in blocks through a *lane* (`lane.rs`): two pinned buffers that the network reaches, and a number. Who copies asks the rank
//! whose memory it is, block by block (`copies.rs`); its *station* (`station.rs`) gets the block from the lane, or puts it there, by way
//! of two pinned buffers of its own, and answers. So a block is on the network while devices copy those beside it, at both ends, and
//! what is pinned does not grow with the number of ranks. Memory of the host that was exported is got from and put to where it is.
//!
//! Between processes of a host whose GPUs reach each other's memory copies need none of that: who asks has CUDA open the other's allocation, and
//! copies by its own engine (`handles.rs`, `names.rs`).

mod copies;
mod handles;
mod lane;
pub(crate) mod names;
mod station;
mod words;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ggas_members::Job;
use ggas_rma::{Address, Connection, HostBuffer, Node, Port, PortConfig, Region};

use crate::address::{self, MAX_RANKS};
use crate::error::HpeError;
use crate::fork;
use crate::objects::Place;
use crate::runtime::Runtime;
use crate::worker::Worker;
use handles::Handles;
use lane::{Lanes, NUMBERS, Staging};
use names::{Names, Table, WHERE};
use station::Station;
use words::REQUEST;

/// How long ranks wait for each other at least when they join: opening GPUs takes its time.
const JOIN: Duration = Duration::from_secs(60);
/// Most bytes of a block.
const BLOCK: usize = 1 << 20;
/// Requests of a rank that may be under way: two of each lane.
const SLOTS: usize = 2 * NUMBERS;

/// Another rank.
struct Peer {
    address: Address,
    connection: Connection,
    /// Where this rank's requests go.
    inbox: u64,
    /// Of a rank with GPUs on this host: which of its memory's names hold.
    table: Option<Arc<Table>>,
}

/// Memory of the host that other ranks reach.
struct Export {
    start: u64,
    len: usize,
    region: Region,
}

/// What callers and the station share.
struct Shared {
    // Unregistered before the port closes.
    exports: RwLock<Vec<Arc<Export>>>,
    /// Requests of this rank, and of others, by slot.
    outbox: Region,
    inbox: Region,
    port: Port,
    /// By rank; this one's is not used.
    peers: Vec<Peer>,
    rank: u32,
    block: usize,
    timeout: Duration,
    /// Where this rank has GPUs.
    names: Option<Arc<Names>>,
}

/// This runtime's part in the network.
pub(crate) struct Network {
    lanes: Lanes,
    handles: Handles,
    shared: Arc<Shared>,
    station: Option<Worker>,
}

impl Shared {
    fn peer(&self, rank: u32) -> Result<&Peer, HpeError> {
        let size = self.peers.len() as u32;
        let pointer = address::remote(rank, 0).unwrap_or_default();
        self.peers.get(rank as usize).ok_or(HpeError::NoRank { pointer, rank, size })
    }

    /// The exported memory that holds these bytes, and where in it.
    fn exported(&self, address: u64, len: usize) -> Option<(Arc<Export>, usize)> {
        let exports = self.exports.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |export: &&Arc<Export>| {
            address >= export.start
                && export.len.checked_sub(len).is_some_and(|room| address - export.start <= room as u64)
        };
        exports.iter().find(holds).map(|export| (export.clone(), (address - export.start) as usize))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The station's wait ends. What it says of posts that nobody took is of no use any more.
        let _ = self.shared.port.shut();
        drop(self.station.take());
    }
}

impl Runtime {
    /// Shares pointers with the other ranks of a job, whose runtimes all join: [`copy`](Self::copy) then takes pointers of their memory,
    /// too ([`remote`](Self::remote)), of all objects of their devices and of what they [`export`](Self::export). Bytes go over the
    /// network of `node`, between processes of a host as between hosts, and in blocks through pinned buffers of both, but for
    /// exported memory. A thread of each rank serves the others' copies, so that nobody there need call anything.
    ///
    /// Collective, also where it fails: all ranks call it, in the same order as other collective calls of the job.
    ///
    /// Takes two pairs of pinned buffers for good, and a third if several threads copy at a time. Leave together
    /// ([`Job::barrier`]): copies of a rank that is gone fail with [`HpeError::PeerLost`]. Drop all clones of the runtime
    /// before the job and what the node is of.
    ///
    /// # Errors
    /// [`HpeError::Join`] where one of the ranks could not, or this one has; [`HpeError::Pinned`] where the bound has no room for three pairs;
    /// [`HpeError::Network`]: the limit of locked memory, what the device refuses.
    pub fn join(&self, job: &Job, node: &Node) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        let made = match self.inner.network.get() {
            Some(_) => Err(HpeError::Join { reason: "this runtime has joined already".to_owned() }),
            None => self.made(job, node),
        };
        let said = made.as_ref().map(|made| made.place.map(u64::to_ne_bytes).concat()).unwrap_or_default();
        // All come to know of one that could not.
        let all = job
            .exchange(&said, self.inner.timeout.max(JOIN))
            .map_err(HpeError::network("joining the other ranks"));
        let (made, all) = (made?, all?);
        let places =
            all.iter().enumerate().map(|(rank, said)| place(rank, said)).collect::<Result<Vec<_>, _>>()?;
        let block = places.iter().map(|place| place[3] as usize).min().unwrap_or(BLOCK);
        let peers = places.iter().map(|&[node, vpid, inbox, _, ref table @ ..]| {
            let address = Address::new(node as u16, vpid as u8);
            let inbox = inbox + (job.rank() as usize * SLOTS * REQUEST) as u64;
            let table = made.names.as_ref().and_then(|_| Names::of(*table)).map(Arc::new);
            Peer { address, connection: made.port.connect(address), inbox, table }
        });
        let shared = Arc::new(Shared {
            peers: peers.collect(),
            exports: RwLock::default(),
            outbox: made.outbox,
            inbox: made.inbox,
            port: made.port,
            rank: job.rank(),
            block,
            timeout: self.inner.timeout,
            names: made.names.clone(),
        });
        let station = Station::start(shared.clone(), &self.inner, made.staging)?;
        let network =
            Network { lanes: Lanes::default(), handles: Handles::default(), shared, station: Some(station) };
        let twice = |_| HpeError::Join { reason: "another thread called `join` meanwhile".to_owned() };
        self.inner.network.set(network).map_err(twice)
    }

    /// This rank's side of it.
    fn made(&self, job: &Job, node: &Node) -> Result<Made, HpeError> {
        if job.size() > MAX_RANKS {
            return Err(HpeError::Join { reason: format!("pointers name up to {MAX_RANKS} ranks") });
        }
        let pool = &self.inner.pool;
        // The station's, a lane's, and one for what is copied here.
        if !pool.has_pairs(3) {
            return Err(pool.too_small());
        }
        let requests = SLOTS * job.size() as usize;
        let config = PortConfig::default();
        // Each request is a notification, and so is each block that is got, put or answered.
        let entries = (16 * (requests + 8 * SLOTS)).next_multiple_of(config.segment_bytes);
        let config = PortConfig {
            queue_bytes: config.queue_bytes.max(entries),
            post_timeout: self.inner.timeout,
            ..config
        };
        let port = node.open_port(config).map_err(HpeError::network("opening a port"))?;
        let memory = |requests: usize| {
            let buffer =
                HostBuffer::zeroed(requests * REQUEST).map_err(HpeError::network("memory for requests"))?;
            port.register(buffer).map_err(HpeError::network("registering memory for requests"))
        };
        let (inbox, outbox) = (memory(requests)?, memory(SLOTS)?);
        let block = pool.buffer().min(BLOCK);
        let staging = Staging::new(&port, pool, block, true)?.ok_or_else(|| pool.too_small())?;
        let Address { node, vpid } = port.address();
        let nla = inbox.nla(0).map_err(HpeError::network("memory for requests"))?;
        let names = match self.gpus().is_empty() {
            true => None,
            false => Some(Arc::new(Names::new()?)),
        };
        let mut place = [0; PLACE];
        place[..4].copy_from_slice(&[u64::from(node), u64::from(vpid), nla, block as u64]);
        if let Some(names) = &names {
            place[4..].copy_from_slice(&names.place());
        }
        Ok(Made { staging, inbox, outbox, port, names, place })
    }

    pub(crate) fn network(&self) -> Option<&Network> {
        self.inner.network.get()
    }

    /// The pointer by which this rank, and all others, name what rank `rank` calls `pointer`: of one of its devices' objects, or of memory
    /// that it exported. Only [`copy`](Self::copy) takes it; to touch it is a fault. One can count on from it, as within the object.
    ///
    /// # Errors
    /// [`HpeError::NoRank`], [`HpeError::NoMemory`].
    pub fn remote(&self, rank: u32, pointer: *const u8) -> Result<*mut u8, HpeError> {
        let size = self.network().map_or(0, |network| network.shared.peers.len() as u32);
        let address = pointer as u64;
        if rank >= size {
            return Err(HpeError::NoRank { pointer: address, rank, size });
        }
        let pointer = address::remote(rank, address).ok_or(HpeError::NoMemory { address, len: 1 })?;
        Ok(pointer as *mut u8)
    }

    /// What this rank itself calls what a pointer names, if it is its own.
    pub(crate) fn own(&self, pointer: u64) -> u64 {
        match (address::rank(pointer), self.network()) {
            (Some((rank, address)), Some(network)) if rank == network.shared.rank => address,
            _ => pointer,
        }
    }

    /// The place of a pointer that names a rank.
    pub(crate) fn remote_place(&self, rank: u32, address: u64, len: usize) -> Result<Place, HpeError> {
        self.remote(rank, address as *const u8)?;
        // What is counted on to the end of what pointers name would be another rank's.
        let end = address.checked_add(len as u64).and_then(|end| address::remote(rank, end - 1));
        match self.network() {
            Some(network) if network.shared.rank == rank => self.place(address, len),
            _ if address == 0 || end.is_none() => Err(HpeError::NoMemory { address, len }),
            _ => Ok(Place::Remote { rank, address }),
        }
    }

    /// Memory of the host that the other ranks reach by [`copy`](Self::copy), and this rank's copies without pinned buffers. It is
    /// locked in memory.
    ///
    /// # Safety
    /// It stays memory until [`unexport`](Self::unexport) returned without an error, or the runtime was dropped; all ranks together
    /// use it as one program uses memory that its threads share.
    ///
    /// # Errors
    /// [`HpeError::NoRank`] before [`join`](Self::join); [`HpeError::NoMemory`] for memory of devices and other ranks;
    /// [`HpeError::Network`]: the limit of locked memory.
    pub unsafe fn export(&self, start: *mut u8, len: usize) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        let address = start as u64;
        let network = self.network().ok_or(HpeError::NoRank { pointer: address, rank: 0, size: 0 })?;
        if len == 0 || !matches!(self.place(address, len)?, Place::Host(_)) {
            return Err(HpeError::NoMemory { address, len });
        }
        // SAFETY: the caller's contract.
        let region = unsafe { network.shared.port.register_raw(start, len) };
        let region = region.map_err(HpeError::network("registering exported memory"))?;
        let export = Arc::new(Export { start: address, len, region });
        network.shared.exports.write().unwrap_or_else(PoisonError::into_inner).push(export);
        Ok(())
    }

    /// Takes back what [`export`](Self::export) gave. Copies that others are making of it end first, or fail.
    ///
    /// # Errors
    /// [`HpeError::NotAllocated`]; [`HpeError::InUse`] while a copy of this rank's or a station's uses it: again later.
    pub fn unexport(&self, start: *mut u8) -> Result<(), HpeError> {
        fork::check(self.inner.generation)?;
        let unknown = HpeError::NotAllocated { address: start as u64 };
        let Some(network) = self.network() else { return Err(unknown) };
        let mut exports = network.shared.exports.write().unwrap_or_else(PoisonError::into_inner);
        let found = exports.iter().position(|export| export.start == start as u64).ok_or(unknown)?;
        if Arc::strong_count(&exports[found]) > 1 {
            return Err(HpeError::InUse { address: start as u64 });
        }
        drop(exports.swap_remove(found));
        Ok(())
    }
}

/// What a rank has before it knows of the others.
struct Made {
    staging: Staging,
    inbox: Region,
    outbox: Region,
    port: Port,
    names: Option<Arc<Names>>,
    place: [u64; PLACE],
}

/// What ranks say of themselves: node, VPID, where requests go, bytes of a block, and where the table of names is.
const PLACE: usize = 4 + WHERE;

/// What a rank said of itself.
fn place(rank: usize, said: &[u8]) -> Result<[u64; PLACE], HpeError> {
    let (words, []) = said.as_chunks() else { return Err(other(rank)) };
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    words.try_into().map_err(|_| other(rank))
}

fn other(rank: usize) -> HpeError {
    HpeError::Join { reason: format!("rank {rank} could not: see what it says") }
}
