//! Processes that are of no network of hosts, and reach the places where one's nodes meet. Where no library carries packets the tests
//! are skipped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::hosts::{Hosts, SECRET};
use crate::common::joined::{join, tell};
use crate::common::members::drive;
use crate::common::*;
use extoll_abi::Address;
use extoll_sim::hosts::{HostsFabric, HostsFile};

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

/// A process of another version, as far as it can be told from this one: what it says first, under codes of its own.
fn other_version() -> Vec<u8> {
    let body = [&b"ggashost"[..], &99_u32.to_le_bytes(), &0x0102_u16.to_ne_bytes(), &[1; 8]].concat();
    [&(body.len() as u16).to_le_bytes()[..], &body, &[9; 16]].concat()
}

/// Whoever calls, and whoever is called: both are told which versions there are, and what to do.
#[test]
fn both_sides_name_another_version() {
    let Some(hosts) = Hosts::new(2) else { return };
    let called = TcpListener::bind(hosts.place(0)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hosts_strangers::meets_another_version", "--ignored", "--nocapture"])
        .env("GGAS_TEST_HOSTS", hosts.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, said) = channel();
    let errors = BufReader::new(child.stderr.take().unwrap());
    thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line))));
    let hears = |begins: &str| {
        let mut before = Vec::new();
        loop {
            let line = said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it says only {before:?}"));
            if line.contains("(networks of hosts 99, and this one ") {
                assert!(line.contains("install the same one on all hosts"), "{line}");
                return assert!(line.starts_with(begins), "{line}");
            }
            before.push(line);
        }
    };
    // It calls this process.
    let mut calls = called.accept().unwrap().0;
    calls.write_all(&other_version()).unwrap();
    hears(&format!("ggas: node 0 is not met at {}: ", hosts.place(0)));
    drop(called);
    // This process calls it.
    let mut caller = TcpStream::connect(hosts.place(1)).unwrap();
    caller.write_all(&other_version()).unwrap();
    hears(&format!("ggas: {} called: ", caller.local_addr().unwrap().ip()));
    // And hears what it is.
    let mut answer = Vec::new();
    let _ = caller.read_to_end(&mut answer);
    assert_eq!(answer[2..10], *b"ggashost");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "the process of the other test"]
fn meets_another_version() {
    let path = std::env::var("GGAS_TEST_HOSTS").unwrap();
    let fabric = HostsFabric::join(&HostsFile::read(Path::new(&path)).unwrap(), 1).unwrap();
    let card = Setup::over(fabric.clone()).node(1);
    tell(&card.open(0, 1), Address::new(0, 0), 1);
    let _ = std::io::stdin().read_to_end(&mut Vec::new()); // until it may go
}
