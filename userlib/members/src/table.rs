//! The table of a network's members: a file of its directory, mapped by each of them, made of atomics only.
//!
//! A *member* is a slot and a generation: slots are reused, generations are not, so a new member is never mistaken for
//! the previous owner of its slot. Values that other processes write here are not trusted: an impossible state or node
//! is read as none.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::directory::TABLE;
use crate::memory::{File, FileError, Mapping};
use crate::process::{self, Life};
use crate::shape::{FAULTS_MAX, NetworkShape, PROCESSES_MAX, Shape};

/// First word of every table.
const MAGIC: u64 = u64::from_le_bytes(*b"ggas net");
/// Version of this layout, of the messages of members, and of what transports keep of nodes and networks.
pub(crate) const VERSION: u32 = 9;
const HEADER_BYTES: usize = 4096;
/// Words of a slot for collective calls.
pub(crate) const WORDS: usize = 4;

/// Identity of a member; never reused for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId {
    /// Slot in the table; in a job, the rank.
    pub slot: u32,
    /// Number of members that have had the slot so far, from 1.
    pub generation: u32,
}

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PeerState {
    /// The process has not joined yet.
    Absent = 0,
    /// The process is in the network.
    Joined = 1,
    /// The process has left the network.
    Left = 2,
    /// The process died without leaving the network.
    Lost = 3,
}

impl PeerState {
    fn of(value: u32) -> PeerState {
        match value {
            0 => PeerState::Absent,
            1 => PeerState::Joined,
            2 => PeerState::Left,
            _ => PeerState::Lost,
        }
    }
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    members: AtomicU32,
    torus: [AtomicU32; 3],
    /// Processes of the job, 0 for none, and on each node.
    processes: AtomicU32,
    per_node: AtomicU32,
    /// It stays when it has no members.
    standing: AtomicU32,
    faults_len: AtomicU32,
    faults: [AtomicU64; FAULTS_MAX / 8],
    /// The process that keeps it for its job, as in a slot.
    keeper: Who,
    /// A random number: who sees the same one shares this table.
    token: AtomicU64,
}

/// A process of this host.
#[repr(C)]
pub(crate) struct Who {
    pub(crate) pid: AtomicU32,
    /// Set by whoever started the member, once that has ended: nobody comes at this slot any more.
    pub(crate) ended: AtomicU32,
    pub(crate) start: AtomicU64,
    pub(crate) namespace: AtomicU64,
}

/// One member.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Generation << 32 | [`PeerState`].
    state: AtomicU64,
    pub(crate) who: Who,
    pub(crate) node: AtomicU32,
    /// Which program of its process: another one after exec.
    program: AtomicU32,
    pub(crate) words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && size_of::<Slot>() == 128);

fn bytes_of(members: u32) -> u64 {
    (HEADER_BYTES + members as usize * size_of::<Slot>()).next_multiple_of(4096) as u64
}

/// Why a table could not be had.
#[derive(Debug)]
pub(crate) enum TableError {
    File(FileError),
    /// Made by another version of the library, or no table at all.
    Version {
        theirs: u32,
    },
}

impl From<FileError> for TableError {
    fn from(error: FileError) -> TableError {
        TableError::File(error)
    }
}

/// See the module's description.
pub(crate) struct Table {
    file: File,
    pub(crate) shape: NetworkShape,
}

impl Table {
    /// Makes the table of an empty network.
    pub(crate) fn make(directory: BorrowedFd<'_>, shape: &NetworkShape) -> Result<Table, TableError> {
        let bytes = bytes_of(shape.members());
        let fill = |map: &Mapping| write_header(map, shape);
        File::open_or_make(directory, TABLE, (bytes, bytes), fill)?;
        Table::open(directory)
    }

    /// Maps the table of a network. Nothing in it is trusted but what this call has checked.
    pub(crate) fn open(directory: BorrowedFd<'_>) -> Result<Table, TableError> {
        // Its size says how many members it has room for; the header has to agree.
        let fits = |bytes: u64| (1..=PROCESSES_MAX).any(|members| bytes_of(members) == bytes);
        let file = match File::open(directory, TABLE, fits) {
            Err(FileError::Size) => return Err(TableError::Version { theirs: 0 }),
            other => other?,
        };
        // One that was copied there may have holes, and touching them where there is no room kills.
        file.reserve(0, file.map.len())?;
        let shape = read_header(&file.map)?;
        Ok(Table { file, shape })
    }

    fn header(&self) -> &Header {
        // SAFETY: a header is made of atomics.
        unsafe { self.file.map.at(0) }
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<&Slot> {
        let at = HEADER_BYTES + slot as usize * size_of::<Slot>();
        // SAFETY: a slot is made of atomics.
        (slot < self.shape.members()).then(|| unsafe { self.file.map.at(at) })
    }

    /// Slots there are.
    pub(crate) fn slots(&self) -> std::ops::Range<u32> {
        0..self.shape.members()
    }

    /// Who has a slot now, or had it last, and what became of it.
    pub(crate) fn last(&self, slot: u32) -> Option<(MemberId, PeerState)> {
        let state = self.slot(slot)?.state.load(Ordering::Acquire);
        let generation = (state >> 32) as u32;
        (generation != 0).then(|| (MemberId { slot, generation }, PeerState::of(state as u32)))
    }

    /// What is known of a member. One whose slot another has is gone, in whichever way.
    #[inline]
    pub(crate) fn state(&self, id: MemberId) -> PeerState {
        match self.last(id.slot) {
            Some((now, state)) if now == id => state,
            Some((now, _)) if now.generation > id.generation => PeerState::Left,
            _ => PeerState::Absent,
        }
    }

    /// The node of a slot's member; `None` for what cannot be.
    pub(crate) fn node(&self, slot: u32) -> Option<u16> {
        let node = self.slot(slot)?.node.load(Ordering::Relaxed);
        (node < self.shape.nodes()).then_some(node as u16)
    }

    /// Members that take part, alive or not.
    pub(crate) fn joined(&self) -> impl Iterator<Item = MemberId> + '_ {
        let last = self.slots().filter_map(|slot| self.last(slot));
        last.filter(|(_, state)| *state == PeerState::Joined).map(|(id, _)| id)
    }

    /// Whether the process of a member lives.
    pub(crate) fn life(&self, id: MemberId) -> Life {
        let Some(slot) = self.slot(id.slot) else { return Life::Over };
        match slot.who.life() {
            // Of what this process ran before exec, nothing is left.
            Life::Here
                if self.is_this_process(id.slot)
                    && slot.program.load(Ordering::Relaxed) != process::program() =>
            {
                Life::Over
            }
            life => life,
        }
    }

    /// Whether a slot's member is, or was, of this process.
    pub(crate) fn is_this_process(&self, slot: u32) -> bool {
        let (pid, start, namespace) = process::this();
        self.slot(slot).is_some_and(|Slot { who, .. }| {
            let has = (who.start.load(Ordering::Relaxed), who.namespace.load(Ordering::Relaxed));
            who.pid.load(Ordering::Relaxed) == pid && has == (start, namespace)
        })
    }

    /// Gives a slot to this process; under the directory's lock, and nobody alive has it.
    pub(crate) fn take(&self, slot: u32, node: u16) -> Option<MemberId> {
        let place = self.slot(slot)?;
        let before = place.state.load(Ordering::Acquire);
        let generation = ((before >> 32) as u32).wrapping_add(1).max(1);
        place.who.set_this();
        place.program.store(process::program(), Ordering::Relaxed);
        place.node.store(node.into(), Ordering::Relaxed);
        let state = u64::from(generation) << 32 | PeerState::Joined as u64;
        place.state.store(state, Ordering::Release);
        Some(MemberId { slot, generation })
    }

    /// Notes that a member is over. Returns whether this call changed anything: of several that find a process lost,
    /// one is told so.
    pub(crate) fn end(&self, id: MemberId, how: PeerState) -> bool {
        let Some(place) = self.slot(id.slot) else { return false };
        let word = |state: PeerState| u64::from(id.generation) << 32 | state as u64;
        let (from, to) = (word(PeerState::Joined), word(how));
        place.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether it stays without members; where a process keeps it, what is known of that.
    pub(crate) fn standing(&self) -> Option<Option<Life>> {
        let keeper = &self.header().keeper;
        let stays = self.header().standing.load(Ordering::Acquire) != 0;
        stays.then(|| (keeper.pid.load(Ordering::Relaxed) != 0).then(|| keeper.life()))
    }

    /// Has it stay, or not; `tied`: as long as this process lives.
    pub(crate) fn keep(&self, stays: bool, tied: bool) {
        let header = self.header();
        if tied {
            header.keeper.set_this();
        }
        header.standing.store(stays.into(), Ordering::Release);
    }

    /// A random number that no other network has, on whichever host.
    pub(crate) fn token(&self) -> u64 {
        self.header().token.load(Ordering::Relaxed)
    }

    /// Process that keeps it for a job, in this process's namespace.
    pub(crate) fn keeper(&self) -> Option<u32> {
        let keeper = &self.header().keeper;
        let pid = keeper.pid.load(Ordering::Relaxed);
        (pid != 0 && keeper.life() == Life::Here).then_some(pid)
    }
}

impl Who {
    fn set_this(&self) {
        let (pid, start, namespace) = process::this();
        self.pid.store(pid, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.namespace.store(namespace, Ordering::Relaxed);
    }

    pub(crate) fn life(&self) -> Life {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        process::life(self.pid.load(Ordering::Relaxed), load(&self.start), load(&self.namespace))
    }
}

fn write_header(map: &Mapping, shape: &NetworkShape) {
    // SAFETY: a header is made of atomics.
    let header: &Header = unsafe { map.at(0) };
    header.version.store(VERSION, Ordering::Relaxed);
    // Where there is none, jobs over hosts, which need it, do not begin either.
    header.token.store(crate::meeting::random().unwrap_or_default(), Ordering::Relaxed);
    header.members.store(shape.members(), Ordering::Relaxed);
    for (word, value) in header.torus.iter().zip(shape.dimensions()) {
        word.store(value.into(), Ordering::Relaxed);
    }
    if let Some(ranks) = shape.ranks() {
        header.processes.store(ranks.processes(), Ordering::Relaxed);
        header.per_node.store(ranks.per_node(), Ordering::Relaxed);
    }
    header.faults_len.store(shape.faults().len() as u32, Ordering::Relaxed);
    for (word, bytes) in header.faults.iter().zip(shape.faults().as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
    header.magic.store(MAGIC, Ordering::Release);
}

fn read_header(map: &Mapping) -> Result<NetworkShape, TableError> {
    // SAFETY: a header is made of atomics.
    let header: &Header = unsafe { map.at(0) };
    let version = header.version.load(Ordering::Relaxed);
    let mismatch = |theirs| TableError::Version { theirs };
    if header.magic.load(Ordering::Acquire) != MAGIC {
        return Err(mismatch(0));
    }
    if version != VERSION {
        return Err(mismatch(version));
    }
    let load = |word: &AtomicU32| word.load(Ordering::Relaxed);
    let size = |i: usize| u16::try_from(load(&header.torus[i])).unwrap_or(0);
    let bytes: Vec<u8> =
        header.faults.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let faults =
        bytes.get(..load(&header.faults_len) as usize).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let read = || {
        let shape = match load(&header.processes) {
            0 => NetworkShape::torus(size(0), size(1), size(2)).ok()?,
            processes => NetworkShape::of_job(Shape::new(processes, load(&header.per_node)).ok()?),
        };
        shape.with_members(load(&header.members)).ok()?.with_faults(faults?).ok()
    };
    let shape = read().ok_or(mismatch(version))?;
    if bytes_of(shape.members()) == map.len() as u64 { Ok(shape) } else { Err(mismatch(version)) }
}
