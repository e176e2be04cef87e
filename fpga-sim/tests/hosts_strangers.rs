//! Processes that are of no network of hosts, and reach the places where one's nodes meet. Where no library carries packets the tests
//! are skipped.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use common::hosts::{Hosts, SECRET};
use common::joined::{join, tell};
use common::members::drive;
use common::*;

/// A packet goes from a card to a port of another one.
fn reaches(cards: [&Node; 2], from: &Port<'_>, to: &mut Port<'_>, payload: u64) {
    tell(from, to.address(), payload);
    let mut came = None;
    drive(std::slice::from_ref(cards[0]), "a packet", || {
        cards[1].nic.progress();
        came = came.or_else(|| to.try_next());
        came.is_some()
    });
    assert_eq!(came.unwrap().word0, payload);
}

/// Passes connections on, and keeps what callers say.
fn relay(to: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (place, said) = (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<u8>>>::default());
    let kept = said.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let onward = TcpStream::connect(&to).unwrap();
            let (back, kept) = ((onward.try_clone().unwrap(), stream.try_clone().unwrap()), kept.clone());
            let pass = |mut from: TcpStream, mut to: TcpStream, kept: Option<Arc<Mutex<Vec<u8>>>>| {
                thread::spawn(move || {
                    let mut bytes = [0; 1024];
                    while let Ok(len @ 1..) = from.read(&mut bytes) {
                        kept.iter().for_each(|kept| kept.lock().unwrap().extend(&bytes[..len]));
                        let _ = to.write_all(&bytes[..len]);
                    }
                    let _ = to.shutdown(Shutdown::Both);
                })
            };
            pass(stream, onward, Some(kept));
            pass(back.0, back.1, None);
        }
    });
    (place, said)
}

/// What an earlier process of a node said, which left, does not take the place of the one that is there.
#[test]
fn what_was_recorded_harms_nobody() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (near, card) = join(&hosts, 0);
    let (place, said) = relay(hosts.place(0));
    let by_relay = Hosts::of(&format!("{place}\n{}\n", hosts.place(1)), SECRET);
    let mut here = card.open(0, 1);
    let (earlier, other) = join(&by_relay, 1);
    reaches([&card, &other], &other.open(0, 1), &mut here, 1);
    drop((earlier, other));
    drive(std::slice::from_ref(&card), "that it left", || near.end_of(1, None).is_some());
    let (_later, other) = join(&hosts, 1);
    let there = other.open(0, 1);
    reaches([&card, &other], &there, &mut here, 2);
    let recorded = said.lock().unwrap().clone();
    assert!(recorded.len() > 100, "{} bytes", recorded.len());
    for _ in 0..3 {
        let mut thief = TcpStream::connect(hosts.place(0)).unwrap();
        let _ = thief.write_all(&recorded);
        let _ = thief.shutdown(Shutdown::Write);
        let _ = thief.read_to_end(&mut Vec::new()); // until it is closed
        reaches([&card, &other], &there, &mut here, 3);
        assert_eq!(near.end_of(1, None), None);
    }
}

/// A caller whose meeting takes its time keeps its place, however many strangers of its own host come meanwhile.
#[test]
fn strangers_of_its_own_host_push_no_caller_out() {
    let Some(hosts) = Hosts::new(2) else { return };
    let (_near, first) = join(&hosts, 0);
    // The one connection that its relay takes; what node 0 says on it waits for the strangers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = listener.local_addr().unwrap().to_string();
    let by_relay = Hosts::of(&format!("{relay}\n{}\n", hosts.place(1)), SECRET);
    let place = hosts.place(0);
    let passes = thread::spawn(move || {
        let mut caller = listener.accept().unwrap().0;
        drop(listener);
        let mut called = TcpStream::connect(&place).unwrap();
        // What the caller says unasked.
        caller.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut unasked = [0; 1024];
        let len = caller.read(&mut unasked).unwrap();
        called.write_all(&unasked[..len]).unwrap();
        caller.set_read_timeout(None).unwrap();
        let pass = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to))
        };
        called.peek(&mut [0]).unwrap(); // it is taken
        pass(&caller, &called);
        let strangers: Vec<TcpStream> = (0..600).map(|_| stranger(&place)).collect();
        pass(&called, &caller);
        strangers
    });
    let (_far, second) = join(&by_relay, 1);
    let (mut here, there) = (first.open(0, 1), second.open(0, 1));
    reaches([&first, &second], &there, &mut here, 7);
    drop(passes.join().unwrap());
}

/// A connection that was taken, and says nothing.
fn stranger(place: &str) -> TcpStream {
    let stranger = TcpStream::connect(place).unwrap();
    let _ = stranger.peek(&mut [0]);
    stranger
}

/// Who holds connections without a word, or says something very slowly, keeps nobody out.
#[test]
fn silence_keeps_nobody_out() {
    let Some(hosts) = Hosts::new(2) else { return };
    let ((near, first), (_far, second)) = (join(&hosts, 0), join(&hosts, 1));
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(hosts.place(1)).unwrap()).collect();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(hosts.place(1)).unwrap()).collect();
    let (here, mut there) = (first.open(0, 1), second.open(0, 1));
    for number in 0..20 {
        // Which of them are closed meanwhile is all the same.
        slow.iter_mut().for_each(|stream| drop(stream.write(&[33])));
        reaches([&first, &second], &here, &mut there, number);
    }
    assert_eq!(near.counts(), (0, 0, 0));
    drop(silent);
}
