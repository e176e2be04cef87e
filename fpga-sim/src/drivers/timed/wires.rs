//! The network: what a packet passes on its way, and for how long it holds it.
//!
//! A flight is a packet, or all packets of a command that travel as one train. Where it passes, its first packet is there
//! at its head's time and all of it at its tail's. What is shared (a link, a unit of a card) serves flights in the order
//! in which their heads come, each for as long as its bytes take. So both are known in one step for each thing passed,
//! and flights of one class from one sender to one receiver never overtake each other.
//!
//! A flight crosses a link once the other end has [room](super::credits) for it. Ends have virtual channels: requests and
//! responses, two for the rings of a torus (a flight changes to the second where it crosses the edge), and two for the
//! ways to a group of nodes and within it. On none of them does a flight wait for itself: along an axis nobody crosses the
//! edge twice, axes and parts of the way come in a fixed order, and responses are always taken.

use super::costs::{Costs, Rate};
use super::credits::{Buffers, Held};
use super::system::Topology;
use crate::network::links::torus::{Direction, Position, Torus};
use crate::packet::Class;

/// When a flight comes out of something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub head: u64,
    pub tail: u64,
}

/// Passes something that is free from `free` on: it holds it for `busy`, its first packet is through `first` behind the
/// beginning, and all of it `latency` later at the other end.
#[inline]
pub(super) fn pass(free: &mut u64, came: Passed, busy: u64, first: u64, latency: u64) -> Passed {
    let start = came.head.max(*free);
    *free = start + busy;
    Passed { head: start + first + latency, tail: came.tail.max(*free) + latency }
}

/// A way into a network and out of it, or along a torus.
enum Ways {
    Torus {
        torus: Torus,
        positions: Vec<Position>,
        /// By index and direction.
        neighbours: Vec<[u32; 6]>,
    },
    /// Nodes with one way out and one in.
    Ports,
}

pub(super) struct Wires {
    ways: Ways,
    /// When each link is free.
    links: Vec<u64>,
    pub buffers: Buffers,
    /// Links crossed so far.
    pub hops: u64,
}

/// What a flight asks of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub flight: u32,
    pub to: u32,
    pub class: Class,
    pub bytes: u64,
}

/// Where a flight is in the network, and the room that it has there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ride {
    /// The sender's index at first.
    pub at: u32,
    /// Of the link that it came over.
    pub held: Held,
    /// It has waited, and has room behind the next link.
    pub admitted: Option<Held>,
    lane: Lane,
}

/// A virtual channel, of requests or of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lane {
    axis: u8,
    /// On its way within a group.
    within: bool,
    /// It has crossed the edge of this axis.
    wrapped: bool,
}

/// For each class.
const LANES: usize = 4;

/// What a flight does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// It goes on from another place.
    Hop(Passed),
    /// It is at its target, its first packet whole.
    There(Passed),
    /// It is told when there is room.
    Wait,
}

/// Place of a flight that a star's switch has, or that is on its way in.
const INSIDE: u32 = u32::MAX;

/// A link, and how it is crossed.
struct Way {
    link: usize,
    next: u32,
    lane: Lane,
    came: Passed,
    latency: u64,
    /// Links that it stands for.
    hops: u64,
    /// The head is there with all of the first packet.
    whole: bool,
    last: bool,
}

impl Wires {
    pub fn torus(torus: Torus, credits: u64) -> Wires {
        let ids: Vec<u16> = torus.ids().collect();
        let index = |id: u16| torus.index(id).unwrap_or(0) as u32;
        let around =
            |id: u16| Direction::ALL.map(|direction| torus.neighbour(id, direction).map_or(index(id), index));
        let positions = ids.iter().map(|id| torus.position(*id).unwrap_or_default()).collect();
        let neighbours = ids.iter().map(|id| around(*id)).collect();
        Wires::new(Ways::Torus { torus, positions, neighbours }, 6 * ids.len(), ids.len(), credits)
    }

    pub fn ports(nodes: usize, credits: u64) -> Wires {
        Wires::new(Ways::Ports, 2 * nodes, nodes, credits)
    }

    fn new(ways: Ways, links: usize, nodes: usize, credits: u64) -> Wires {
        // Behind those of the links one of each node for what it sends itself.
        let buffers = Buffers::new(2 * LANES * links + 2 * nodes, credits);
        Wires { ways, links: vec![0; links], buffers, hops: 0 }
    }

    /// The next thing that a flight passes.
    #[inline]
    pub fn step(&mut self, costs: &Costs, trip: Trip, came: Passed, ride: &mut Ride) -> Next {
        let way = self.way(costs, &trip, came, ride);
        let buffer = match &way {
            Some(way) => (way.link * 2 + trip.class as usize) * LANES + way.lane.number(),
            None => 2 * LANES * self.links.len() + 2 * trip.to as usize + trip.class as usize,
        };
        let admitted = ride.admitted.take();
        let room = admitted
            .or_else(|| self.buffers.take(buffer as u32, costs.packets(trip.bytes), came.head, trip.flight));
        let Some(room) = room else { return Next::Wait };
        let left = std::mem::replace(&mut ride.held, room);
        let Some(way) = way else {
            // To itself, unless it is an answer that has room as a request.
            self.buffers.give(left, came.tail);
            return Next::There(came);
        };
        let load = Load {
            busy: costs.link.time(costs.wire(trip.bytes)),
            first: first(costs.link, costs, trip.bytes),
        };
        let passed = load.cross(&mut self.links[way.link], way.came, way.latency, way.whole);
        self.hops += way.hops;
        self.buffers.give(left, passed.tail - way.latency + costs.link_latency);
        (ride.at, ride.lane) = (way.next, way.lane);
        if way.last { Next::There(passed) } else { Next::Hop(passed) }
    }

    #[inline]
    fn way(&self, costs: &Costs, trip: &Trip, came: Passed, ride: &Ride) -> Option<Way> {
        let (at, to) = (ride.at, trip.to);
        match &self.ways {
            Ways::Torus { torus, positions, neighbours } => {
                let (from, target) = (positions[at as usize], positions[to as usize]);
                let direction = torus.step(from, target)?;
                let next = neighbours[at as usize][direction.index()];
                let axis = direction.index() / 2;
                let lane =
                    Lane { axis: axis as u8, within: torus.is_within_group(from, target), wrapped: false };
                let wraps = from[axis].abs_diff(positions[next as usize][axis]) > 1;
                Some(Way {
                    link: at as usize * 6 + direction.index(),
                    next,
                    lane: lane.behind(ride.lane, wraps),
                    came: came.later(costs.switch),
                    latency: costs.link_latency,
                    hops: 1,
                    whole: costs.store_and_forward || next == to,
                    last: next == to,
                })
            }
            Ways::Ports if at == to => None,
            Ways::Ports if at != INSIDE => Some(Way {
                link: at as usize * 2,
                next: INSIDE,
                lane: Lane::default(),
                came,
                latency: costs.link_latency,
                hops: 1,
                whole: costs.store_and_forward,
                last: false,
            }),
            Ways::Ports => {
                let (latency, came) = match costs.topology {
                    Topology::Direct => (0, came),
                    _ => (costs.link_latency, came.later(costs.switch)),
                };
                let (link, lane, hops) = (to as usize * 2 + 1, Lane::default(), u64::from(latency > 0));
                Some(Way { link, next: to, lane, came, latency, hops, whole: true, last: true })
            }
        }
    }
}

impl Ride {
    /// From this node on, with the room that a flight has.
    pub fn from(at: u32, held: Held) -> Ride {
        Ride { at, held, ..Ride::default() }
    }
}

impl Lane {
    /// This one, of a flight that comes on another.
    #[inline]
    fn behind(self, before: Lane, wraps: bool) -> Lane {
        let goes_on = (self.axis, self.within) == (before.axis, before.within);
        Lane { wrapped: wraps || goes_on && before.wrapped, ..self }
    }

    #[inline]
    fn number(self) -> usize {
        2 * usize::from(self.within) + usize::from(self.wrapped)
    }
}

/// What a flight asks of a link.
struct Load {
    busy: u64,
    /// Of its first packet.
    first: u64,
}

impl Load {
    /// Crosses a link; its head is there with the first packet's head, or with all of that.
    #[inline]
    fn cross(&self, link: &mut u64, came: Passed, latency: u64, whole: bool) -> Passed {
        pass(link, came, self.busy, if whole { self.first } else { 0 }, latency)
    }
}

/// The first packet's time on a link.
#[inline]
fn first(link: Rate, costs: &Costs, bytes: u64) -> u64 {
    link.time(costs.first(bytes) + costs.header)
}

impl Passed {
    #[inline]
    fn later(self, by: u64) -> Passed {
        Passed { head: self.head + by, tail: self.tail + by }
    }
}
