//! A network of hosts, whose nodes are all in this process: packets between them go over the wire, as between hosts. Where no
//! library carries them they are skipped.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::places::Hosts;
use ggas::{Address, HostBuffer, Kind, Match, Network, Port, PortConfig, PostError, Spec, WaitError};

/// Only what is broken takes longer.
const SOON: Duration = Duration::from_secs(30);
/// So long nothing comes where nothing may come.
const NEVER: Duration = Duration::from_millis(300);

fn join(hosts: &Hosts, node: u16) -> Network {
    Network::builder().join_hosts(hosts.path(), node).unwrap()
}

fn open(network: &Network) -> Port {
    network.node().open_port(PortConfig::default()).unwrap()
}

/// Thrown away, foreign, malformed.
fn counts(network: &Network) -> (u64, u64, u64) {
    network.network().and_then(|network| network.hosts()).unwrap().counts()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8).collect()
}

#[test]
fn puts_and_gets_are_as_on_one_host() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (near, far) = (join(&hosts, 0), join(&hosts, 1));
    assert_eq!((near.nodes(), near.node_id(), far.node_id()), (2, 0, 1));
    let (here, there) = (open(&near), open(&far));
    const LEN: usize = 3 << 20; // more packets than there are credits
    let source = here.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
    let target = there.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
    let back = here.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
    source.write(0, &bytes(LEN)).unwrap();
    let connection = here.connect(there.address());
    for len in [1, 8, 64, 65, 4096, 4097, LEN] {
        let to = target.nla(0).unwrap();
        connection.put(&source, 0, len, to, Spec::COMPLETER).unwrap();
        let arrived = there.wait_match(&Match::any().kind(Kind::Completer).puts(), SOON).unwrap();
        assert_eq!(arrived.remote(), here.address(), "{len} bytes");
        let mut came = vec![0; len];
        target.read(0, &mut came).unwrap();
        assert!(came == bytes(len), "{len} bytes");
    }
    let from = target.nla(0).unwrap();
    connection.get(&back, 0, LEN, from, Spec::COMPLETER).unwrap();
    here.wait_match(&Match::any().kind(Kind::Completer), SOON).unwrap();
    let mut came = vec![0; LEN];
    back.read(0, &mut came).unwrap();
    assert!(came == bytes(LEN));
    assert_eq!((counts(&near), counts(&far)), ((0, 0, 0), (0, 0, 0)));
}

/// Both send first: their calls cross.
#[test]
fn both_may_be_first() {
    let Some(hosts) = Hosts::new(2) else { return };
    let networks = [join(&hosts, 0), join(&hosts, 1)];
    let ports = [open(&networks[0]), open(&networks[1])];
    for number in 0..200 {
        for (port, other) in [(&ports[0], &ports[1]), (&ports[1], &ports[0])] {
            port.connect(other.address()).notification_put(3, number, Spec::COMPLETER).unwrap();
        }
        for port in &ports {
            assert_eq!(port.wait(SOON).unwrap().word0, number);
        }
    }
    assert_eq!((counts(&networks[0]), counts(&networks[1])), ((0, 0, 0), (0, 0, 0)));
}

#[test]
fn who_comes_again_is_met_again() {
    let Some(hosts) = Hosts::new(2) else { return };
    let near = join(&hosts, 0);
    let here = open(&near);
    for round in 0..3 {
        // Nobody is there, or no more: the packet is thrown away, and nothing waits for it, or it is refused.
        match here.connect(Address::new(1, 0)).notification_put(1, 99, Spec::REQUESTER) {
            Ok(()) => drop(here.wait(SOON).unwrap()),
            Err(error) => assert!(round > 0 && matches!(error, PostError::PeerLost(_)), "{error}"),
        }
        let far = join(&hosts, 1);
        let there = open(&far);
        let mut came = None;
        while came.is_none() {
            let posted = here.connect(there.address()).notification_put(1, round, Spec::COMPLETER);
            assert!(matches!(posted, Ok(()) | Err(PostError::PeerLost(_))));
            came = match there.wait(NEVER) {
                Ok(came) => Some(came.word0),
                Err(WaitError::Timeout { .. }) => None,
                Err(error) => panic!("{error}"),
            };
        }
        assert_eq!(came, Some(round));
    }
    assert!(counts(&near).0 > 0);
}

#[test]
fn who_has_another_secret_is_not_met() {
    let Some(hosts) = Hosts::new(2) else { return };
    let places = format!("{}\n{}\n", hosts.place(0), hosts.place(1));
    let others = Hosts::of(&places, "ffeeddccbbaa99887766554433221100");
    let (near, thief) = (join(&hosts, 0), join(&others, 1));
    let (here, there) = (open(&near), open(&thief));
    for (from, to) in [(&there, &here), (&here, &there)] {
        from.connect(to.address()).notification_put(1, 1, Spec::COMPLETER).unwrap();
        assert!(matches!(to.wait(NEVER), Err(WaitError::Timeout { .. })));
    }
}

#[test]
fn garbage_harms_nobody() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (near, far) = (join(&hosts, 0), join(&hosts, 1));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 64]] {
        let mut stream = TcpStream::connect(hosts.place(1)).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // it is closed, one way or the other
        // No more than the challenge that whoever calls gets.
        assert!(rest.len() < 64, "{rest:?}");
    }
    let silent = TcpStream::connect(hosts.place(1)).unwrap();
    let (here, there) = (open(&near), open(&far));
    here.connect(there.address()).notification_put(1, 5, Spec::COMPLETER).unwrap();
    assert_eq!(there.wait(SOON).unwrap().word0, 5);
    drop(silent);
}

#[test]
fn what_is_wrong_is_said() {
    let Some(hosts) = Hosts::new(2) else { return };
    let error = Network::builder().join_hosts(hosts.path(), 2).unwrap_err().to_string();
    assert!(error.contains("has no node 2: its nodes are 0 to 1"), "{error}");
    let _first = join(&hosts, 0);
    let error = Network::builder().join_hosts(hosts.path(), 0).unwrap_err().to_string();
    assert!(error.contains("cannot listen"), "{error}");
}
