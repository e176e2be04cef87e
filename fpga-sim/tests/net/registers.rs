//! Registers of crossbar and links (spec 8.2).

use extoll_abi::regs::*;
use extoll_sim::fabric::Fabric;
use extoll_sim::faults::{Event, Faults};
use extoll_sim::packet::Class;
use extoll_sim::routing::{PORT_DISCARD, PORT_HOST, PORT_LINK0, Table};
use extoll_sim::torus::{Direction, Torus};
use extoll_sim::xbar::{link_count, outport_count, route_entry};

use crate::common::{Traffic, packet};

fn line() -> [Traffic; 2] {
    [Faults::none(), Faults::none().through_links()]
        .map(|faults| Traffic::new(Torus::new(4, 1, 1).unwrap(), faults))
}

#[test]
fn offsets_are_the_cards() {
    assert_eq!(route_entry(0, Table::Global, 0), 0x400400);
    assert_eq!(route_entry(10, Table::Local, 1023), 0x400000 + 0x4000 * 10 + 0x2000 + 8 * 1023);
    assert_eq!(outport_count(10), 0x42c280);
    assert_eq!((link_status(6), link_ids(6)), (0x460308, 0x460318));
}

#[test]
fn links_report_status_and_neighbours() {
    for traffic in line() {
        let read = |offset| traffic.network.reg_read(1, offset).expect("a register of the network");
        let up = read(link_status(0));
        assert!(LINK_ENABLE.is_set(up) && LINK_READY.is_set(up), "{up:#x}");
        assert_eq!(LINK_REMOTE_NODE.get(read(link_ids(0))), 2);
        assert_eq!(LINK_REMOTE_NODE.get(read(link_ids(1))), 0);
        for unwired in 2..7 {
            assert_eq!((read(link_status(unwired)), read(link_ids(unwired))), (0, 0), "lp{unwired}");
        }
        // Software disables the link; both ends see it; it enables it again.
        assert!(traffic.network.reg_write(1, link_status(0), 0));
        assert!(!LINK_READY.is_set(read(link_status(0))));
        assert!(!LINK_READY.is_set(traffic.network.reg_read(2, link_status(1)).unwrap()));
        assert!(traffic.network.reg_write(2, link_status(1), 1));
        assert!(LINK_READY.is_set(read(link_status(0))));
        // The neighbour dies: enabled, but not ready.
        traffic.network.happen(Event::Kill(2)).unwrap();
        let dead = read(link_status(0));
        assert!(LINK_ENABLE.is_set(dead) && !LINK_READY.is_set(dead), "{dead:#x}");
    }
}

#[test]
fn counters_and_tables_read_what_happens() {
    for mut traffic in line() {
        assert!(traffic.send(0, 1, Class::Request));
        traffic.network.send(0, packet(0, 77, Class::Request, 0)).unwrap();
        traffic.drain();
        let read = |offset| traffic.network.reg_read(0, offset).unwrap();
        assert_eq!(read(link_count(Direction::XPlus)), 1);
        assert_eq!(read(outport_count(PORT_DISCARD)), 1);
        let entry = |index| read(route_entry(0, Table::Local, index));
        let expected = [PORT_HOST, PORT_LINK0, PORT_LINK0, PORT_LINK0 + 1, PORT_DISCARD];
        assert_eq!([0, 1, 2, 3, 4].map(entry), expected.map(u64::from));
        // Software sends the packets for 1 the other way round; the others follow their own tables.
        for node in [0, 3, 2] {
            for inport in 0..11 {
                let backwards = u64::from(PORT_LINK0 + 1);
                assert!(traffic.network.reg_write(node, route_entry(inport, Table::Local, 1), backwards));
            }
        }
        assert_eq!(
            traffic.network.reg_read(3, route_entry(4, Table::Local, 1)),
            Some(u64::from(PORT_LINK0 + 1))
        );
        assert!(traffic.send(0, 1, Class::Request));
        traffic.drain();
        assert_eq!(traffic.network.link_counters(2, Direction::XMinus).sent, 1);
    }
}

#[test]
fn other_offsets_belong_to_other_units() {
    for traffic in line() {
        for offset in [0, 0x8008, 0xa000, 0x400401, 0x400600, 0x42c008, 0x460000, u64::MAX - 7] {
            assert_eq!(traffic.network.reg_read(0, offset), None, "{offset:#x}");
            assert!(!traffic.network.reg_write(0, offset, 1), "{offset:#x}");
        }
        for offset in (0x400000..0x461000).step_by(8) {
            traffic.network.reg_read(9999, offset);
        }
    }
}
