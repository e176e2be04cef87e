//! What arrives is what was sent: lengths, slots, tags, senders, order, groups.

use extoll_abi::{VELO_MAX_BYTES, VeloError, regs};
use ggas_velo::{MessageMatch, ReceiveError, SendError, VeloConfig};

use super::*;

#[test]
fn every_length_arrives_in_both_slot_sizes_and_wraps() {
    for network in networks(2) {
        for slots in SLOTS {
            for segment_bytes in [4096, 8192] {
                let config =
                    VeloConfig { mailbox_bytes: 8192, segment_bytes, slots, ..VeloConfig::default() };
                let (a, b) = (open(&network, 0, config), open(&network, 1, config));
                let to_b = a.connect(b.address());
                for round in 0..3u64 {
                    for len in 0..=VELO_MAX_BYTES {
                        let bytes = pattern(len, round * 1000 + len as u64);
                        let (tag, mtt) = (len as u8 ^ round as u8, (len % 4) as u8);
                        to_b.send_typed(&bytes, tag, mtt).unwrap();
                        let message = b.wait(SOON).unwrap();
                        assert_eq!(message.bytes(), &bytes[..], "{len} bytes, {slots:?}");
                        assert_eq!((message.tag(), message.mtt()), (tag, mtt));
                        assert_eq!((message.source(), message.is_damaged()), (a.address(), false));
                    }
                }
                assert!(b.poll().is_none());
            }
        }
    }
}

#[test]
fn several_ports_do_not_mix() {
    for network in networks(2) {
        let ports: Vec<_> = (0..6).map(|i| open(&network, i % 2, small(SLOTS[usize::from(i) / 3]))).collect();
        for (i, from) in ports.iter().enumerate() {
            for (j, to) in ports.iter().enumerate() {
                from.connect(to.address()).send(&pattern(60, (10 * i + j) as u64), i as u8).unwrap();
            }
        }
        for (j, to) in ports.iter().enumerate() {
            // Backwards: each is matched behind those that are not wanted yet.
            for (i, from) in ports.iter().enumerate().rev() {
                let message = to.wait_match(&MessageMatch::any().from(from.address()), SOON).unwrap();
                assert_eq!(message.bytes(), &pattern(60, (10 * i + j) as u64)[..]);
                assert_eq!(message.tag(), i as u8);
            }
            assert!(to.poll().is_none());
            assert_eq!(to.unread(), 0);
        }
    }
}

#[test]
fn matches_leave_the_others_in_order() {
    for network in networks(1) {
        for slots in SLOTS {
            let port = open(&network, 0, small(slots));
            let to_self = port.connect(port.address());
            for lap in 0..20u8 {
                for tag in 0..5 {
                    to_self.send_typed(&pattern(100, tag.into()), tag, tag & 3).unwrap();
                }
                let tagged = |tag| port.wait_match(&MessageMatch::any().tag(tag), SOON).unwrap();
                assert_eq!(tagged(3).bytes(), &pattern(100, 3)[..], "lap {lap}");
                assert_eq!(tagged(1).tag(), 1);
                assert!(port.poll_match(&MessageMatch::any().tag(3)).is_none(), "taken once");
                assert_eq!(port.poll_match(&MessageMatch::any().mtt(2)).unwrap().tag(), 2);
                // The last one may be on its way.
                port.wait_match(&MessageMatch::any().tag(4), SOON).unwrap();
                assert_eq!(port.unread(), 1);
                to_self.send(&pattern(100, 4), 4).unwrap();
                assert_eq!([port.wait(SOON).unwrap().tag(), port.wait(SOON).unwrap().tag()], [0, 4]);
                assert!(port.poll().is_none());
            }
        }
    }
}

#[test]
fn refusals_say_what_to_do() {
    let (network, _simulation) = simulated();
    let port = open(&network, 0, VeloConfig::default());
    let to_self = port.connect(port.address());
    assert!(matches!(to_self.send(&[0; 121], 0), Err(SendError::Message(VeloError::Length(121)))));
    assert!(matches!(to_self.send_typed(&[], 0, 4), Err(SendError::Message(VeloError::Mtt(4)))));
    to_self.send(b"x", 1).unwrap();
    let wanted = MessageMatch::any().tag(2);
    match port.wait_match(&wanted, SOON) {
        Err(ReceiveError::Timeout { others: 1, wanted: found, .. }) => assert_eq!(found, wanted),
        other => panic!("{other:?}"),
    }
    port.close().unwrap();
    assert!(matches!(to_self.send(b"x", 1), Err(SendError::Closed)));
}

#[test]
fn two_waiters_with_patterns_share_a_mailbox() {
    const MESSAGES: u32 = 300;
    for network in networks(2) {
        let (a, b) = (open(&network, 0, VeloConfig::default()), open(&network, 1, VeloConfig::default()));
        let to = a.connect(b.address());
        std::thread::scope(|scope| {
            for tag in 0..2 {
                let port = &b;
                scope.spawn(move || {
                    let wanted = MessageMatch::any().tag(tag);
                    for i in 0..MESSAGES {
                        let begun = std::time::Instant::now();
                        assert_eq!(port.wait_match(&wanted, SOON).unwrap().bytes(), i.to_le_bytes());
                        assert!(begun.elapsed() < SOON, "it slept to the end, though {i} was there");
                    }
                });
            }
            for i in 0..MESSAGES {
                [1, 0].into_iter().for_each(|tag| to.send(&i.to_le_bytes(), tag).unwrap());
            }
        });
        assert!(b.poll().is_none());
    }
}

#[test]
fn messages_that_nobody_takes_are_counted() {
    for network in networks(2) {
        let (a, b) = (open(&network, 0, VeloConfig::default()), open(&network, 1, VeloConfig::default()));
        let drops = || card(&network, 1).read_register(regs::EXTOLL_RF_VELO_DROPS).unwrap();
        let settled = |expected: u64| {
            let deadline = std::time::Instant::now() + SOON;
            while drops() != expected {
                a.progress();
                assert!(std::time::Instant::now() < deadline, "{:#x}, not {expected:#x}", drops());
                std::thread::yield_now();
            }
        };
        a.connect(ggas_velo::Address::new(1, 200)).send(b"nobody", 0).unwrap();
        settled(1 << 32);
        b.set_protection(0, 7).unwrap();
        a.connect(b.address()).send(b"stranger", 0).unwrap();
        settled(1 << 32 | 1);
        a.set_protection(7, 0).unwrap();
        a.connect(b.address()).send(b"friend", 0).unwrap();
        assert_eq!(b.wait(SOON).unwrap().bytes(), b"friend");
        assert_eq!(b.dropped().unwrap(), 0);
    }
}

#[test]
fn a_group_gets_each_message_once_in_order() {
    for network in networks(4) {
        let ports: Vec<_> = (0..4).map(|node| open(&network, node, small(MailboxSlots::B64))).collect();
        let to_all = ports[1].multicast(63, ports[1].address().vpid);
        for i in 0..300u64 {
            to_all.send(&pattern(70, i), i as u8).unwrap();
            for port in [&ports[0], &ports[2], &ports[3]] {
                let message = port.wait(SOON).unwrap();
                assert_eq!((message.bytes(), message.source()), (&pattern(70, i)[..], ports[1].address()));
            }
        }
        assert!(ports[1].poll().is_none(), "the sender is not in it");
        ports[1].multicast(5, 0).send(b"empty group", 0).unwrap();
        assert!(ports.iter().all(|port| port.poll().is_none()));
    }
}
