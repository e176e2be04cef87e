//! What one rank does of a random program, and how it is compared with what came of it.

use std::ops::Range;

use ggas_gmpi::{Comm, Gmpi};

use crate::world::{Script, WORLD};

/// Bytes that the program of one block uses.
pub const AREA: usize = 256 << 10;
/// What is around buffers, and in those where nothing came.
const GUARD: u8 = 0xee;

/// What one rank's block does, and what comes of it.
#[derive(Clone)]
pub struct Plan {
    pub script: Script,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// By their numbers: source, tag, error, bytes. Of one that failed only the error is known.
    pub statuses: Vec<(u32, (i32, i32, u32, u64))>,
    pub errors: Vec<u32>,
    pub base: u64,
    pub comms: Vec<u64>,
    pub used: usize,
    pub requests: u32,
    told: u32,
    /// Rooms of receives that are too short.
    cut: Vec<Range<usize>>,
}

impl Plan {
    /// Nothing yet, with its area at `base`.
    pub fn new(base: u64, comms: Vec<u64>) -> Plan {
        Plan {
            script: Script::default(),
            before: vec![GUARD; AREA],
            after: vec![GUARD; AREA],
            statuses: Vec::new(),
            errors: Vec::new(),
            base,
            comms,
            used: 0,
            requests: 0,
            told: 0,
            cut: Vec::new(),
        }
    }

    pub fn call(&mut self, function: u32, arguments: &[u64], error: u32) {
        self.script = std::mem::take(&mut self.script).call(function, arguments);
        self.errors.push(error);
    }

    /// The last call uses the next request; which it is.
    pub fn request(&mut self) -> u32 {
        self.requests += 1;
        self.use_request(self.requests - 1)
    }

    pub fn use_request(&mut self, request: u32) -> u32 {
        self.script = std::mem::take(&mut self.script).request(request);
        request
    }

    /// The last call tells this many statuses; the first one.
    pub fn status(&mut self, count: u32) -> u32 {
        self.told += count;
        self.script = std::mem::take(&mut self.script).status(self.told - count);
        self.told - count
    }

    fn room(&mut self, bytes: usize, rng: &mut fastrand::Rng) -> usize {
        let at = self.used + 8 + if rng.bool() { 8 - self.used % 8 } else { rng.usize(0..8) };
        self.used = at + bytes + 8;
        at
    }

    pub fn source(&mut self, bytes: &[u8], rng: &mut fastrand::Rng) -> u64 {
        let at = self.room(bytes.len(), rng);
        self.before[at..at + bytes.len()].copy_from_slice(bytes);
        self.after[at..at + bytes.len()].copy_from_slice(bytes);
        self.base + at as u64
    }

    /// Room for so many bytes, where these will be.
    pub fn target(&mut self, room: usize, bytes: &[u8], rng: &mut fastrand::Rng) -> u64 {
        let at = self.room(room, rng);
        self.after[at..at + bytes.len()].copy_from_slice(bytes);
        self.base + at as u64
    }

    /// The message for this target is longer than its room.
    pub fn is_cut(&mut self, target: u64, room: usize) {
        let at = (target - self.base) as usize;
        self.cut.push(at..at + room);
    }
}

/// What is not as it was planned. `first_bytes`: receives that are too short have the first bytes; otherwise what they like.
pub fn difference(
    plan: &Plan,
    first_bytes: bool,
    errors: &[u32],
    status: impl Fn(u32) -> (i32, i32, u32, u64),
    memory: &[u8],
) -> Option<String> {
    for (i, (expected, error)) in plan.errors.iter().zip(errors).enumerate() {
        if expected != error {
            let call = &plan.script.0[i];
            let (function, arguments) = (call.function, call.arguments);
            return Some(format!("call {i} ({function} {arguments:x?}): error {error}, not {expected}"));
        }
    }
    for (number, expected) in &plan.statuses {
        let told = status(*number);
        let same = if expected.2 == 0 { told == *expected } else { told.2 == expected.2 };
        if !same {
            return Some(format!("status {number}: {told:?}, not {expected:?}"));
        }
    }
    let is_open = |byte: usize| !first_bytes && plan.cut.iter().any(|cut| cut.contains(&byte));
    let wrong = (0..memory.len()).find(|byte| memory[*byte] != plan.after[*byte] && !is_open(*byte))?;
    let (is, should) = (memory[wrong], plan.after[wrong]);
    Some(format!("byte {wrong} is {is:#x}, not {should:#x}"))
}

/// Which seeds: `count` from a fixed one on, or as `GGAS_TEST_SEED` (the first one) and `GGAS_TEST_SEEDS` (how many) say.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("GGAS_TEST_SEED").unwrap_or(1);
    let count =
        number("GGAS_TEST_SEEDS").unwrap_or(if number("GGAS_TEST_SEED").is_some() { 1 } else { count });
    first..first + count
}

/// The communicators that programs use, for one block: made by all ranks together.
pub fn communicators(gmpi: &Gmpi, block: usize) -> Vec<u64> {
    let rank = gmpi.rank();
    let split = |color: u32, key: i32| {
        gmpi.split(Comm::WORLD, Some(color), key).expect("all came").expect("it is in it").0
    };
    let all = if block == 0 { WORLD } else { gmpi.dup(Comm::WORLD).expect("all came").0 };
    vec![all, split(0, -(rank as i32)), split(rank % 2, rank as i32)]
}
