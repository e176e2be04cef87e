//! The same ([`pieces`](crate::pieces)) by the carrier's calls, in an order that kernels do not have.

use std::time::{Duration, Instant};

use ggas_gmpi::carrier::{Carrier, Operation, Token, Type};
use ggas_gmpi::layout::*;
use ggas_gmpi::{Class, Span, Status};

use crate::pieces::{PIECE, SETTING, both_ways, open, pattern};
use crate::start::{Here, by_mpi_with, part};
use crate::world::{BYTES, SOON};

/// Less than what the daemon's caller waits.
const LONG_ENOUGH: Duration = Duration::from_secs(45);

/// What a host test has the carrier do.
pub struct Calls<'a> {
    pub carrier: &'a mut dyn Carrier,
    pub memory: Span,
}

impl Calls<'_> {
    fn span(&self, offset: usize, len: usize) -> Span {
        Span { offset, len, ..self.memory.clone() }
    }

    pub fn send(&mut self, offset: usize, len: usize, to: u32, tag: i32) -> Token {
        let at = self.span(offset, len);
        let send = Operation::Send { at, of: Type(GMPI_BYTE), to, tag, comm: 0 };
        self.carrier.start(&send).expect("it begins")
    }

    pub fn receive(&mut self, offset: usize, len: usize, tag: i32) -> Token {
        let (at, of) = (self.span(offset, len), Type(GMPI_BYTE));
        let receive = Operation::Recv { at, of, from: None, tag: Some(tag), comm: 0 };
        self.carrier.start(&receive).expect("it begins")
    }

    /// Until it is over; looks at this one alone.
    pub fn end(&mut self, token: Token) -> Result<Status, Class> {
        let begun = Instant::now();
        loop {
            if let Some(ended) = self.carrier.test(token) {
                return ended;
            }
            assert!(begun.elapsed() < LONG_ENOUGH, "it ends");
            std::thread::yield_now();
        }
    }

    pub fn wait(&mut self, token: Token) -> Status {
        self.end(token).expect("no error")
    }

    pub fn wait_all<const N: usize>(&mut self, tokens: [Token; N]) {
        for token in tokens {
            self.wait(token);
        }
    }

    /// Goes on with what nobody waits for until another one is over.
    pub fn wait_with_all(&mut self, token: Token) -> Status {
        let begun = Instant::now();
        loop {
            self.carrier.progress();
            if let Some(ended) = self.carrier.test(token) {
                return ended.expect("no error");
            }
            assert!(begun.elapsed() < LONG_ENOUGH, "it ends");
            std::thread::yield_now();
        }
    }

    /// Waits for a message that is not received, and goes on with no other.
    pub fn wait_for(&mut self, tag: i32) -> Status {
        let begun = Instant::now();
        loop {
            if let Some(found) = self.carrier.probe(0, None, Some(tag)).expect("no error") {
                return found;
            }
            assert!(begun.elapsed() < LONG_ENOUGH, "it comes");
            std::thread::yield_now();
        }
    }

    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.memory.read(offset, &mut bytes).expect("in range");
        bytes
    }
}

/// Has the daemon's thread work with the carrier.
pub fn by_carrier(here: &Here, work: impl FnOnce(&mut Calls<'_>) + Send + 'static) {
    let memory = Span { index: 0, memory: here.memory.clone(), offset: 0, len: 0, shape: None };
    let done = here.gmpi.by_carrier("a test", SOON, move |carrier| {
        work(&mut Calls { carrier, memory });
        Ok(())
    });
    done.expect("the daemon does");
}

/// Rank 0 sends a message, of which only the first pieces go before rank 1 has given its receive up.
fn give_up_in_the_middle(calls: &mut Calls<'_>, rank: u32) {
    const LEN: usize = 40 * PIECE;
    let (place, small) = (BYTES / 2, BYTES - 8);
    if rank == 0 {
        let send = calls.send(0, LEN, 1, 1);
        let begun = calls.send(small, 1, 1, 2);
        // No more pieces go meanwhile.
        calls.wait_for(3);
        let given_up = calls.receive(small, 1, 3);
        calls.wait_all([given_up, begun, send]);
        let next = calls.send(0, LEN, 1, 1);
        calls.wait(next);
        return;
    }
    let receive = calls.receive(place, LEN, 1);
    let begun = calls.receive(small, 1, 2);
    calls.wait(begun);
    // The head came before that, and pieces come.
    for _ in 0..50 {
        assert!(calls.carrier.test(receive).is_none(), "not all of it was sent");
    }
    calls.carrier.forget(receive);
    let mark = vec![0x55; LEN];
    calls.memory.memory.write(place, &mark).expect("in range");
    let told = calls.send(small, 1, 0, 3);
    calls.wait_with_all(told);
    let next = calls.receive(place + LEN, LEN, 1);
    assert_eq!(calls.wait_with_all(next).bytes, LEN as u64);
    let mut is = vec![0; LEN];
    calls.memory.memory.read(place, &mut is).expect("in range");
    assert!(is == mark, "what was given up came late");
    calls.memory.memory.read(place + LEN, &mut is).expect("in range");
    assert!(is == pattern(0, LEN), "the next one");
}

#[test]
fn what_was_given_up_does_not_come_late() {
    let Some(part) = part() else {
        return both_ways("pieces_by_hosts::what_was_given_up_does_not_come_late");
    };
    let here = open(&part);
    let rank = here.gmpi.rank();
    for _ in 0..5 {
        here.memory.write(0, &pattern(0, 40 * PIECE)).expect("in range");
        by_carrier(&here, move |calls| give_up_in_the_middle(calls, rank));
    }
    here.gmpi.close().expect("all came");
}

#[test]
fn a_receive_that_was_given_up_gets_nothing_and_leaves_the_message_to_the_next() {
    const NAME: &str =
        "pieces_by_hosts::a_receive_that_was_given_up_gets_nothing_and_leaves_the_message_to_the_next";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let rank = here.gmpi.rank();
    here.memory.write(0, &pattern(0, 9 * PIECE)).expect("in range");
    by_carrier(&here, move |calls| {
        let (place, small) = (BYTES / 2, BYTES - 8);
        if rank == 0 {
            let begun = calls.receive(small, 1, 2);
            calls.wait(begun);
            let send = calls.send(0, 9 * PIECE, 1, 1);
            calls.wait(send);
            return;
        }
        let receive = calls.receive(place, 9 * PIECE, 1);
        assert!(calls.carrier.test(receive).is_none());
        calls.carrier.forget(receive);
        calls.carrier.progress();
        let begun = calls.send(small, 1, 0, 2);
        calls.wait_with_all(begun);
        let next = calls.receive(place + 9 * PIECE, 9 * PIECE, 1);
        assert_eq!(calls.wait_with_all(next).bytes, 9 * PIECE as u64);
        let mut is = vec![0; 18 * PIECE];
        calls.memory.memory.read(place, &mut is).expect("in range");
        assert!(is[..9 * PIECE].iter().all(|byte| *byte == 0) && is[9 * PIECE..] == pattern(0, 9 * PIECE));
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn pieces_that_nobody_asks_for_stay_with_their_sender() {
    const NAME: &str = "pieces_by_hosts::pieces_that_nobody_asks_for_stay_with_their_sender";
    const SHORT: usize = 256;
    if part().is_none() {
        // Libraries take such pieces from a sender though no receive is there.
        return ["plain", "staged"]
            .into_iter()
            .for_each(|part| by_mpi_with(NAME, part, &[(SETTING, &SHORT.to_string())]));
    }
    let here = open(&part().expect("a part"));
    let rank = here.gmpi.rank();
    here.memory.write(0, &pattern(0, 300 * SHORT)).expect("in range");
    by_carrier(&here, move |calls| {
        let (len, place, small) = (300 * SHORT, BYTES / 2, BYTES - 8);
        if rank == 0 {
            let send = calls.send(0, len, 1, 1);
            for _ in 0..200 {
                calls.carrier.progress();
                assert!(calls.carrier.test(send).is_none(), "there is no receive");
            }
            let tells = calls.send(small, 1, 1, 2);
            calls.wait_all([tells, send]);
            return;
        }
        calls.wait_for(2);
        let told = calls.receive(small, 1, 2);
        calls.wait(told);
        let receive = calls.receive(place, len, 1);
        calls.wait(receive);
        assert!(calls.read(place, len) == pattern(0, len));
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn the_head_of_a_receive_that_was_given_up_is_read_while_it_is_there() {
    const NAME: &str = "pieces_by_hosts::the_head_of_a_receive_that_was_given_up_is_read_while_it_is_there";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let rank = here.gmpi.rank();
    here.memory.write(0, &pattern(0, 40 * PIECE)).expect("in range");
    by_carrier(&here, move |calls| {
        let (len, place, small) = (40 * PIECE, BYTES / 2, BYTES - 8);
        let ready = if rank == 0 { calls.receive(small, 1, 3) } else { calls.send(small, 1, 0, 3) };
        if rank == 0 {
            calls.wait(ready);
            let sends = [calls.send(0, len, 1, 1), calls.send(small, 1, 1, 2), calls.send(0, len, 1, 1)];
            calls.wait_all(sends);
            return;
        }
        let receive = calls.receive(place, len, 1);
        calls.wait(ready);
        // The library has stored the head by then, and nobody has looked.
        calls.wait_for(2);
        calls.carrier.forget(receive);
        calls.memory.memory.write(place, &vec![0x55; len]).expect("in range");
        let told = calls.receive(small, 1, 2);
        let next = calls.receive(place + len, len, 1);
        calls.wait_with_all(told);
        calls.wait_with_all(next);
        assert!(calls.read(place, len).iter().all(|byte| *byte == 0x55), "what was given up came late");
        assert!(calls.read(place + len, len) == pattern(0, len), "the next one");
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn who_looks_at_one_message_alone_goes_on_with_the_others_too() {
    const NAME: &str = "pieces_by_hosts::who_looks_at_one_message_alone_goes_on_with_the_others_too";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let rank = here.gmpi.rank();
    here.memory.write(0, &pattern(0, 40 * PIECE)).expect("in range");
    by_carrier(&here, move |calls| {
        let (len, place) = (40 * PIECE, BYTES / 2);
        let (send, receive) = (calls.send(0, len, 1 - rank, 1), calls.receive(place, len, 1));
        calls.wait_all([receive, send]);
        assert!(calls.read(place, len) == pattern(0, len));
    });
    here.gmpi.close().expect("all came");
}

#[test]
fn the_librarys_own_calls_of_hosts_go_on_with_pieces() {
    const NAME: &str = "pieces_by_hosts::the_librarys_own_calls_of_hosts_go_on_with_pieces";
    let Some(part) = part() else { return both_ways(NAME) };
    let here = open(&part);
    let rank = here.gmpi.rank();
    here.memory.write(0, &pattern(0, 40 * PIECE)).expect("in range");
    by_carrier(&here, move |calls| {
        let (len, place, other) = (40 * PIECE, BYTES / 2, 1 - rank);
        let mut plain = vec![7; 300_000];
        for sender in 0..2 {
            if rank == sender {
                let send = calls.send(0, len, other, 1);
                calls.carrier.receive_plain(&mut plain, other).expect("it comes");
                assert!(plain.iter().all(|byte| *byte == 8));
                calls.wait(send);
            } else {
                let receive = calls.receive(place, len, 1);
                calls.wait(receive);
                calls.carrier.send_plain(&[8; 300_000], other).expect("it goes");
                assert!(calls.read(place, len) == pattern(0, len));
            }
        }
    });
    here.gmpi.close().expect("all came");
}
