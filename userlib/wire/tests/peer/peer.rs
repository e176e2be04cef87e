//! The other process of the tests. `choice` prints what it would use, `memory` how many KiB an endpoint takes; `serve` does what messages say.

#[path = "../common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::io::{stdin, stdout};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use common::{ECHO, PATIENCE, QUIT, SUM, Side, WRITE, parse_part, pattern, sum};
use ggas_clock::Clock;
use ggas_wire::{Endpoint, Event, Peer, Remote, Taken, Transfer, choose};
use nix::poll::{PollFd, PollFlags, poll};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("choice") => match choose() {
            Ok(choice) => println!("{choice}"),
            Err(error) => println!("error: {error}"),
        },
        Some("memory") => memory(),
        Some("serve") => serve(),
        _ => panic!("usage: ggas-test-wire choice|memory|serve"),
    }
}

/// Of a second one: what the library has once is there.
fn memory() {
    let choice = choose().unwrap();
    let open = || Endpoint::open(&choice).unwrap();
    let (_first, before) = (open(), resident());
    let _second = open();
    println!("{}", resident() - before);
}

/// KiB of memory that this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn serve() {
    let choice = choose().unwrap();
    let mut side = Side::open(&choice);
    for (place, byte) in side.memory.iter().enumerate() {
        byte.store(pattern(place), Relaxed);
    }
    side.introduce(stdout());
    let (peer, remote) = side.meet(stdin().lock());
    let (mut todo, mut under_way) = (VecDeque::new(), 0);
    let end = Clock::REAL.deadline(PATIENCE);
    loop {
        assert!(Clock::REAL.now() < end, "nobody said that it is over");
        let happened = side
            .endpoint
            .poll(|event| match event {
                Event::Message(bytes) => todo.push_back(bytes.to_vec()),
                Event::Done { .. } => under_way -= 1,
                other => eprintln!("peer: {other:?}"),
            })
            .unwrap();
        while let Some(message) = todo.front() {
            if message[0] == QUIT && under_way == 0 {
                return;
            }
            match obey(&mut side, peer, remote, message) {
                Taken::Yes => {
                    under_way += u32::from(message[0] == WRITE);
                    todo.pop_front();
                }
                Taken::Later => break,
            }
        }
        if happened == 0 && todo.is_empty() {
            sleep(&mut side);
        }
    }
}

fn obey(side: &mut Side, peer: Peer, remote: Remote, message: &[u8]) -> Taken {
    match message[0] {
        ECHO => side.endpoint.send(peer, message).unwrap(),
        WRITE => {
            let (offset, len) = parse_part(message);
            let (at, len) = (offset as u64, len as u64);
            let transfer = Transfer { local: side.region, local_offset: at, remote, remote_offset: at, len };
            side.endpoint.write(&transfer, Some(offset as u32), at).unwrap()
        }
        SUM => {
            let (offset, len) = parse_part(message);
            let sum = sum(&side.memory[offset..offset + len]);
            side.endpoint.send(peer, &[&[SUM][..], &sum.to_le_bytes()].concat()).unwrap()
        }
        _ => Taken::Later, // to quit, once writes are over
    }
}

fn sleep(side: &mut Side) {
    let Some(descriptor) = side.endpoint.descriptor() else { return Clock::REAL.yield_now() };
    if side.endpoint.arm().unwrap() {
        // SAFETY: the endpoint's, which lives on.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        // A bound, for the deadline to be looked at.
        poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], 1000u16).unwrap();
    }
}
