//! What a process may read of another, and what becomes of reads whose other end is gone. Both ends are in this process. Where no
//! library is installed, or the crate was built without one, the tests are skipped.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::{PATIENCE, pattern};
use ggas_clock::Clock;
use ggas_wire::{Choice, Endpoint, Event, Key, Library, MESSAGE_MAX, Peer, Place, Region, Taken, Transfer};

const LEN: usize = 100_000;

/// Who grants, and who reads.
struct Two {
    giver: Endpoint,
    reader: Endpoint,
    peer: Peer,
    memory: &'static [AtomicU8],
    target: &'static [AtomicU8],
}

fn leak(byte: impl Fn(usize) -> u8) -> &'static [AtomicU8] {
    Vec::leak((0..LEN).map(|at| AtomicU8::new(byte(at))).collect())
}

fn bytes(memory: &[AtomicU8]) -> Vec<u8> {
    memory.iter().map(|byte| byte.load(Relaxed)).collect()
}

impl Two {
    /// They have a connection.
    fn new(choice: &Choice) -> Two {
        let [giver, mut reader] = [(); 2].map(|()| Endpoint::open(choice).unwrap());
        let peer = reader.insert(&giver.address().unwrap()).unwrap();
        let mut two = Two { giver, reader, peer, memory: leak(pattern), target: leak(|_| 0) };
        let (mut sent, mut came) = (false, false);
        two.until("a message", |two| {
            sent = sent || two.reader.send(two.peer, &[1; 100]).unwrap() == Taken::Yes;
            two.reader.poll(|_| {}).unwrap();
            two.giver.poll(|event| came |= matches!(event, Event::Message(_))).unwrap();
            came
        });
        two
    }

    fn until(&mut self, what: &str, mut over: impl FnMut(&mut Two) -> bool) {
        let end = Clock::REAL.deadline(PATIENCE);
        while !over(self) {
            assert!(Clock::REAL.now() < end, "waited for {what}");
            Clock::REAL.yield_now();
        }
    }

    fn grant(&mut self, at: usize, len: usize) -> (Region, Key) {
        // SAFETY: it stays for ever, and nobody has a reference but to atomics.
        let region =
            unsafe { self.giver.grant(self.memory[at..].as_ptr().cast(), len, Place::Host) }.unwrap();
        (region, self.giver.key(region).unwrap().clone())
    }

    fn fetch(&mut self, key: &Key, offset: u64, len: usize) {
        let to = self.target.as_ptr().cast_mut().cast();
        self.until("room for a read", |two| {
            // SAFETY: it stays for ever, and nobody has a reference but to atomics.
            unsafe { two.reader.fetch(two.peer, key, offset, (to, len, Place::Host), 7) }.unwrap()
                == Taken::Yes
        });
    }

    /// Whether a read, or a write, succeeds.
    fn end(&mut self) -> bool {
        let mut end = None;
        self.until("the end of a transfer", |two| {
            two.reader
                .poll(|event| match event {
                    Event::Done { token: 7 } => end = Some(true),
                    Event::Failed { token: 7, .. } => end = Some(false),
                    _ => {}
                })
                .unwrap();
            two.giver.poll(|_| {}).unwrap();
            end.is_some()
        });
        end == Some(true)
    }
}

fn what_is_granted_is_read(choice: &Choice) {
    let mut two = Two::new(choice);
    let (region, key) = two.grant(100, 50_000);
    two.fetch(&key, 0, 50_000);
    assert!(two.end());
    assert!(bytes(&two.target[..50_000]) == bytes(&two.memory[100..50_100]));
    two.fetch(&key, 49_000, 1_000);
    assert!(two.end());
    assert!(bytes(&two.target[..1_000]) == bytes(&two.memory[49_100..50_100]));
    two.giver.unregister(region).unwrap();
}

fn nothing_else_is_read_or_written(choice: &Choice) {
    let forged = |key: &Key, at: usize, bytes: &[u8]| {
        let mut forged = key.bytes().to_vec();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        Key::try_from(&forged[..]).unwrap()
    };
    // A key says how long its region is: that is believed by who has it, and by nobody else.
    let mut two = Two::new(choice);
    let (_, key) = two.grant(0, 5_000);
    two.fetch(&forged(&key, 0, &(LEN as u64).to_le_bytes()), 4_999, 2);
    assert!(!two.end(), "a byte beyond what was granted");
    // Keys are not numbers in a row.
    let mut two = Two::new(choice);
    let (_, key) = two.grant(0, 5_000);
    let last = key.bytes().len() - 8;
    let next = u64::from_le_bytes(key.bytes()[last..].try_into().unwrap()) + 1;
    two.fetch(&forged(&key, last, &next.to_le_bytes()), 0, 8);
    assert!(!two.end(), "memory by the next key");
    // What was taken back.
    let mut two = Two::new(choice);
    let (region, key) = two.grant(0, 5_000);
    two.giver.unregister(region).unwrap();
    two.fetch(&key, 0, 5_000);
    assert!(!two.end(), "memory that was taken back");
    // Who may read may not write.
    let mut two = Two::new(choice);
    let (_, key) = two.grant(0, 5_000);
    let remote = two.reader.import(two.peer, &key).unwrap();
    // SAFETY: it stays for ever, and nobody has a reference but to atomics.
    let local = unsafe { two.reader.register(two.target.as_ptr().cast_mut().cast(), LEN) }.unwrap();
    let transfer = Transfer { local, local_offset: 0, remote, remote_offset: 0, len: 100 };
    two.until("room for a write", |two| two.reader.write(&transfer, None, 7).unwrap() == Taken::Yes);
    // To write may be over before the other end refuses it.
    two.end();
    for _ in 0..1_000 {
        two.giver.poll(|_| {}).unwrap();
        let _ = two.reader.poll(|_| {});
    }
    assert!(bytes(&two.memory[..100]) == (0..100).map(pattern).collect::<Vec<_>>());
}

/// Memory that a read goes to is the reader's again once its endpoint is closed, whatever the other end does then.
fn closed_endpoints_write_nothing(choice: &Choice) {
    let mut two = Two::new(choice);
    let (_, key) = two.grant(0, LEN);
    two.fetch(&key, 0, LEN);
    // The giver stands still.
    for _ in 0..100 {
        two.reader.poll(|event| panic!("{event:?}")).unwrap();
    }
    let Two { mut giver, reader, target, .. } = two;
    drop(reader);
    for _ in 0..1_000 {
        giver.poll(|_| {}).unwrap();
    }
    assert!(bytes(target).iter().all(|byte| *byte == 0), "written behind its end");
}

/// Messages and writes with something in front of them, by turns: each comes once, whole, and behind the one before it. Where a
/// library does not keep this order, it says so.
fn writes_keep_their_place_among_messages(choice: &Choice) {
    const COUNT: usize = 2_000;
    const PLACE: usize = 25_000;
    let len = |number: usize| 1 + number * 7919 % (PLACE - 8);
    let message = |number: usize| vec![number as u8; 1 + number * 31 % MESSAGE_MAX];
    let mut two = Two::new(choice);
    // SAFETY: it stays for ever, and nobody has a reference but to atomics.
    let region = unsafe { two.giver.register(two.memory.as_ptr().cast_mut().cast(), LEN) }.unwrap();
    let key = two.giver.key(region).unwrap().clone();
    let (mut sent, mut came, mut over, mut taken_at_once) = (0, 0, 0, 0);
    let target = two.target;
    (0..LEN).for_each(|at| target[at].store(pattern(at), Relaxed));
    two.until("all of them", |two| {
        // A place is written again once what was there has been seen.
        if sent < COUNT && sent < came + LEN / PLACE {
            let head = (sent as u64).to_le_bytes();
            let taken = match sent % 3 {
                0 if sent % 2 == 0 => {
                    let message = message(sent);
                    match two.reader.room() {
                        Some(room) => {
                            room[..message.len()].copy_from_slice(&message);
                            two.reader.send_room(two.peer, message.len())
                        }
                        None => Ok(Taken::Later),
                    }
                }
                0 => two.reader.send(two.peer, &message(sent)),
                _ => {
                    let (at, from) = ((sent % (LEN / PLACE) * PLACE) as u64, target[sent..].as_ptr().cast());
                    let bytes = (&head[..], from, len(sent));
                    // SAFETY: it stays for ever, and nobody changes it.
                    unsafe { two.reader.write_behind(two.peer, &key, at, bytes, sent as u32, 7) }
                }
            };
            match taken {
                Ok(Taken::Yes) => sent += 1,
                Ok(Taken::Later) => {}
                Err(error) => {
                    assert!(!choice.offer.keeps_order && sent == 1, "{error}");
                    return true;
                }
            }
        }
        two.reader.poll(|event| over += usize::from(matches!(event, Event::Done { token: 7 }))).unwrap();
        let memory = two.memory;
        two.giver
            .poll(|event| {
                match event {
                    Event::Message(bytes) => assert!(bytes == message(came), "{came}"),
                    // Some are taken while the library has them, and come nowhere else.
                    Event::Led(led) => {
                        let (head, body) = led.parts();
                        assert_eq!(
                            (led.immediate() as usize, head),
                            (came, &(came as u64).to_le_bytes()[..])
                        );
                        assert!(body == bytes(&target[came..came + len(came)]), "{came}");
                        if came % 4 != 0 {
                            return;
                        }
                        led.take();
                        taken_at_once += 1;
                    }
                    Event::Written(number) => {
                        assert_eq!(number as usize, came);
                        let at = came % (LEN / PLACE) * PLACE;
                        assert!(bytes(&memory[at..at + 8]) == (came as u64).to_le_bytes(), "{came}");
                        let body = bytes(&memory[at + 8..at + 8 + len(came)]);
                        assert!(body == bytes(&target[came..came + len(came)]), "{came}");
                    }
                    other => panic!("{other:?}"),
                }
                came += 1;
            })
            .unwrap();
        came == COUNT
    });
    assert!(!choice.offer.keeps_order || over >= COUNT / 2, "{over}");
    let ucx = choice.library == Library::Ucx && choice.offer.keeps_order;
    assert_eq!(taken_at_once > 0, ucx, "what UCX has is offered");
    let beyond = (&[0_u8; 8][..], target.as_ptr().cast(), LEN);
    // SAFETY: as above.
    assert!(unsafe { two.reader.write_behind(two.peer, &key, 0, beyond, 0, 7) }.is_err());
}

/// Also where UCX may use all that it has: no message comes before somebody polls.
fn an_endpoint_sends_to_itself(choice: &Choice) {
    const COUNT: usize = 100;
    let mut all = choice.clone();
    if choice.library == Library::Ucx {
        "all".clone_into(&mut all.offer.provider);
    }
    for choice in [choice, &all] {
        let mut endpoint = Endpoint::open(choice).unwrap();
        let itself = endpoint.insert(&endpoint.address().unwrap()).unwrap();
        let message = |number: usize| vec![number as u8; 1 + number * 997 % MESSAGE_MAX];
        let (mut sent, mut came, end) = (0, 0, Clock::REAL.deadline(PATIENCE));
        while came < COUNT {
            assert!(Clock::REAL.now() < end, "{came} of {sent} came");
            // Several at once.
            while sent < COUNT && endpoint.send(itself, &message(sent)).unwrap() == Taken::Yes {
                sent += 1;
            }
            let take = |event: Event<'_>| match event {
                Event::Message(bytes) => {
                    assert!(bytes == message(came), "{came}");
                    came += 1;
                }
                other => panic!("{other:?}"),
            };
            endpoint.poll(take).unwrap();
            Clock::REAL.yield_now();
        }
    }
}

/// More of them, and longer ones, than who does not poll has buffers for.
fn messages_wait_for_who_does_not_poll(choice: &Choice) {
    const COUNT: usize = 3000;
    let mut two = Two::new(choice);
    let most = two.reader.message_max();
    let message = |number: usize| {
        vec![number as u8; if number.is_multiple_of(3) { most } else { 1 + number * 997 % 2000 }]
    };
    let (mut sent, mut refused, mut came) = (0, 0, 0);
    while sent < COUNT && refused < 1000 {
        match two.reader.send(two.peer, &message(sent)).unwrap() {
            Taken::Yes => (sent, refused) = (sent + 1, 0),
            Taken::Later => refused += 1,
        }
        two.reader.poll(|event| panic!("{event:?}")).unwrap();
    }
    two.until("all messages", |two| {
        while sent < COUNT && two.reader.send(two.peer, &message(sent)).unwrap() == Taken::Yes {
            sent += 1;
        }
        two.reader.poll(|event| panic!("{event:?}")).unwrap();
        let take = |event: Event<'_>| match event {
            Event::Message(bytes) => {
                assert!(bytes == message(came), "{came}");
                came += 1;
            }
            other => panic!("{other:?}"),
        };
        two.giver.poll(take).unwrap();
        came == COUNT
    });
}

/// What says that it is an address, and is none that this library reads safely.
fn addresses_of_other_kinds_are_refused(choice: &Choice) {
    let mut endpoint = Endpoint::open(choice).unwrap();
    let right = endpoint.address().unwrap();
    // The family of an address of the network is in front; of its bits one makes IPv4 IPv6, whose addresses are longer.
    for (at, bit) in (0..2).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut wrong = right.clone();
        wrong[at] ^= 1 << bit;
        assert!(endpoint.insert(&wrong).is_err(), "bit {bit} of byte {at}");
    }
    for wrong in [&right[..right.len() - 1], &[&right[..], &[0]].concat(), &[0; 16], &[0xff; 4096], &[1]] {
        assert!(endpoint.insert(wrong).is_err(), "{wrong:?}");
    }
    assert!(endpoint.insert(&right).is_ok());
}

of_each_library! {
    an_endpoint_sends_to_itself,
    messages_wait_for_who_does_not_poll,
    addresses_of_other_kinds_are_refused,
    writes_keep_their_place_among_messages,
    what_is_granted_is_read,
    nothing_else_is_read_or_written,
    closed_endpoints_write_nothing,
}
