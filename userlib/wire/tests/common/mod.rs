//! What the tests and the process that they start have in common.

#![allow(dead_code, reason = "the tests and the process use different parts")]

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use ggas_clock::Clock;
use ggas_wire::{Choice, Endpoint, Event, Key, Library, Peer, Region, Remote, Taken, WireError, choose_of};

/// Bytes that each process registers.
pub const REGION: usize = 1 << 20;
/// Longer than anything takes: only what is broken waits that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What the peer does with a message: its first byte.
pub const ECHO: u8 = b'e';
/// 8 bytes offset, 8 bytes length: writes that part of its memory to the same place here; the immediate value is the
/// offset.
pub const WRITE: u8 = b'w';
/// 8 bytes offset, 8 bytes length: answers with the sum of these bytes.
pub const SUM: u8 = b's';
pub const QUIT: u8 = b'q';

/// What stands at a place of the peer's memory at first.
pub fn pattern(place: usize) -> u8 {
    (place as u8).wrapping_mul(31) ^ (place >> 8) as u8
}

/// An endpoint, memory that it registered, and another process.
pub struct Side {
    pub endpoint: Endpoint,
    pub memory: &'static [AtomicU8],
    pub region: Region,
}

impl Side {
    pub fn open(choice: &Choice) -> Side {
        let mut endpoint = Endpoint::open(choice).unwrap();
        let memory: &'static [AtomicU8] = Vec::leak((0..REGION).map(|_| AtomicU8::new(0)).collect());
        // SAFETY: it stays for ever, and nobody has a reference but to atomics.
        let region = unsafe { endpoint.register(memory.as_ptr().cast_mut().cast(), REGION) }.unwrap();
        Side { endpoint, memory, region }
    }

    /// Writes address and key as lines.
    pub fn introduce(&self, mut to: impl Write) {
        let key = self.endpoint.key(self.region).unwrap();
        writeln!(to, "{}", hex(&self.endpoint.address().unwrap())).unwrap();
        writeln!(to, "{}", hex(key.bytes())).unwrap();
        to.flush().unwrap();
    }

    /// Reads the other's.
    pub fn meet(&mut self, mut from: impl BufRead) -> (Peer, Remote) {
        let mut line = || {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            bytes(line.trim())
        };
        let (address, key) = (line(), line());
        let peer = self.endpoint.insert(&address).unwrap();
        let remote = self.endpoint.import(peer, &Key::try_from(&key[..]).unwrap()).unwrap();
        (peer, remote)
    }

    /// Sends, and hears what comes meanwhile.
    pub fn send(&mut self, peer: Peer, message: &[u8], mut heard: impl FnMut(Event<'_>)) {
        let end = Clock::REAL.deadline(PATIENCE);
        while self.endpoint.send(peer, message).unwrap() == Taken::Later {
            self.endpoint.poll(&mut heard).unwrap();
            assert!(Clock::REAL.now() < end, "no room for a message");
        }
    }

    /// Polls until it is over.
    pub fn wait(&mut self, what: &str, mut over: impl FnMut(Option<Event<'_>>) -> bool) {
        let end = Clock::REAL.deadline(PATIENCE);
        while !over(None) {
            self.endpoint
                .poll(|event| {
                    over(Some(event));
                })
                .unwrap();
            assert!(Clock::REAL.now() < end, "waited for {what}");
            Clock::REAL.yield_now();
        }
    }
}

/// What a test does with a part of memory.
pub fn part(kind: u8, offset: usize, len: usize) -> Vec<u8> {
    [&[kind][..], &(offset as u64).to_le_bytes(), &(len as u64).to_le_bytes()].concat()
}

pub fn parse_part(message: &[u8]) -> (usize, usize) {
    let number = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().unwrap()) as usize;
    (number(1), number(9))
}

pub fn sum(memory: &[AtomicU8]) -> u64 {
    memory.iter().map(|byte| u64::from(byte.load(Relaxed))).sum()
}

/// Tests that hold whatever library carries the messages: one of each.
#[macro_export]
macro_rules! of_each_library {
    ($($test:ident),+ $(,)?) => {
        mod libfabric {
            $(#[test] fn $test() {
                $crate::common::chosen(ggas_wire::Library::Libfabric).iter().for_each(super::$test);
            })+
        }
        mod ucx {
            $(#[test] fn $test() {
                $crate::common::chosen(ggas_wire::Library::Ucx).iter().for_each(super::$test);
            })+
        }
    };
}

/// What this machine would use of a library; `None`, with the reason on standard error, where it has it not.
pub fn chosen(library: Library) -> Option<Choice> {
    match choose_of(library) {
        Ok(choice) => Some(choice),
        Err(error @ (WireError::Missing { .. } | WireError::NotBuilt { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}
