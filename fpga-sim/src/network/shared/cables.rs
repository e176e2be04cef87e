//! Which cables and nodes of a network work: a table that all members share, and what follows from it for packets.
//!
//! It lies in the network's own memory, so that it outlives whoever changed it, and whoever is no member reads and
//! changes it alike. A generation counts its changes. A sender compares that with the one for which it last found the
//! way to a node: one load of a cache line that nobody writes while nothing happens.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_members::memory::Part;
use ggas_members::{
    JobError, Member, Members, NODES_MAX, NetworkShape, NodeMemory, look_at_network, memory_of_network,
};

use crate::network::links::faults::{Event, FaultError};
use crate::network::links::routing::{Broken, Routing, Verdict};
use crate::network::links::torus::{Direction, Torus};

/// In a node's word: its cable in direction X+, Y+ or Z+ is down (the bit is half the direction's index). A cable is kept
/// at one of its ends, so that it goes down and up as a whole.
const CABLES: u32 = 0b111;
/// The node is dead.
const DEAD: u32 = 1 << 3;
/// From here on: the cables that were down when the route tables were computed last.
const AVOIDED: u32 = 8;

/// What the members share. Zeros: everything works.
#[repr(C)]
struct Table {
    /// Changes so far.
    generation: Line,
    nodes: [AtomicU32; NODES_MAX as usize],
}

/// Shares no cache line, nor the one that is fetched with it, with what comes behind.
#[repr(C, align(128))]
struct Line(AtomicU64);

/// The state of a network's cables and nodes; cheap to clone.
#[derive(Clone)]
pub struct Cables {
    torus: Torus,
    table: Part<Table>,
    now: Arc<Mutex<Option<Arc<Snapshot>>>>,
}

/// What a generation of the table says.
pub(super) struct Snapshot {
    generation: u64,
    pub broken: Broken,
    pub routing: Arc<Routing>,
}

impl Cables {
    /// Those of a member's network.
    pub(super) fn of_member(member: &Member) -> io::Result<Cables> {
        Cables::new(member.shape(), member.network_memory(size_of::<Table>())?)
    }

    /// Those of the network `name` of this host, for who is no member of it.
    ///
    /// # Errors
    /// [`JobError::NoNetwork`]; no memory, with what to do.
    pub fn of_network(name: &str) -> Result<Cables, JobError> {
        let (shape, memory) = memory_of_network(name, size_of::<Table>())?;
        Cables::new(&shape, memory).map_err(|source| JobError::System { what: "look at its torus", source })
    }

    /// The same, for who only looks; `None`: there is no such network, or nobody has looked at its cables yet.
    ///
    /// # Errors
    /// [`JobError::Directory`].
    pub fn look(name: &str) -> Result<Option<Cables>, JobError> {
        let found = look_at_network(name, size_of::<Table>())?;
        Ok(found.and_then(|(shape, memory)| Cables::new(&shape, memory).ok()))
    }

    fn new(shape: &NetworkShape, memory: NodeMemory) -> io::Result<Cables> {
        let [x, y, z] = shape.dimensions().map(u32::from);
        let torus = Torus::new(x, y, z).map_err(io::Error::other)?;
        // SAFETY: the table is made of atomics.
        let table = Part::of(&Arc::new(memory), |memory| unsafe { memory.map().at::<Table>(0) });
        Ok(Cables { torus, table, now: Arc::default() })
    }

    /// The torus.
    pub fn torus(&self) -> &Torus {
        &self.torus
    }

    /// Changes so far, of all members.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.table.generation.0.load(Acquire)
    }

    /// Cables that are down, and nodes that are dead.
    pub fn broken(&self) -> Broken {
        self.snapshot().broken.clone()
    }

    /// The route tables: around what was broken at the last [`Event::Reroute`] or [`Event::Kill`].
    pub fn routing(&self) -> Arc<Routing> {
        self.snapshot().routing.clone()
    }

    /// Lets something happen to a cable or a node; all members see it.
    ///
    /// # Errors
    /// [`FaultError`]: there is no such cable or node, or it is nothing that happens between processes
    /// ([`FaultError::OneProcess`]).
    pub fn happen(&self, event: Event) -> Result<(), FaultError> {
        event.check(&self.torus)?;
        match event {
            Event::LinkDown(node, direction) | Event::LinkUp(node, direction) => {
                let Some((word, bit)) = self.cable(node, direction) else { return Ok(()) };
                match event {
                    Event::LinkDown(..) => word.fetch_or(bit, AcqRel),
                    _ => word.fetch_and(!bit, AcqRel),
                };
            }
            Event::Kill(node) => {
                if let Some(word) = self.word(node) {
                    word.fetch_or(DEAD, AcqRel);
                }
                self.reroute();
            }
            Event::Return(node) => {
                if let Some(word) = self.word(node) {
                    word.fetch_and(!DEAD, AcqRel);
                }
                self.reroute();
            }
            Event::Reroute => self.reroute(),
            Event::Stop(_) | Event::Resume(_) | Event::Starve(_) | Event::Feed(_) => {
                return Err(FaultError::OneProcess(event));
            }
        }
        self.table.generation.0.fetch_add(1, AcqRel);
        Ok(())
    }

    fn word(&self, node: u16) -> Option<&AtomicU32> {
        self.table.nodes.get(self.torus.index(node)?)
    }

    /// The word of a cable, and its bit.
    fn cable(&self, node: u16, direction: Direction) -> Option<(&AtomicU32, u32)> {
        let plus = direction.index().is_multiple_of(2);
        let end = if plus { node } else { self.torus.neighbour(node, direction)? };
        Some((self.word(end)?, 1 << (direction.index() / 2)))
    }

    fn reroute(&self) {
        for word in self.table.nodes.iter().take(self.torus.len()) {
            let avoid = |word: u32| {
                let avoided = word & !(CABLES << AVOIDED) | (word & CABLES) << AVOIDED;
                (avoided != word).then_some(avoided)
            };
            let _ = word.fetch_update(AcqRel, Relaxed, avoid);
        }
    }

    /// What the table says now. Words that change meanwhile belong to a generation that is still to come, and are read
    /// again then.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation();
        match &*now {
            Some(snapshot) if snapshot.generation == generation => snapshot.clone(),
            _ => now.insert(Arc::new(self.read(generation))).clone(),
        }
    }

    fn read(&self, generation: u64) -> Snapshot {
        let (mut broken, mut avoided) = (Broken::default(), Broken::default());
        for (index, word) in self.table.nodes.iter().take(self.torus.len()).enumerate() {
            let (word, node) = (word.load(Acquire), self.torus.id_of_index(index));
            for direction in Direction::ALL.into_iter().step_by(2) {
                let bit = 1 << (direction.index() / 2);
                for (broken, word) in [(&mut broken, word), (&mut avoided, word >> AVOIDED)] {
                    if word & bit != 0 {
                        broken.set_link(&self.torus, node, direction, true);
                    }
                }
            }
            if word & DEAD != 0 {
                broken.kill(node);
                avoided.kill(node);
            }
        }
        Snapshot { generation, broken, routing: Arc::new(Routing::avoiding(self.torus, &avoided)) }
    }
}

impl std::fmt::Debug for Cables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cables").field("torus", &self.torus).finish_non_exhaustive()
    }
}

/// What becomes of a packet for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It goes, over this link first; `None`: it is for the own node.
    Open(Option<Direction>),
    /// It waits until this generation of the network's state is over.
    Shut(u64),
    /// It is thrown away.
    Nowhere,
}

/// The ways from a node to all others, as far as they were asked for.
pub(super) struct Ways {
    pub cables: Cables,
    node: u16,
    /// By node: the generation for which its way was found, and the way.
    known: Box<[AtomicU64]>,
}

/// Bits of a way beside its generation: a direction's index, or one of those behind.
const WAY_BITS: u32 = 4;
const OWN: u64 = 6;
const SHUT: u64 = 7;
const NOWHERE: u64 = 8;

impl Ways {
    pub fn new(cables: Cables, node: u16) -> Ways {
        let known = (0..cables.torus.len()).map(|_| AtomicU64::new(u64::MAX)).collect();
        Ways { cables, node, known }
    }

    /// The way to a node.
    #[inline]
    pub fn to(&self, node: u16) -> Way {
        let Some(known) = self.known.get(usize::from(node)) else { return Way::Nowhere };
        // What follows from a generation was read after it, by whoever stored it here.
        let (generation, way) = (self.cables.table.generation.0.load(Relaxed), known.load(Relaxed));
        if way >> WAY_BITS != generation {
            return self.find(node, known);
        }
        match way & ((1 << WAY_BITS) - 1) {
            OWN => Way::Open(None),
            SHUT => Way::Shut(generation),
            link => Direction::from_index(link as usize).map_or(Way::Nowhere, |link| Way::Open(Some(link))),
        }
    }

    /// Whether the own node is dead.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.to(self.node) == Way::Nowhere
    }

    #[cold]
    fn find(&self, node: u16, known: &AtomicU64) -> Way {
        let snapshot = self.cables.snapshot();
        let (way, bits) = match snapshot.routing.judge(&snapshot.broken, self.node, node, |_| false) {
            Verdict::Go(None) => (Way::Open(None), OWN),
            Verdict::Go(Some(link)) => (Way::Open(Some(link)), link.index() as u64),
            Verdict::Wait => (Way::Shut(snapshot.generation), SHUT),
            Verdict::Discard => (Way::Nowhere, NOWHERE),
        };
        known.store(snapshot.generation << WAY_BITS | bits, Relaxed);
        way
    }
}
