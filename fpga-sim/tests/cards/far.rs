//! Payloads that lie on other hosts and are read into place: which of them begin before their turn.

use std::sync::{Arc, Mutex};

use extoll_abi::{Access, Spec};
use extoll_sim::memory::{FarSource, TicketState};

use super::common::far::FarAway;
use super::common::*;

const LEN: usize = 64 << 10;

/// What a card reads of the other host, in order: it is there when the test says so.
#[derive(Default)]
struct Reads(Mutex<Vec<Read>>);

struct Read {
    byte: u8,
    to: u64,
    len: usize,
    state: TicketState,
}

impl Reads {
    fn begun(&self) -> Vec<u8> {
        self.0.lock().unwrap().iter().map(|read| read.byte).collect()
    }

    fn end(&self, byte: u8) {
        let mut reads = self.0.lock().unwrap();
        let read = reads.iter_mut().find(|read| read.byte == byte).expect("a read that has begun");
        // SAFETY: the card keeps the place until it hears that this is over.
        unsafe { std::ptr::write_bytes(read.to as *mut u8, byte, read.len) };
        read.state = TicketState::Done;
    }
}

/// A payload of one byte, many times.
struct Same {
    byte: u8,
    reads: Arc<Reads>,
}

impl FarSource for Same {
    unsafe fn read(&self, _: usize, to: u64, len: usize, _: bool) -> u64 {
        let mut reads = self.reads.0.lock().unwrap();
        reads.push(Read { byte: self.byte, to, len, state: TicketState::Pending });
        reads.len() as u64 - 1
    }

    fn state(&self, read: u64) -> TicketState {
        self.reads.0.lock().unwrap()[read as usize].state
    }

    fn fetch(&self, _: usize) -> u64 {
        unreachable!("nothing goes to a device")
    }

    fn fetched(&self, _: u64) -> Option<Result<Vec<u8>, ()>> {
        None
    }
}

#[test]
fn payloads_for_a_place_of_their_own_are_read_before_their_turn() {
    let reads = Arc::<Reads>::default();
    let carried = reads.clone();
    let setup =
        Setup::over(FarAway::new(LEN, move |byte, _| Arc::new(Same { byte, reads: carried.clone() })));
    let (target, sender) = (setup.node(0), setup.node(1));
    let places = Pages::new(&target.memory, 4 * LEN, 4096);
    let sources = Pages::new(&sender.memory, 8 * 4096 + LEN, 4096);
    (1..8).for_each(|byte| sources.write(4096 * byte, &[byte as u8; 8]));
    let (mut port, from) = (target.open(1, 1), sender.open(1, 1));
    let (to, source) = (target.register(1, &places, Access::ALL), sender.register(1, &sources, Access::ALL));
    let put = |byte: u64, place: usize, len: usize| {
        let at = to + (place * LEN) as u64;
        from.put(port.address(), Spec::COMPLETER, source + 4096 * byte, at, len as u32);
    };
    for (byte, place, len) in
        [(1, 0, LEN), (2, 0, LEN), (3, 1, LEN), (4, 2, 8), (5, 3, LEN), (6, 2, LEN), (7, 0, LEN)]
    {
        put(byte, place, len);
    }
    assert!(port.drain().is_empty());
    assert_eq!(reads.begun(), [1, 3, 5], "no other is for the same place");
    reads.end(1);
    assert_eq!(port.drain().len(), 1);
    assert_eq!(reads.begun(), [1, 3, 5, 2], "its place is free");
    reads.end(3);
    reads.end(5);
    assert!(port.drain().is_empty(), "one before them is not there");
    assert_eq!(places.bytes(2 * LEN, 8), [0; 8], "nor may the short one be seen");
    reads.end(2);
    assert_eq!(port.drain().len(), 4);
    assert_eq!(reads.begun(), [1, 3, 5, 2, 7, 6]);
    assert_eq!(places.bytes(2 * LEN, 8), [4; 8]);
    reads.end(6);
    reads.end(7);
    assert_eq!(port.drain().len(), 2);
    for (place, byte) in [7, 3, 6, 5].into_iter().enumerate() {
        assert_eq!(places.bytes(place * LEN, LEN), [byte; LEN], "place {place}");
    }
}
