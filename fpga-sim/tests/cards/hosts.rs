//! Cards of a network of hosts, all in this process: packets between them go over the wire, as between hosts. Where no
//! library carries them the tests are skipped.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::common::hosts::Hosts;
use crate::common::joined::{join, tell};
use crate::common::members::drive;
use crate::common::*;
use extoll_abi::{Access, Address, Spec};
use extoll_sim::hosts::{HostsFabric, HostsFile};

#[test]
fn puts_and_gets_are_as_on_one_host() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((near, first), (far, second)) = (join(&hosts, 0), join(&hosts, 1));
    const LEN: usize = 2 << 20; // more packets than there are credits
    let source = Pages::new(&first.memory, LEN, 4096);
    let back = Pages::new(&first.memory, LEN, 4096);
    let target = Pages::new(&second.memory, LEN, 4096);
    source.fill_pattern(7);
    let cards = [first, second];
    let (mut here, mut there) = (cards[0].open(3, 1), cards[1].open(5, 1));
    let read = cards[0].register(3, &source, Access::ALL);
    let returned = cards[0].register(3, &back, Access::ALL);
    let write = cards[1].register(5, &target, Access::ALL);
    for len in [1, 8, 9, 64, 65, 4096, 4097, 32_767, 32_768, 32_769, 100_001, LEN] {
        here.put(there.address(), Spec::COMPLETER, read, write, len as u32);
        let mut came = None;
        drive(&cards, "a put", || {
            came = came.or_else(|| there.try_next());
            came.is_some()
        });
        assert_eq!(came.unwrap().remote(), here.address(), "{len} bytes");
        assert!(target.bytes(0, len) == source.bytes(0, len), "{len} bytes");
    }
    here.get(there.address(), Spec::COMPLETER, write, returned, LEN as u32);
    drive(&cards, "a get", || here.try_next().is_some());
    assert!(back.bytes(0, LEN) == source.bytes(0, LEN));
    assert_eq!((near.counts(), far.counts()), ((0, 0, 0), (0, 0, 0)));
}

/// Long payloads are read by the receiver: notifications stay behind their data, and what is posted later behind both.
#[test]
fn long_and_short_puts_keep_their_order() {
    const LEN: usize = 64 << 10;
    const PUTS: usize = 12;
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, first), (_far, second)) = (join(&hosts, 0), join(&hosts, 1));
    let source = Pages::new(&first.memory, PUTS * LEN, 4096);
    let target = Pages::new(&second.memory, 2 * LEN, 4096);
    source.fill_pattern(11);
    let cards = [first, second];
    let (here, mut there) = (cards[0].open(3, 1), cards[1].open(5, 1));
    let read = cards[0].register(3, &source, Access::ALL);
    let write = cards[1].register(5, &target, Access::ALL);
    for put in 0..PUTS {
        // By turns to two places; a short one into what came before.
        let (from, to) = (read + (put * LEN) as u64, write + (put % 2 * LEN) as u64);
        here.put(there.address(), Spec::COMPLETER, from, to, LEN as u32);
        here.put(there.address(), Spec::COMPLETER, from + 8, to, 8);
        tell(&here, there.address(), put as u64);
    }
    let mut came = Vec::new();
    drive(&cards, "all of them", || {
        came.extend(there.try_next());
        came.len() == 3 * PUTS
    });
    let words: Vec<_> = came.iter().skip(2).step_by(3).map(|came| came.word0).collect();
    assert_eq!(words, (0..PUTS as u64).collect::<Vec<_>>(), "{came:?}");
    for place in 0..2 {
        let last = (PUTS - 2 + place) * LEN;
        let expected = [source.bytes(last + 8, 8), source.bytes(last + 8, LEN - 8)].concat();
        assert!(target.bytes(place * LEN, LEN) == expected, "place {place}");
    }
    assert_eq!(cards.each_ref().map(Node::all_errors), [vec![], vec![]]);
}

/// Payloads that do not fit a message are written to a landing of the receiver, once it has given one: more of them than it has slots,
/// and some that are just too long, or lie in two pieces. Their sources are the sender's again.
#[test]
fn puts_into_a_landing_are_as_others() {
    const LENS: [usize; 7] = [8_112, 8_113, 12_289, 20_000, 65_535, 65_536, 65_537];
    const PUTS: usize = 70;
    const PLACE: usize = 68 << 10;
    let Some(hosts) = Hosts::new(2) else { return };
    let ((near, first), (far, second)) = (join(&hosts, 0), join(&hosts, 1));
    let source = Pages::new(&first.memory, PUTS * PLACE, 4096);
    let target = Pages::new(&second.memory, PUTS * PLACE, 4096);
    source.fill_pattern(13);
    let cards = [first, second];
    let (mut here, mut there) = (cards[0].open(3, 1), cards[1].open(5, 1));
    let read = cards[0].register(3, &source, Access::ALL);
    let write = cards[1].register(5, &target, Access::ALL);
    let len = |put: usize| LENS[put % LENS.len()];
    for round in 0..3_usize {
        let (mut posted, mut over, mut came) = (0, 0, 0);
        drive(&cards, "all of them", || {
            if posted < PUTS && cards[0].nic.requester_idle(3) {
                let (from, to) = ((posted * PLACE) as u64, ((PUTS - 1 - posted) * PLACE) as u64);
                let both = Spec::COMPLETER | Spec::REQUESTER;
                here.put(there.address(), both, read + from + round as u64, write + to, len(posted) as u32);
                posted += 1;
            }
            over += usize::from(here.try_next().is_some());
            came += usize::from(there.try_next().is_some());
            over == PUTS && came == PUTS
        });
        for put in 0..PUTS {
            let (from, to) = (put * PLACE + round, (PUTS - 1 - put) * PLACE);
            assert!(target.bytes(to, len(put)) == source.bytes(from, len(put)), "round {round}, put {put}");
        }
    }
    assert_eq!(cards.each_ref().map(Node::all_errors), [vec![], vec![]]);
    assert_eq!((near.counts(), far.counts()), ((0, 0, 0), (0, 0, 0)));
    cards[0].unregister(read, &source);
}

/// A put to memory that is not there reads nothing, and its source is the sender's again.
#[test]
fn a_refused_long_put_lets_its_source_go() {
    const LEN: usize = 1 << 20;
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, first), (_far, second)) = (join(&hosts, 0), join(&hosts, 1));
    let source = Pages::new(&first.memory, LEN, 4096);
    let cards = [first, second];
    let (mut here, there) = (cards[0].open(3, 1), cards[1].open(5, 1));
    let read = cards[0].register(3, &source, Access::ALL);
    here.put(there.address(), Spec::REQUESTER, read, 0x7000_0000, LEN as u32);
    drive(&cards, "the requester's notification", || here.try_next().is_some());
    assert_eq!(cards[1].all_errors().len(), 1, "{:?}", cards[1].all_errors());
    cards[0].unregister(read, &source);
}

/// Both send first: their calls cross.
#[test]
fn both_may_be_first() {
    for _ in 0..5 {
        let Some(hosts) = Hosts::new(2) else { return };
        let ((near, first), (far, second)) = (join(&hosts, 0), join(&hosts, 1));
        let cards = [first, second];
        let mut ports = [cards[0].open(0, 1), cards[1].open(0, 1)];
        let addresses = [ports[0].address(), ports[1].address()];
        for number in 0..100 {
            tell(&ports[0], addresses[1], number);
            tell(&ports[1], addresses[0], number);
            let mut came = [None; 2];
            drive(&cards, "both", || {
                for (came, port) in came.iter_mut().zip(&mut ports) {
                    *came = came.or_else(|| port.try_next().map(|came| came.word0));
                }
                came.iter().all(Option::is_some)
            });
            assert_eq!(came, [Some(number); 2]);
        }
        assert_eq!((near.counts(), far.counts()), ((0, 0, 0), (0, 0, 0)));
    }
}

#[test]
fn who_comes_again_is_met_again() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (near, card) = join(&hosts, 0);
    let here = card.open(0, 1);
    for round in 0..3 {
        // Nobody is there: packets are thrown away, and nothing waits for them.
        let before = near.counts().0;
        tell(&here, Address::new(1, 0), 99);
        drive(std::slice::from_ref(&card), "nobody", || near.counts().0 > before);
        let (_far, other) = join(&hosts, 1);
        let mut there = other.open(0, 1);
        let mut came = None;
        drive(std::slice::from_ref(&card), "the other", || {
            if card.nic.requester_idle(0) {
                tell(&here, there.address(), round);
            }
            other.nic.progress();
            came = there.try_next().map(|came| came.word0);
            came.is_some()
        });
        assert_eq!(came, Some(round));
    }
}

#[test]
fn who_has_another_secret_is_not_met() {
    let Some(hosts) = Hosts::new(2) else { return };
    let places = format!("{}\n{}\n", hosts.place(0), hosts.place(1));
    let others = Hosts::of(&places, "ffeeddccbbaa99887766554433221100");
    let ((near, first), (thief, second)) = (join(&hosts, 0), join(&others, 1));
    let cards = [first, second];
    let mut ports = [cards[0].open(0, 1), cards[1].open(0, 1)];
    tell(&ports[0], ports[1].address(), 1);
    tell(&ports[1], ports[0].address(), 1);
    drive(&cards, "that nobody is met", || near.counts().0 > 0 && thief.counts().0 > 0);
    assert!(ports[0].try_next().is_none() && ports[1].try_next().is_none());
}

#[test]
fn garbage_harms_nobody() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((_near, first), (_far, second)) = (join(&hosts, 0), join(&hosts, 1));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[0; 64]] {
        let mut stream = TcpStream::connect(hosts.place(1)).unwrap();
        // It may be closed before all is written.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(Shutdown::Write);
        // All that it hears is what everybody is told who calls.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 64, "{rest:?}");
    }
    let _silent = TcpStream::connect(hosts.place(1)).unwrap();
    let cards = [first, second];
    let (here, mut there) = (cards[0].open(0, 1), cards[1].open(0, 1));
    tell(&here, there.address(), 5);
    let mut came = None;
    drive(&cards, "a packet", || {
        came = came.or_else(|| there.try_next());
        came.is_some()
    });
    assert_eq!(came.unwrap().word0, 5);
}

#[test]
fn what_is_wrong_is_said() {
    let Some(hosts) = Hosts::new(2) else { return };
    let file = HostsFile::read(hosts.path()).unwrap();
    let error = HostsFabric::join(&file, 2).err().unwrap().to_string();
    assert!(error.contains("has no node 2: its nodes are 0 to 1"), "{error}");
    let _first = join(&hosts, 0);
    let error = HostsFabric::join(&file, 0).err().unwrap().to_string();
    assert!(error.contains("cannot listen"), "{error}");
}
