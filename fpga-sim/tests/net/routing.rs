//! Every table-routed path ends where it should, by the fewest hops, around whatever is broken.

use std::collections::VecDeque;

use extoll_sim::routing::{Broken, PORT_DISCARD, PORT_HOST, PORT_LINK0, Routing, Table};
use extoll_sim::torus::{Direction, Torus};
use proptest::prelude::*;

/// Hops of the route, checked to follow working links; `None` if it does not arrive.
fn hops(routing: &Routing, broken: &Broken, from: u16, to: u16) -> Option<u32> {
    let torus = routing.torus();
    let (mut at, mut hops) = (from, 0);
    let arrived = routing.walk(from, to, |node, direction| {
        assert_eq!(node, at, "route {from} -> {to} jumps");
        at = broken.neighbour(torus, node, direction).unwrap_or_else(|| {
            panic!("route {from} -> {to} uses the broken link {direction:?} of node {node}")
        });
        hops += 1;
    });
    assert!(!arrived || at == to, "route {from} -> {to} ends at {at}");
    arrived.then_some(hops)
}

/// Fewest hops over working links, by an independent search.
fn shortest(torus: &Torus, broken: &Broken, from: u16) -> Vec<Option<u32>> {
    let mut distance = vec![None; torus.len()];
    let mut queue = VecDeque::new();
    if !broken.is_dead(from) {
        distance[torus.index(from).unwrap()] = Some(0);
        queue.push_back(from);
    }
    while let Some(node) = queue.pop_front() {
        let hops = distance[torus.index(node).unwrap()].unwrap();
        for direction in Direction::ALL {
            let Some(next) = broken.neighbour(torus, node, direction) else { continue };
            let slot = &mut distance[torus.index(next).unwrap()];
            if slot.is_none() {
                *slot = Some(hops + 1);
                queue.push_back(next);
            }
        }
    }
    distance
}

fn small_torus() -> impl Strategy<Value = Torus> {
    (1u32..7, 1u32..6, 1u32..5).prop_map(|(x, y, z)| Torus::new(x, y, z).unwrap())
}

/// The direct walk over the torus takes the hops of the tables.
fn check_walk(torus: &Torus, from: u16, to: u16) {
    let (mut by_table, mut by_torus) = (Vec::new(), Vec::new());
    assert!(Routing::new(*torus).walk(from, to, |node, direction| by_table.push((node, direction))));
    assert!(torus.walk(from, to, |index, direction| by_torus.push((torus.id_of_index(index), direction))));
    assert_eq!(by_table, by_torus, "{from} -> {to}");
}

proptest! {
    #[test]
    fn all_pairs_are_minimal(torus in small_torus()) {
        let (routing, broken) = (Routing::new(torus), Broken::default());
        for from in torus.ids() {
            for to in torus.ids() {
                prop_assert_eq!(hops(&routing, &broken, from, to), torus.distance(from, to));
                check_walk(&torus, from, to);
            }
        }
    }

    #[test]
    fn around_broken_links_and_nodes_all_that_can_be_reached_is(
        torus in small_torus(),
        links in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6), 0..12),
        dead in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let mut broken = Broken::default();
        for (node, direction) in links {
            broken.set_link(&torus, node.index(torus.len()) as u16, Direction::ALL[direction], true);
        }
        dead.iter().for_each(|node| broken.kill(node.index(torus.len()) as u16));
        let routing = Routing::avoiding(torus, &broken);
        for from in torus.ids().filter(|&id| !broken.is_dead(id)) {
            let reachable = shortest(&torus, &broken, from);
            for to in torus.ids() {
                prop_assert_eq!(
                    hops(&routing, &broken, from, to), reachable[torus.index(to).unwrap()], "{} -> {}", from, to
                );
            }
        }
    }

    #[test]
    fn large_tori_stay_within_their_stated_detour(
        size in prop::sample::select(vec![
            (32, 32, 64), (64, 32, 32), (16, 16, 256), (40, 40, 40), (65_536, 1, 1), (1025, 1, 1), (2048, 2, 3),
            (11, 11, 11),
        ]),
        pairs in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..16),
    ) {
        let torus = Torus::new(size.0, size.1, size.2).unwrap();
        let (routing, broken) = (Routing::new(torus), Broken::default());
        for (from, to) in pairs {
            let from = torus.id_of_index(from.index(torus.len()));
            let to = torus.id_of_index(to.index(torus.len()));
            check_walk(&torus, from, to);
            let (taken, least) = (hops(&routing, &broken, from, to), torus.distance(from, to).unwrap());
            let taken = taken.expect("every node is reachable");
            prop_assert!(least <= taken && taken <= least + torus.detour(), "{} hops, {} needed", taken, least);
        }
    }
}

#[test]
fn tori_whose_axes_fit_the_tables_have_no_detour() {
    for (x, y, z) in [(32, 32, 1), (32, 32, 64), (64, 32, 32), (10, 10, 10), (1024, 1, 1), (1024, 64, 1)] {
        assert_eq!(Torus::new(x, y, z).unwrap().detour(), 0, "{x}x{y}x{z}");
    }
}

#[test]
fn a_large_torus_routes_around_a_dead_node() {
    let torus = Torus::new(16, 16, 16).unwrap();
    let mut broken = Broken::default();
    broken.kill(torus.id([1, 0, 0]));
    broken.kill(torus.id([0, 0, 5]));
    let routing = Routing::avoiding(torus, &broken);
    for from in torus.ids().step_by(97).filter(|&id| !broken.is_dead(id)) {
        for to in torus.ids().step_by(89).filter(|&id| !broken.is_dead(id)) {
            assert!(hops(&routing, &broken, from, to).is_some(), "{from} -> {to}");
        }
    }
}

#[test]
fn tables_read_as_they_route_and_route_as_they_are_written() {
    let torus = Torus::new(4, 1, 1).unwrap();
    let routing = Routing::new(torus);
    let entry = |node, index| routing.entry(node, 0, Table::Local, index);
    assert_eq!(entry(0, 0), PORT_HOST);
    assert_eq!(entry(0, 1), PORT_LINK0);
    assert_eq!(entry(0, 3), PORT_LINK0 + 1);
    assert_eq!(entry(0, 4), PORT_DISCARD, "no such node");
    assert_eq!(routing.entry(0, 0, Table::Global, 0), PORT_HOST);
    assert_eq!(routing.entry(0, 0, Table::Global, 1), PORT_DISCARD, "no such group");

    // Software sends 0 -> 1 the long way, then breaks the route, then sends it in a circle.
    let broken = Broken::default();
    let long = (0..11).fold(routing.with_entry(0, 0, Table::Local, 1, PORT_LINK0 + 1), |routing, inport| {
        [2, 3]
            .iter()
            .fold(routing, |routing, &node| routing.with_entry(node, inport, Table::Local, 1, PORT_LINK0 + 1))
    });
    let back = long.with_entry(0, PORT_LINK0 + 1, Table::Local, 1, PORT_LINK0 + 1);
    assert_eq!(hops(&long, &broken, 0, 1), Some(3));
    assert_eq!(long.entry(0, 0, Table::Local, 1), PORT_LINK0 + 1);
    assert_eq!(long.entry(0, 1, Table::Local, 1), PORT_LINK0, "another inport keeps its own table");
    assert_eq!(hops(&long.with_entry(3, PORT_LINK0, Table::Local, 1, PORT_DISCARD), &broken, 0, 1), None);
    assert_eq!(hops(&back.with_entry(3, PORT_LINK0, Table::Local, 1, PORT_LINK0), &broken, 0, 1), None);
    // Out of range: ignored.
    assert_eq!(long.with_entry(9, 99, Table::Local, 5000, 1).entry(0, 0, Table::Local, 1), PORT_LINK0 + 1);
}

#[test]
fn reading_any_entry_is_safe() {
    let routing = Routing::new(Torus::new(40, 40, 40).unwrap());
    for (node, index) in [(u16::MAX, 0), (0, 1023), (0, 5000), (1023, 3)] {
        routing.entry(node, 10, Table::Local, index);
        routing.entry(node, 10, Table::Global, index);
    }
}
