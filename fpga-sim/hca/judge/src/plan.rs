//! What two ends of a queue pair do to each other: `tests/vm/rxe/plan.h` in Rust, written from its comments. Each end knows
//! all of it beforehand, of both, from their seeds alone.

/// Commands of a round.
pub const OPS: u32 = 64;
/// Bytes of the longest.
pub const LONGEST: u32 = 4096;
/// From one command's place in memory to the next one's.
pub const SLOT: u32 = LONGEST + 64;
/// Counters of an end, for atomic operations.
pub const WORDS: usize = 16;
/// Regions of an end: what the other one writes to, reads from, swaps; and where they end.
pub const LANDING: u32 = 0;
pub const READABLE: u32 = LANDING + OPS * SLOT;
pub const COUNTERS: u32 = READABLE + OPS * SLOT;
pub const SHARED: u32 = COUNTERS + WORDS as u32 * 8;
/// The round whose bytes are those of the readable region.
pub const NEVER: u32 = 0x7fff_ffff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    Swap,
    Add,
}

impl Kind {
    /// Whether the other end's completion queue shows it.
    pub fn arrives(self) -> bool {
        matches!(self, Kind::Send | Kind::SendImm | Kind::WriteImm)
    }

    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::Swap | Kind::Add)
    }

    pub fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::WriteImm)
    }
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    pub length: u32,
    pub imm: u32,
    /// Bytes into the other end's readable region.
    pub from: u32,
    pub word: usize,
    /// What is added, or swapped in.
    pub add: u64,
    /// The swap compares with what is there, or with something else.
    pub matches: bool,
}

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The first sequence number of an end's requests.
pub fn first_psn(seed: u64) -> u32 {
    (mix(seed) & 0xff_ffff) as u32
}

fn key(seed: u64, round: u32, i: u32) -> u64 {
    mix(mix(seed) ^ (u64::from(round) << 32 | u64::from(i)))
}

fn length_of(h: u64) -> u32 {
    let at = h >> 8;
    match h % 4 {
        0 => (at % 33) as u32,
        // Around multiples of a packet's payload.
        1 => (1024 * (1 + at % 4) + (h >> 16) % 5 - 2).min(LONGEST.into()) as u32,
        _ => (at % (u64::from(LONGEST) + 1)) as u32,
    }
}

/// Command `i` of a round.
pub fn op_of(seed: u64, round: u32, i: u32) -> Op {
    use Kind::{Add, Read, Send, SendImm, Swap, Write, WriteImm};
    const KINDS: [Kind; 16] = [
        Send, Send, Send, Send, SendImm, Write, Write, Write, WriteImm, WriteImm, Read, Read, Read, Swap,
        Swap, Add,
    ];
    let a = mix(key(seed, round, i));
    let (b, c) = (mix(a), mix(mix(a)));
    let kind = KINDS[(a % 16) as usize];
    Op {
        kind,
        length: match kind {
            Swap | Add => 8,
            Send | SendImm => length_of(b),
            // Reads and writes of nothing are too much for rdma_rxe of 6.12 when answers are lost.
            _ => length_of(b).max(1),
        },
        imm: c as u32,
        from: (mix(c) % u64::from(OPS * SLOT - LONGEST + 1)) as u32,
        word: (b % WORDS as u64) as usize,
        add: c,
        matches: (c >> 32) % 4 != 0,
    }
}

/// How many commands of a round the other end's completion queue shows.
pub fn arrivals(seed: u64, round: u32) -> u32 {
    (0..OPS).filter(|i| op_of(seed, round, *i).kind.arrives()).count() as u32
}

/// `n` bytes of a message, from byte `from` on.
pub fn bytes_of(seed: u64, round: u32, i: u32, from: u32, n: u32) -> Vec<u8> {
    let key = key(seed, round, i) ^ 0x5555_5555_5555_5555;
    let byte = |at: u32| (mix(key.wrapping_add(u64::from(at / 8))) >> (at % 8 * 8)) as u8;
    (from..from + n).map(byte).collect()
}

/// What a swap or an addition makes of the words: what it compares with, and what it answers.
pub fn apply(op: &Op, words: &mut [u64; WORDS]) -> (u64, u64) {
    let was = words[op.word];
    let compare = if op.matches { was } else { !was };
    match op.kind {
        Kind::Add => words[op.word] = was.wrapping_add(op.add),
        _ if op.matches => words[op.word] = op.add,
        _ => {}
    }
    (compare, was)
}
