//! Which way is taken, and that it says so.

use super::*;

#[test]
fn the_device_decides_unless_one_asks() {
    let network = network(Progress::Inline);
    let node = Node::new(network.device(0).unwrap());
    let open = |way| Triggers::open(&node, &Processor::cpu(), Config { way, ..Config::default() });
    let unit = open(None).unwrap();
    assert_eq!(unit.way(), Way::Unit);
    assert!(unit.explain().contains("unit"), "{}", unit.explain());
    let host = open(Some(Way::Host)).unwrap();
    assert_eq!(host.way(), Way::Host);
    assert!(host.explain().contains("thread of the host"), "{}", host.explain());
}

#[test]
fn tables_of_one_node_are_apart_and_come_and_go() {
    let network = network(Progress::Inline);
    for _ in 0..3 {
        let (a, b) = (Pair::new(&network, Config::default()), Pair::new(&network, Config::default()));
        let piece = Piece { first: 0, words: 2, threshold: 1 };
        let (of_a, of_b) = (a.put(1, piece, false).unwrap(), b.put(1, piece, false).unwrap());
        a.triggers.trigger(1);
        a.triggers.wait(of_a, 1, SOON).unwrap();
        assert_eq!((b.triggers.completed(of_b).times, b.triggers.counts().started), (0, 0));
    }
}
