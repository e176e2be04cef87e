//! Words that nobody should post, and addresses of somebody else: answered by the card, never a crash, never a
//! wrong byte elsewhere.

use crate::common::{Pair, SOON, builder, bytes, paths, pattern, region};
use ggas_rma::{Address, Kind, Match, Modifier, PageOption, PortConfig, Request, Spec};

#[test]
fn any_three_words_are_survived() {
    for config in paths() {
        let network = builder().build().unwrap();
        let pair = Pair::new(&network, config);
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for i in 0..20_000u64 {
            let mut words = [next(), next(), next()];
            if i % 2 == 0 {
                // Near misses: a valid frame around random fields, to nodes that exist.
                words[0] = words[0] & !0xffff_ff03 | 3 | (i & 1) << 16;
            }
            let option = if config.path == Some(ggas_rma::Path::Slots) { 16 } else { next() as u8 % 32 };
            pair.origin.post_raw(PageOption::new(option).unwrap(), words).unwrap();
            while pair.origin.poll().is_some() || pair.target.poll().is_some() {}
        }
        // The nodes still work.
        let second = Pair::new(&network, config);
        let (from, to) = (region(&second.origin, 4096, 1), region(&second.target, 4096, 2));
        let connection = second.origin.connect(second.target.address());
        connection.put(&from, 0, 4096, to.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        second.target.wait_match(&Match::any().puts().from(second.origin.address()), SOON).unwrap();
        assert_eq!(bytes(&to, 0, 4096), pattern(4096, 1));
    }
}

#[test]
fn illegal_commands_are_notified_with_an_error() {
    for config in paths() {
        let network = builder().build().unwrap();
        let pair = Pair::new(&network, config);
        let Address { node, vpid } = pair.target.address();
        for command in [4u64, 7, 8, 9, 14, 15] {
            let word0 = 3 | command << 2 | u64::from(vpid) << 8 | u64::from(node) << 16 | 1 << 32;
            pair.origin.post_raw(PageOption::TE, [word0, 0, 0]).unwrap();
            let noti = pair.origin.wait(SOON).unwrap();
            assert!(!noti.error().is_empty(), "command {command}: {noti:?}");
        }
    }
}

#[test]
fn a_source_that_is_not_ours_is_an_error_here_and_no_write_there() {
    for config in paths() {
        let network = builder().build().unwrap();
        let (pair, other) = (Pair::new(&network, config), Pair::new(&network, config));
        let foreign = region(&other.origin, 4096, 7);
        let there = region(&pair.target, 4096, 2);
        let connection = pair.origin.connect(pair.target.address());
        let (read, write) = (foreign.nla(0).unwrap(), there.nla(0).unwrap());
        let request = Request::Put { qw: false, read, write, size: 64 };
        connection.post(&request, Spec::REQUESTER, Modifier::NONE).unwrap();
        let noti = pair.origin.wait(SOON).unwrap();
        assert!(noti.kind() == Some(Kind::Requester) && !noti.error().is_empty(), "{noti:?}");
        assert_eq!(bytes(&there, 0, 4096), pattern(4096, 2));
    }
}

#[test]
fn a_destination_that_is_not_theirs_is_an_error_there() {
    for config in paths() {
        let network = builder().build().unwrap();
        let (pair, other) = (Pair::new(&network, config), Pair::new(&network, config));
        let from = region(&pair.origin, 4096, 1);
        let foreign = region(&other.target, 4096, 7);
        let connection = pair.origin.connect(pair.target.address());
        for remote in [foreign.nla(0).unwrap(), 0x3f_ffff_f000, 1 << 39] {
            connection.put(&from, 0, 64, remote, Spec::COMPLETER).unwrap();
            let noti = pair.target.wait(SOON).unwrap();
            assert!(noti.kind() == Some(Kind::Completer) && !noti.error().is_empty(), "{noti:?}");
        }
        assert_eq!(bytes(&foreign, 0, 4096), pattern(4096, 7));
        // A get of it fails at its origin.
        connection.get(&from, 0, 64, foreign.nla(0).unwrap(), Spec::COMPLETER).unwrap();
        assert!(!pair.origin.wait(SOON).unwrap().error().is_empty());
        assert_eq!(bytes(&from, 0, 4096), pattern(4096, 1));
    }
}

#[test]
fn rights_of_a_region_are_kept() {
    let network = builder().build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    let from = region(&pair.origin, 4096, 1);
    let buffer = ggas_rma::HostBuffer::zeroed(4096).unwrap();
    let read_only = pair.target.register_with(buffer, ggas_rma::Access::READ).unwrap();
    let connection = pair.origin.connect(pair.target.address());
    connection.put(&from, 0, 64, read_only.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    assert!(!pair.target.wait(SOON).unwrap().error().is_empty());
    assert_eq!(bytes(&read_only, 0, 64), [0; 64]);
    connection.get(&from, 0, 64, read_only.nla(0).unwrap(), Spec::COMPLETER).unwrap();
    assert!(pair.origin.wait(SOON).unwrap().error().is_empty());
}

#[test]
fn ports_that_nobody_opened_change_nothing() {
    let network = builder().build().unwrap();
    let pair = Pair::new(&network, PortConfig::default());
    let (from, to) = (region(&pair.origin, 4096, 1), region(&pair.target, 4096, 2));
    for remote in [Address::new(1, 200), Address::new(999, 0)] {
        let connection = pair.origin.connect(remote);
        connection.put(&from, 0, 64, to.nla(0).unwrap(), Spec::REQUESTER).unwrap();
        pair.origin.wait(SOON).unwrap();
    }
    // What follows on the same path arrives: the puts before it did nothing.
    let connection = pair.origin.connect(pair.target.address());
    connection.notification_put(1, 0, Spec::COMPLETER).unwrap();
    assert_eq!(pair.target.wait(SOON).unwrap().class(), 1);
    assert_eq!(bytes(&to, 0, 4096), pattern(4096, 2));
}
