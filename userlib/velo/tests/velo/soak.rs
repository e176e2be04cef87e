//! Ports on several nodes send to each other from threads; a list of every message says what must arrive.

use std::sync::Mutex;

use ggas_velo::{Address, SendError};

use super::*;

/// What one port sent to another, in order.
type Sent = Vec<(u8, u8, Vec<u8>)>;

struct Pair {
    sent: Mutex<Sent>,
}

#[test]
fn every_message_of_a_soak_is_accounted_for() {
    const PORTS: usize = 4;
    let messages: usize =
        std::env::var("GGAS_SOAK_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(1200);
    for (seed, network) in networks(3).iter().enumerate() {
        let ports: Vec<_> = (0..PORTS).map(|i| open(network, (i % 3) as u16, small(SLOTS[i % 2]))).collect();
        let addresses: Vec<Address> = ports.iter().map(|port| port.address()).collect();
        let model: Vec<Pair> = (0..PORTS * PORTS).map(|_| Pair { sent: Mutex::default() }).collect();
        std::thread::scope(|scope| {
            for (me, port) in ports.iter().enumerate() {
                let (addresses, model) = (&addresses, &model);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed((seed * 100 + me) as u64);
                    let (mut left, mut received) = (messages, 0);
                    let mut seen = [0usize; PORTS];
                    let deadline = std::time::Instant::now() + SOON;
                    let expected = PORTS * messages / PORTS;
                    while left > 0 || received < expected {
                        if left > 0 {
                            // Everybody gets as many from everybody.
                            let to = left % PORTS;
                            let bytes: Vec<u8> = (0..rng.usize(..=120)).map(|_| rng.u8(..)).collect();
                            let (tag, mtt) = (rng.u8(..), rng.u8(..4));
                            // First into the list: the receiver may be quicker.
                            model[me * PORTS + to].sent.lock().unwrap().push((tag, mtt, bytes.clone()));
                            match port.connect(addresses[to]).try_send_typed(&bytes, tag, mtt) {
                                Ok(()) => left -= 1,
                                Err(SendError::WouldBlock) => {
                                    model[me * PORTS + to].sent.lock().unwrap().pop();
                                    std::thread::yield_now();
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                        while let Some(message) = port.poll() {
                            let from = addresses.iter().position(|a| *a == message.source()).unwrap();
                            let list = model[from * PORTS + me].sent.lock().unwrap();
                            let found = (message.tag(), message.mtt(), message.bytes().to_vec());
                            assert_eq!(found, list[seen[from]], "message {} of {from} to {me}", seen[from]);
                            seen[from] += 1;
                            received += 1;
                        }
                        assert!(
                            std::time::Instant::now() < deadline,
                            "port {me}: {left} to send, {received} received"
                        );
                    }
                });
            }
        });
        for port in &ports {
            assert!(port.poll().is_none());
            assert_eq!(port.dropped().unwrap(), 0);
        }
    }
}
