//! The network: what a packet passes on its way, and for how long it holds it.
//!
//! A flight is a packet, or all packets of a command that travel as one train. Where it passes, its first packet is there
//! at its head's time and all of it at its tail's. What is shared (a link, a unit of a card) serves flights in the order
//! in which their heads come, each for as long as its bytes take. So both are known in one step for each thing passed,
//! and flights of one sender to one receiver never overtake each other.

use super::costs::{Costs, Rate};
use super::system::Topology;
use crate::network::links::torus::{Direction, Position, Torus};

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
    /// Links crossed so far.
    pub hops: u64,
}

/// What a flight does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// It goes on from this place.
    Hop(u32, Passed),
    /// It is at its target, its first packet whole.
    There(Passed),
}

/// Place of a flight that a star's switch has, or that is on its way in.
const INSIDE: u32 = u32::MAX;

impl Wires {
    pub fn torus(torus: Torus) -> Wires {
        let ids: Vec<u16> = torus.ids().collect();
        let index = |id: u16| torus.index(id).unwrap_or(0) as u32;
        let around =
            |id: u16| Direction::ALL.map(|direction| torus.neighbour(id, direction).map_or(index(id), index));
        let positions = ids.iter().map(|id| torus.position(*id).unwrap_or_default()).collect();
        let neighbours = ids.iter().map(|id| around(*id)).collect();
        Wires { links: vec![0; 6 * ids.len()], ways: Ways::Torus { torus, positions, neighbours }, hops: 0 }
    }

    pub fn ports(nodes: usize) -> Wires {
        Wires { links: vec![0; 2 * nodes], ways: Ways::Ports, hops: 0 }
    }

    /// The next thing that a flight passes, from place `at` (the sender's index at first) to `to`.
    #[inline]
    pub fn step(&mut self, costs: &Costs, at: u32, to: u32, came: Passed, bytes: u64) -> Next {
        let load = Load { busy: costs.link.time(costs.wire(bytes)), first: first(costs.link, costs, bytes) };
        match &self.ways {
            Ways::Torus { torus, positions, neighbours } => {
                let Some(direction) = torus.step(positions[at as usize], positions[to as usize]) else {
                    return Next::There(came);
                };
                let next = neighbours[at as usize][direction.index()];
                let link = &mut self.links[at as usize * 6 + direction.index()];
                self.hops += 1;
                let came = came.later(costs.switch);
                let last = next == to;
                let passed = load.cross(link, came, costs.link_latency, costs.store_and_forward || last);
                if last { Next::There(passed) } else { Next::Hop(next, passed) }
            }
            Ways::Ports if at == to => Next::There(came),
            Ways::Ports if at != INSIDE => {
                let link = &mut self.links[at as usize * 2];
                self.hops += 1;
                Next::Hop(INSIDE, load.cross(link, came, costs.link_latency, costs.store_and_forward))
            }
            Ways::Ports => {
                let link = &mut self.links[to as usize * 2 + 1];
                let (latency, came) = match costs.topology {
                    Topology::Direct => (0, came),
                    _ => (costs.link_latency, came.later(costs.switch)),
                };
                self.hops += u64::from(latency > 0);
                Next::There(load.cross(link, came, latency, true))
            }
        }
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
