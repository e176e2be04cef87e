//! Files, routes, and cards of the model in this process.

use super::file::Network;
use super::{apply, cables, verify};
use extoll_abi::regs::*;
use ggas_device::Device;
use ggas_device::sim::SimNetwork;
use std::sync::Arc;

/// The model's values of route table entries.
const ENTRIES: &str = "[entries]\nhost = 0\nlinks = [4, 5, 6, 7, 8, 9]\ndiscard = 10\n";

fn links(cables: &[(u16, u16, u16, u16)]) -> String {
    let link = |&(a, p, b, q): &_| format!("[[link]]\nends = [[{a}, {p}], [{b}, {q}]]\n");
    cables.iter().map(link).collect()
}

fn card(node: u16) -> Arc<dyn Device> {
    let network = SimNetwork::builder().nodes(2).build().unwrap();
    network.device(node.into()).unwrap()
}

#[test]
fn a_torus_is_routed_dimension_by_dimension() {
    let network = Network::parse("torus = [3, 3, 1]").unwrap();
    let port = |from, to| network.routes.port(&network.graph, from, to);
    assert_eq!(
        [port(0, 1), port(0, 2), port(0, 3), port(0, 4), port(0, 0)],
        [Some(0), Some(1), Some(2), Some(0), None]
    );
    assert!(network.notes.is_empty(), "{:?}", network.notes);
    let ring = Network::parse("torus = [8, 1, 1]").unwrap();
    assert!(ring.notes[0].contains("node 0 lp0, node 1 lp0, node 2 lp0"), "{:?}", ring.notes);
}

#[test]
fn cables_are_routed_by_the_shortest_way() {
    let network = Network::parse(&links(&[(0, 0, 1, 1), (1, 0, 2, 1), (2, 6, 7, 3)])).unwrap();
    let port = |from, to| network.routes.port(&network.graph, from, to);
    assert_eq!([port(0, 7), port(1, 7), port(2, 7), port(7, 0)], [Some(0), Some(0), Some(6), Some(3)]);
}

#[test]
fn bad_files_are_refused_with_a_remedy() {
    let ring = links(&[(0, 0, 1, 1), (1, 0, 2, 1), (2, 0, 3, 1), (3, 0, 4, 1), (4, 0, 0, 1)]);
    Network::parse(&format!("circles = true\n{ring}")).unwrap();
    for (text, want) in [
        ("", "give `torus = [X, Y, Z]`"),
        ("torus = [2, 2]", "torus"),
        ("torus = [0, 1, 1]", "every side must be at least 1"),
        ("torus = [16, 16, 16]", "a torus of 4096 nodes"),
        ("torus = [2, 1, 1]\nspeed = 3", "unknown field `speed`"),
        ("torus = [2, 1, 1]\n[[link]]\nends = [[0, 0], [1, 0]]", "either `torus` or `[[link]]`"),
        ("torus = [2, 1, 1]\n[[node]]\nid = 2", "its ids are 0 to 1"),
        ("torus = [2, 1, 1]\n[[node]]\nid = 1\n[[node]]\nid = 1", "[[node]] 1 is there twice"),
        (
            "torus = [2, 1, 1]\n[[node]]\nid = 0\nguid = 7\n[[node]]\nid = 1\nguid = 7",
            "guid 0x7 is there twice",
        ),
        (
            "torus = [2, 1, 1]\n[[node]]\nid = 0\nhost = \"a\"\n[[node]]\nid = 1\nhost = \"a\"",
            "tell its cards apart",
        ),
        (
            "torus = [2, 1, 1]\n[entries]\nhost = 0\nlinks = [4]\ndiscard = 10",
            "the values of 2 to 7 link ports",
        ),
        ("torus = [2, 1, 1]\n[entries]\nhost = 0\nlinks = [4, 4]\ndiscard = 10", "has a value twice"),
        (&links(&[(0, 7, 1, 0)]), "node 0 has no link port 7"),
        (&links(&[(0, 0, 0, 1)]), "from node 0 to itself"),
        (&links(&[(0, 0, 1024, 1)]), "node id 1024"),
        (&links(&[(0, 0, 1, 0), (0, 0, 2, 0)]), "links 0 and 1 both take port 0 of node 0"),
        (&links(&[(0, 0, 1, 0), (2, 0, 3, 0)]), "node 0 is not reached from node 2"),
        (&ring, "in a circle (node 0 lp0"),
    ] {
        let why = Network::parse(text).unwrap_err();
        assert!(why.contains(want), "{text}: {why}");
    }
}

#[test]
fn a_card_finds_itself_by_guid_then_by_host() {
    let text = "torus = [3, 1, 1]\n[[node]]\nid = 0\nhost = \"a\"\n[[node]]\nid = 2\nguid = 0x1f\n";
    let network = Network::parse(text).unwrap();
    assert_eq!([network.find(0x1f, "a"), network.find(1, "a")], [Ok(2), Ok(0)]);
    assert!(network.find(1, "b").unwrap_err().contains("--node"));
}

#[test]
fn an_unconfigured_card_comes_up_and_stays_as_it_is() {
    let network = Network::parse(&format!("torus = [2, 1, 1]\n{ENTRIES}")).unwrap();
    let (device, wishes) = (card(1), apply::wishes(&network, 1));
    assert_eq!(wishes.len(), 1 + 11 * 1024);
    apply::set_state(&*device, EXTOLL_NETWORK_UNCONFIGURED).unwrap();
    assert!(verify(&*device, &network, 1).unwrap_err().to_string().contains("network state is 0, not 1"));
    // A route that leads nowhere.
    let route = EXTOLL_RF_XBAR_INPORT + EXTOLL_RF_XBAR_LOCAL;
    device.write_register(route, 10).unwrap();
    assert!(
        verify(&*device, &network, 1)
            .unwrap_err()
            .to_string()
            .contains("to node 0 is 0xa, the file says 0x4")
    );
    assert_eq!(apply::apply(&*device, &wishes).unwrap(), 2, "the route and the state");
    assert_eq!(device.read_register(route).unwrap(), 4);
    assert_eq!(device.read_register(EXTOLL_RF_INFO_NETWORK_STATE).unwrap(), EXTOLL_NETWORK_CONFIGURED);
    assert_eq!(apply::apply(&*device, &wishes).unwrap(), 0, "nothing to do");
    verify(&*device, &network, 1).unwrap();
}

#[test]
fn a_card_that_does_not_take_its_node_id_stays_unconfigured() {
    let network = Network::parse("torus = [2, 1, 1]").unwrap();
    let device = card(0);
    // The model's ids are places in its network.
    let why = apply::apply(&*device, &apply::wishes(&network, 1)).unwrap_err().to_string();
    assert!(why.contains("node id reads 0x0") && why.contains("stays 0"), "{why}");
    assert_eq!(apply::state(&*device).unwrap(), EXTOLL_NETWORK_UNCONFIGURED);
}

#[test]
fn cables_that_lead_elsewhere_are_named() {
    let network = Network::parse(&links(&[(0, 0, 1, 1), (0, 2, 2, 0)])).unwrap();
    let wrong = cables(&*card(0), &network, 0).unwrap();
    assert!(matches!(wrong.as_slice(), [one] if one.contains("lp2 to node 2 is not ready")), "{wrong:?}");
    let network = Network::parse(&links(&[(0, 0, 2, 1)])).unwrap();
    let wrong = cables(&*card(0), &network, 0).unwrap();
    assert!(
        matches!(wrong.as_slice(), [one] if one.contains("lp0 leads to node 1, in the file to node 2")),
        "{wrong:?}"
    );
}

#[test]
fn show_names_all_triggers() {
    let text = super::show::text(&*card(1)).unwrap();
    for want in [
        "node           1\n",
        "1 (configured)",
        "lp0          ready, to node 0",
        "25 RMA notification",
        "28 network state",
    ] {
        assert!(text.contains(want), "{want}: {text}");
    }
}
