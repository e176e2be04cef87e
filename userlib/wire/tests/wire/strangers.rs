//! Strangers who connect to libfabric's port, and say nothing or garbage.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use crate::common::{self, PATIENCE};
use ggas_clock::Clock;
use ggas_wire::{Endpoint, Event, Library, Peer, Taken};

/// More than stay.
const STRANGERS: usize = 300;
/// As `strangers.c` has it.
const MOST: usize = 128;

/// Where an endpoint listens, which is said as the system's addresses are.
fn port(endpoint: &Endpoint) -> u16 {
    let address = endpoint.address().unwrap();
    u16::from_be_bytes([address[2], address[3]])
}

fn is_shut_down(mut stranger: &TcpStream) -> bool {
    !matches!(stranger.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// A message from one to the other.
fn hello(from: &mut Endpoint, to: &mut Endpoint, peer: Peer) {
    let (end, mut sent, mut came) = (Clock::REAL.deadline(PATIENCE), false, false);
    while !came {
        sent = sent || from.send(peer, b"hello").unwrap() == Taken::Yes;
        from.poll(|_| {}).unwrap();
        to.poll(|event| came |= matches!(event, Event::Message(b"hello"))).unwrap();
        assert!(Clock::REAL.now() < end, "a peer is not heard");
        Clock::REAL.yield_now();
    }
}

/// The oldest make room for the next ones, and peers come as ever.
#[test]
fn few_connections_of_strangers_are_kept() {
    let Some(choice) = common::chosen(Library::Libfabric) else { return };
    let host = Some(Ipv4Addr::LOCALHOST.into());
    let (mut endpoint, mut other) =
        (Endpoint::open_at(&choice, host).unwrap(), Endpoint::open_at(&choice, host).unwrap());
    let peer = other.insert(&endpoint.address().unwrap()).unwrap();
    hello(&mut other, &mut endpoint, peer);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port(&endpoint)));
    let end = Clock::REAL.deadline(PATIENCE);
    let mut strangers = Vec::new();
    for number in 0..STRANGERS {
        let mut stranger = TcpStream::connect(at).unwrap();
        stranger.write_all([&b""[..], b"GET / HTTP/1.1\r\nHost: h1\r\n\r\n", b"!\0"][number % 3]).unwrap();
        stranger.set_nonblocking(true).unwrap();
        strangers.push(stranger);
        endpoint.poll(|_| {}).unwrap();
    }
    let shut_down = |strangers: &[TcpStream]| strangers.iter().filter(|s| is_shut_down(s)).count();
    while shut_down(&strangers) < STRANGERS - MOST {
        assert!(Clock::REAL.now() < end, "{} were shut down", shut_down(&strangers));
        endpoint.poll(|_| {}).unwrap();
        Clock::REAL.yield_now();
    }
    assert_eq!(shut_down(&strangers[STRANGERS - MOST..]), 0, "who came last stays");
    // Those that were shut down have no descriptor here any more.
    let there = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    while there() > STRANGERS + MOST + 60 {
        assert!(Clock::REAL.now() < end, "{} descriptors", there());
        endpoint.poll(|_| {}).unwrap();
        Clock::REAL.yield_now();
    }
    hello(&mut other, &mut endpoint, peer);
    let mut last = Endpoint::open_at(&choice, host).unwrap();
    let peer = last.insert(&endpoint.address().unwrap()).unwrap();
    hello(&mut last, &mut endpoint, peer);
    assert!(shut_down(&strangers[STRANGERS - MOST..]) <= 1, "a peer has a place until it speaks");
}
