//! Full mailboxes hold back their senders, and nothing is lost; ports come and go.

use std::time::Duration;

use ggas_velo::{ReceiveError, SendError, VeloConfig, VeloPortError};

use super::*;

#[test]
fn a_full_mailbox_holds_back_its_sender() {
    for network in networks(2) {
        for slots in SLOTS {
            let (a, b) = (open(&network, 0, small(slots)), open(&network, 1, small(slots)));
            let to_b = a.connect(b.address());
            let (mut sent, mut refused) = (0u64, 0);
            // Until nothing moves any more: mailbox, card, network and requester are full.
            while refused < 100 {
                match to_b.try_send(&pattern(120, sent), sent as u8) {
                    Ok(()) => (sent, refused) = (sent + 1, 0),
                    Err(SendError::WouldBlock) => {
                        refused += 1;
                        a.progress();
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let mailbox = 4096 / slots.bytes() as u64 / if slots == MailboxSlots::B64 { 3 } else { 1 };
            assert!(sent > mailbox, "{sent} sent, the mailbox holds {mailbox}");
            for i in 0..sent {
                let message = b.wait(SOON).unwrap();
                assert_eq!((message.tag(), message.bytes()), (i as u8, &pattern(120, i)[..]), "message {i}");
            }
            assert!(b.poll().is_none());
            to_b.send(b"go on", 1).unwrap();
            assert_eq!(b.wait(SOON).unwrap().bytes(), b"go on");
            assert_eq!((a.outstanding(), b.dropped().unwrap()), (0, 0));
        }
    }
}

#[test]
fn senders_wait_for_slow_receivers() {
    const EACH: u64 = 1500;
    for network in networks(2) {
        let b = open(&network, 1, small(MailboxSlots::B64));
        let senders: Vec<_> = (0..2).map(|node| open(&network, node, VeloConfig::default())).collect();
        std::thread::scope(|scope| {
            for sender in &senders {
                let to_b = sender.connect(b.address());
                scope.spawn(move || {
                    for i in 0..EACH {
                        to_b.send(&pattern((i % 121) as usize, i), i as u8).unwrap();
                    }
                });
            }
            let mut next = [0u64; 2];
            for _ in 0..2 * EACH {
                let message = b.wait(SOON).unwrap();
                let from = senders.iter().position(|s| s.address() == message.source()).unwrap();
                let i = next[from];
                assert_eq!((message.tag(), message.bytes()), (i as u8, &pattern((i % 121) as usize, i)[..]));
                next[from] += 1;
            }
        });
        assert!(b.poll().is_none());
    }
}

#[test]
fn what_waits_is_reported_when_a_port_closes() {
    let (network, simulation) = simulated();
    let network = &network;
    let bound = Duration::from_secs(20);
    let config = VeloConfig { send_timeout: bound, ..small(MailboxSlots::B128) };
    let (a, b) = (open(network, 0, config), open(network, 1, config));
    let to_b = a.connect(b.address());
    let (refused, waited) = loop {
        let begun = simulation.elapsed();
        if let Err(error) = to_b.send(&[1; 120], 0) {
            break (error, simulation.elapsed() - begun);
        }
    };
    assert!(matches!(refused, SendError::Timeout { .. }), "{refused}");
    assert!((bound..bound + Duration::from_secs(1)).contains(&waited), "{waited:?}");
    // What the requester holds is given up after a bound; the model's commands are committed by then.
    assert!(matches!(a.close(), Ok(()) | Err(VeloPortError::Undrained { .. })));
    assert_eq!(b.wait(SOON).unwrap().len(), 120);
    drop(b);
    let (a, b) = (open(network, 0, config), open(network, 1, config));
    a.connect(b.address()).send(b"new", 3).unwrap();
    assert_eq!(b.wait(SOON).unwrap().bytes(), b"new", "old messages do not reach a new mailbox");
}

#[test]
fn a_wait_ends_when_its_port_is_shut() {
    for network in networks(1) {
        let port = open(&network, 0, small(MailboxSlots::B64));
        let handle = port.handle();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| port.wait(SOON));
            while !waiting.is_finished() && port.outstanding() == 0 {
                std::thread::sleep(Duration::from_millis(20));
                handle.shut().unwrap();
            }
            assert!(matches!(waiting.join().unwrap(), Err(ReceiveError::Closed)));
        });
    }
}

#[test]
fn ports_open_and_close_without_growth() {
    for network in networks(1) {
        let first = open(&network, 0, small(MailboxSlots::B64)).address();
        // More often than there are VPIDs: they come back. Between processes they rest before, where there are others.
        let rests = !network.process_fabrics().is_empty();
        for i in 0..300u32 {
            let port = open(&network, 0, small(SLOTS[i as usize % 2]));
            assert!(rests || port.address() == first, "the VPID came back");
            port.connect(port.address()).send(&i.to_le_bytes(), 0).unwrap();
            assert_eq!(port.wait(SOON).unwrap().bytes(), i.to_le_bytes());
            port.close().unwrap();
        }
    }
}
