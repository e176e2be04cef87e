//! Table routing (spec 8.2): each card looks a packet's target up in its own tables and learns the outport.
//!
//! Tables are not stored. While all links work an entry is computed from the torus (dimension order); around dead
//! links and nodes entries come from columns, one per target and shared by all nodes, found by breadth-first
//! search when first asked for. Only a table that software wrote itself is kept, per node. A [`Routing`] never
//! changes: management makes a new one and the network switches to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use crate::network::links::torus::{Direction, GROUP_NODES, GROUPS, Position, Torus};

/// Inports and outports of the crossbar (spec 1.3).
pub const PORTS: usize = 11;
/// Outports 0..4 are the card's own network ports n0..n3; a packet names the unit it is for, so route entries
/// that mean "this node" all read 0 \[inferred\].
pub const PORT_HOST: u8 = 0;
/// Outport of link port 0; link ports follow in the order of [`Direction`] \[inferred\].
pub const PORT_LINK0: u8 = 4;
/// Outport that throws packets away: an unknown or unreachable target (spec 8.2).
pub const PORT_DISCARD: u8 = 10;

/// Which of the two route tables of an inport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// By group, for targets in other groups: 64 entries.
    Global,
    /// By place in the group, for targets in the own group: 1,024 entries.
    Local,
}

impl Table {
    /// Number of entries.
    #[allow(clippy::len_without_is_empty, reason = "a table is never empty")]
    pub fn len(self) -> usize {
        match self {
            Table::Global => GROUPS as usize,
            Table::Local => GROUP_NODES as usize,
        }
    }
}

/// Outport of a link.
pub fn port_of(direction: Direction) -> u8 {
    PORT_LINK0 + direction.index() as u8
}

/// Link behind an outport or inport, if it is a link port.
pub fn direction_of(port: u8) -> Option<Direction> {
    Direction::from_index(usize::from(port.checked_sub(PORT_LINK0)?))
}

/// Links and nodes that do not work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// Bit `d` of a node's byte: its link in direction `d` is down. By node index; empty if no link is.
    links: Vec<u8>,
    nodes: Vec<u16>,
}

impl Broken {
    /// Whether everything works.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.links.iter().all(|&bits| bits == 0)
    }

    /// Marks the cable at `node` in `direction`, hence both its ends, as down or up. Returns whether there is one.
    pub fn set_link(&mut self, torus: &Torus, node: u16, direction: Direction, down: bool) -> bool {
        let Some(other) = torus.neighbour(node, direction) else { return false };
        self.links.resize(torus.len(), 0);
        for (end, direction) in [(node, direction), (other, direction.opposite())] {
            if let Some(bits) = torus.index(end).and_then(|index| self.links.get_mut(index)) {
                *bits = *bits & !(1 << direction.index()) | u8::from(down) << direction.index();
            }
        }
        true
    }

    /// Marks a node as dead.
    pub fn kill(&mut self, node: u16) {
        if !self.is_dead(node) {
            self.nodes.push(node);
        }
    }

    /// Marks a node as alive again.
    pub fn revive(&mut self, node: u16) {
        self.nodes.retain(|&dead| dead != node);
    }

    /// Whether a node is dead.
    pub fn is_dead(&self, node: u16) -> bool {
        self.nodes.contains(&node)
    }

    /// Whether a cable is down.
    pub fn is_down(&self, torus: &Torus, node: u16, direction: Direction) -> bool {
        let bits = torus.index(node).and_then(|index| self.links.get(index)).copied().unwrap_or(0);
        bits & 1 << direction.index() != 0
    }

    /// The node a packet reaches over a link: `None` if there is no link, it is down, or either end is dead.
    pub fn neighbour(&self, torus: &Torus, node: u16, direction: Direction) -> Option<u16> {
        let next = torus.neighbour(node, direction)?;
        (!self.is_down(torus, node, direction) && !self.is_dead(node) && !self.is_dead(next)).then_some(next)
    }
}

/// Tables of one node as software wrote them: an outport per inport, table and entry.
#[derive(Clone)]
struct Written(Vec<u8>);

impl Written {
    fn slot(inport: u8, table: Table, index: usize) -> usize {
        let first = if table == Table::Global { 0 } else { GROUPS as usize };
        usize::from(inport) * (GROUPS + GROUP_NODES) as usize + first + index
    }
}

type Column = OnceLock<Box<[u8]>>;

/// Columns of route entries around what is broken: for each target the outport at every node.
struct Detours {
    broken: Broken,
    /// By index of the target, then by place in its group.
    local: Box<[Column]>,
    /// By target group, then by index of the node.
    global: Box<[Column]>,
}

/// The route tables of all nodes at one time.
pub struct Routing {
    torus: Torus,
    detours: Option<Arc<Detours>>,
    written: HashMap<u16, Arc<Written>>,
}

impl Routing {
    /// Tables for a torus in which everything works.
    pub fn new(torus: Torus) -> Routing {
        Routing { torus, detours: None, written: HashMap::new() }
    }

    /// Tables around what is broken; tables that software wrote are replaced. In tori of one group (up to
    /// 1,024 nodes) everything that can be reached is reached, by a shortest path. In larger ones a node can
    /// be reached as long as the working links connect its own group.
    pub fn avoiding(torus: Torus, broken: &Broken) -> Routing {
        let columns = |count: usize| (0..count).map(|_| Column::new()).collect();
        let detours = (!broken.is_empty()).then(|| {
            let (local, global) = (columns(torus.len()), columns(GROUPS as usize));
            Arc::new(Detours { broken: broken.clone(), local, global })
        });
        Routing { torus, detours, written: HashMap::new() }
    }

    /// The same tables with one entry changed (a register write). Entries out of range are ignored.
    pub fn with_entry(&self, node: u16, inport: u8, table: Table, index: usize, outport: u8) -> Routing {
        let mut written = self.written.clone();
        if usize::from(inport) < PORTS && index < table.len() && self.torus.index(node).is_some() {
            let tables = written.entry(node).or_insert_with(|| Arc::new(self.tables(node)));
            Arc::make_mut(tables).0[Written::slot(inport, table, index)] = outport & 0xf;
        }
        Routing { torus: self.torus, detours: self.detours.clone(), written }
    }

    fn tables(&self, node: u16) -> Written {
        let mut tables = Vec::with_capacity(PORTS * (GROUPS + GROUP_NODES) as usize);
        for inport in 0..PORTS as u8 {
            for table in [Table::Global, Table::Local] {
                tables.extend((0..table.len()).map(|index| self.entry(node, inport, table, index)));
            }
        }
        Written(tables)
    }

    /// Whether every entry follows from the torus, so that every node is reachable.
    pub fn is_computed(&self) -> bool {
        self.detours.is_none() && self.written.is_empty()
    }

    /// The torus.
    pub fn torus(&self) -> &Torus {
        &self.torus
    }

    /// One table entry of one node: the outport. Discard for a target that does not exist or cannot be reached.
    pub fn entry(&self, node: u16, inport: u8, table: Table, index: usize) -> u8 {
        if let Some(tables) = self.written.get(&node) {
            return tables.0.get(Written::slot(inport, table, index)).copied().unwrap_or(PORT_DISCARD);
        }
        let Some(here) = self.torus.position(node).filter(|_| index < table.len()) else {
            return PORT_DISCARD;
        };
        let (group, local) = (u32::from(node) / GROUP_NODES, u32::from(node) % GROUP_NODES);
        match (table, &self.detours) {
            (Table::Global, _) if index as u32 == group => PORT_HOST,
            (Table::Global, None) => self.computed(here, (index as u32 * GROUP_NODES) as u16),
            (Table::Global, Some(detours)) => {
                self.torus.index(node).map_or(PORT_DISCARD, |node| detours.to_group(&self.torus, index)[node])
            }
            (Table::Local, None) => self.computed(here, (group * GROUP_NODES) as u16 | index as u16),
            (Table::Local, Some(detours)) => {
                let target = self.torus.index((group * GROUP_NODES) as u16 | index as u16);
                target.map_or(PORT_DISCARD, |target| detours.to_node(&self.torus, target)[local as usize])
            }
        }
    }

    /// The first id of a group always exists, as its box has a first corner.
    fn computed(&self, here: Position, to: u16) -> u8 {
        match self.torus.position(to) {
            None => PORT_DISCARD,
            Some(to) => self.torus.step(here, to).map_or(PORT_HOST, port_of),
        }
    }

    /// What the crossbar of `node` does with a packet for `to` that came in by `inport`: its outport.
    pub fn outport(&self, node: u16, inport: u8, to: u16) -> u8 {
        let (group, local) = (usize::from(to) / GROUP_NODES as usize, usize::from(to) % GROUP_NODES as usize);
        if group == usize::from(node) / GROUP_NODES as usize {
            self.entry(node, inport, Table::Local, local)
        } else {
            self.entry(node, inport, Table::Global, group)
        }
    }

    /// Most hops a packet may take before it is taken for misrouted. Computed tables stay far below.
    pub fn hop_limit(&self) -> u32 {
        2 * self.torus.len() as u32 + 16
    }

    /// Walks a route, calling `hop(node, link)` for each link. True if it ends at `to`; false if an entry says
    /// discard, names a link that is not there, or the route runs in a circle.
    pub fn walk(&self, from: u16, to: u16, mut hop: impl FnMut(u16, Direction)) -> bool {
        let (mut node, mut inport) = (from, PORT_HOST);
        for _ in 0..self.hop_limit() {
            let port = if node == to { return true } else { self.outport(node, inport, to) };
            let Some(direction) = direction_of(port) else { return false };
            let Some(next) = self.torus.neighbour(node, direction) else { return false };
            hop(node, direction);
            (node, inport) = (next, port_of(direction.opposite()));
        }
        false
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes, over this link first; `None`: it is for the node that it is at.
    Go(Option<Direction>),
    /// Something on its way that may work again does not.
    Wait,
    /// No route leads there, or an end is dead.
    Discard,
}

impl Routing {
    /// What becomes of a packet while some links and nodes are broken, whether or not these tables lead around them, and
    /// others forward nothing for a while.
    pub(crate) fn judge(
        &self,
        broken: &Broken,
        from: u16,
        to: u16,
        is_stopped: impl Fn(u16) -> bool,
    ) -> Verdict {
        if broken.is_dead(from) || broken.is_dead(to) {
            return Verdict::Discard;
        }
        let (mut first, mut blocked) = (None, is_stopped(from));
        let arrives = self.walk(from, to, |node, direction| {
            first = first.or(Some(direction));
            blocked |=
                broken.is_dead(node) || is_stopped(node) || broken.is_down(&self.torus, node, direction);
        });
        match (arrives, blocked) {
            (false, _) => Verdict::Discard,
            (true, true) => Verdict::Wait,
            (true, false) => Verdict::Go(first),
        }
    }
}

impl Detours {
    /// Outports towards the node with index `target`, by place in its group.
    fn to_node(&self, torus: &Torus, target: usize) -> &[u8] {
        self.local[target].get_or_init(|| {
            let target = torus.id_of_index(target);
            let group = target / GROUP_NODES as u16;
            let mut column = vec![PORT_DISCARD; GROUP_NODES as usize].into_boxed_slice();
            self.search(torus, [target], |node, port| {
                let place = &mut column[usize::from(node) % GROUP_NODES as usize];
                let fresh = node / GROUP_NODES as u16 == group && *place == PORT_DISCARD;
                *place = if fresh { port } else { *place };
                fresh
            });
            column
        })
    }

    /// Outports towards a group, by index of the node.
    fn to_group(&self, torus: &Torus, group: usize) -> &[u8] {
        self.global[group].get_or_init(|| {
            let mut column = vec![PORT_DISCARD; torus.len()].into_boxed_slice();
            let first = group as u32 * GROUP_NODES;
            let members = (first..first + GROUP_NODES).map(|id| id as u16);
            let members: Vec<u16> = members.filter(|&id| torus.index(id).is_some()).collect();
            self.search(torus, members, |node, port| {
                let Some(place) = torus.index(node).map(|index| &mut column[index]) else { return false };
                let fresh = *place == PORT_DISCARD;
                *place = if fresh { port } else { *place };
                fresh
            });
            column
        })
    }

    /// Breadth-first search from the targets; `visit` gets each node with the outport that leads one hop
    /// nearer, and says whether it saw the node for the first time.
    fn search(
        &self,
        torus: &Torus,
        targets: impl IntoIterator<Item = u16>,
        mut visit: impl FnMut(u16, u8) -> bool,
    ) {
        let mut reached: VecDeque<u16> =
            targets.into_iter().filter(|&id| !self.broken.is_dead(id) && visit(id, PORT_HOST)).collect();
        while let Some(node) = reached.pop_front() {
            for direction in Direction::ALL {
                // Cables die as a whole, so the way there works if and only if the way back does.
                let Some(next) = self.broken.neighbour(torus, node, direction) else { continue };
                if visit(next, port_of(direction.opposite())) {
                    reached.push_back(next);
                }
            }
        }
    }
}
