//! A guest's card and a program of the host in one network: each is reached by the other as on two nodes with cards.

use std::os::unix::fs::FileExt;

use crate::common::*;
use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::shared::ProcessFabric;
use ggas::device::Span;
use ggas::{HostBuffer, Network, PortConfig};
use ggas_members::{Member, NetworkShape};

/// A guest on node 0 of a network, and a program on node 1.
fn pair(name: &str) -> (Guest, Network) {
    let name = format!("{name}-{}", std::process::id());
    let join = |node| Member::join_network(&name, &NetworkShape::default(), node).unwrap();
    let fabric = ProcessFabric::join(join(0)).unwrap();
    assert!(fabric.nodes().take_node());
    let guest = Guest::at(fabric.clone(), Some(fabric.nodes().clone()), 0, vec![]);
    (guest, Network::builder().join_as(join(1)).unwrap())
}

#[test]
fn a_guest_and_a_program_of_the_host_put_to_each_other() {
    let (mut guest, host) = pair("guest-and-host");
    guest.open(3, 0x1_0000);
    let port = host.node().open_port(PortConfig::default()).unwrap();
    let bytes: Vec<u8> = (0..70_001u32).map(|i| (i * 7 + 3) as u8).collect();

    // From the guest's memory into the program's.
    let buffer = HostBuffer::zeroed(bytes.len()).unwrap();
    // SAFETY: the buffer outlives the value, and nobody looks at it as bytes.
    let exposed = unsafe { host.node().device().expose(Span::host(&buffer)) }.unwrap();
    guest.ram.write_all_at(&bytes, FILE_AT + 0x10_0000).unwrap();
    let request = put(BUS + 0x10_0000, buffer.address(), bytes.len() as u32);
    guest.post(PageOption::PHYSICAL, 3, port.address(), Spec::COMPLETER, &request);
    let arrived = port.wait(PATIENCE).unwrap();
    assert_eq!((arrived.remote(), arrived.error().is_empty()), (Address::new(0, 3), true));
    let mut there = vec![0; bytes.len()];
    buffer.read(0, &mut there);
    assert!(there == bytes, "the bytes differ");
    drop(exposed);

    // A message back, and a register of the guest's card.
    port.connect(Address::new(0, 3)).notification_put(9, 0x1234, Spec::COMPLETER).unwrap();
    let word1 = guest.wait(0x1_0008, "the notification");
    let notification = Notification { word0: guest.load(0x1_0000), word1 };
    assert_eq!((notification.remote(), notification.word0), (port.address(), 0x1234));
    guest.write(EXTOLL_RF_RMA_CONFIG, CONFIG_MTU.put(256));
    assert_eq!(
        host.node().device().read_register(EXTOLL_RF_RMA_CONFIG).unwrap(),
        CONFIG_MTU.put(512),
        "its own"
    );
}

#[test]
fn a_node_has_a_guest_or_programs() {
    let (guest, host) = pair("guest-or-programs");
    let name = host.name().expect("a network of the model").to_owned();
    let join = |node| Member::join_network(&name, &NetworkShape::default(), node).unwrap();
    // All of its VPIDs are the guest's, whether its driver has opened them or not.
    let beside = Network::builder().join_as(join(0)).unwrap();
    let refused = beside.node().open_port(PortConfig::default()).unwrap_err().to_string();
    assert!(refused.contains("node 0 is the card of a virtual machine"), "{refused}");
    assert!(refused.contains("GGAS_NODE") && refused.contains("--node"), "{refused}");
    // And where a program has a port no guest comes.
    let _port = host.node().open_port(PortConfig::default()).unwrap();
    assert!(!ProcessFabric::join(join(1)).unwrap().nodes().take_node());
    drop(guest);
}
