//! The host's side of the copier's rings (kernels/src/copier.h): plain memory, so it is tested without a GPU.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use extoll_abi::Atomic;

/// Entries of a ring.
pub const ENTRIES: u64 = 1024;
/// Threads of a block of the copier.
pub const BLOCK: u32 = 512;
/// Rings, which is the copier's number of blocks: ring 0 for short commands, the others for bulk.
pub const RINGS: usize = 3;
/// Most bytes of a copy on ring 0.
pub const SMALL: usize = 4096;
/// Most bytes of an inline write.
pub const INLINE: usize = 24;

/// A 16-byte unit of an entry; the tag shares an aligned word with `low`, and that word is stored last.
#[repr(C)]
struct Unit {
    word: AtomicU64,
    low_tag: AtomicU64,
}

/// A ring and what the copier says about it, as the copier sees it. All zeroes at first.
#[repr(C, align(64))]
pub struct RingMemory {
    entry: [[Unit; 4]; ENTRIES as usize],
    done: [AtomicU32; ENTRIES as usize],
    before: [AtomicU64; ENTRIES as usize],
    closed: AtomicU64,
    reserved: [u64; 15],
}

const _: () = assert!(size_of::<RingMemory>() == 64 * 1024 + 4096 + 8192 + 128);

/// The kernel's parameter, `struct ggas_copier_args`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CopierArgs {
    /// Address of [`RINGS`] rings.
    pub rings: u64,
    /// First command to take from each ring.
    pub next: [u64; RINGS],
    /// A ring without a command for so many nanoseconds is closed.
    pub idle_ns: u64,
}

const _: () = assert!(size_of::<CopierArgs>() == 40);

/// What the copier does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Copies `len` bytes between ranges that do not overlap.
    Copy {
        /// Destination address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Bytes; at most [`SMALL`] on ring 0.
        len: u32,
    },
    /// Copies `len` bytes between ranges that may overlap; bulk rings only.
    Move {
        /// Destination address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Bytes.
        len: u32,
    },
    /// Writes at most [`INLINE`] bytes; ring 0 only.
    Write {
        /// Destination address.
        dst: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Copies as [`Command::Copy`], then stores a queue entry of two words at `entry`; ring 0 only.
    CopyNotify {
        /// Destination address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Bytes.
        len: u32,
        /// Where the entry goes, in mapped host memory; a multiple of 16.
        entry: u64,
        /// The entry, stored as a whole.
        word: [u64; 2],
    },
    /// An atomic operation; ring 0 only. What was there is asked for once it is done ([`Ring::take_before`]).
    Atomic {
        /// Address of the word, which is aligned.
        at: u64,
        /// The operation.
        atomic: Atomic,
    },
    /// Closes the ring.
    Stop,
}

impl RingMemory {
    /// Fresh rings in memory of this process that is never freed. Those of a GPU's copier lie in page-locked memory
    /// instead.
    pub fn leak(count: usize) -> &'static [RingMemory] {
        let zero = || RingMemory {
            entry: [const { [const { Unit { word: AtomicU64::new(0), low_tag: AtomicU64::new(0) } }; 4] };
                ENTRIES as usize],
            done: [const { AtomicU32::new(0) }; ENTRIES as usize],
            before: [const { AtomicU64::new(0) }; ENTRIES as usize],
            closed: AtomicU64::new(0),
            reserved: [0; 15],
        };
        (0..count).map(|_| zero()).collect::<Vec<_>>().leak()
    }

    /// Whether command `number` is done. Stays true for 2³¹ further commands.
    pub fn is_done(&self, number: u64) -> bool {
        let done = self.done[(number % ENTRIES) as usize].load(Ordering::Acquire);
        done.wrapping_sub(tag(number)) as i32 >= 0
    }

    /// Once the copier has closed the ring: the first command that it did not take.
    pub fn closed(&self) -> Option<u64> {
        self.closed.load(Ordering::Acquire).checked_sub(1)
    }

    /// Stores a command in the entry of `number`, visible with its tags.
    fn publish(&self, number: u64, command: &Command<'_>) {
        let mut low = [0, 0];
        let (dst, word, len, op) = match *command {
            Command::CopyNotify { dst, src, len, entry, word } => {
                low = [entry as u32, (entry >> 32) as u32];
                (dst, [src, word[0], word[1]], len, 5)
            }
            Command::Copy { dst, src, len } => (dst, [src, 0, 0], len, 1),
            Command::Write { dst, bytes } => (dst, words(bytes), bytes.len().min(INLINE) as u32, 2),
            Command::Atomic { at, atomic } => {
                low[0] = u32::from(atomic.operation() as u8);
                (at, words(&atomic.operands()), atomic.width().bytes() as u32, 6)
            }
            Command::Move { dst, src, len } => (dst, [src, 0, 0], len, 3),
            Command::Stop => (0, [0; 3], 0, 4),
        };
        let high = u64::from(tag(number)) << 32;
        let units = [(dst, len), (word[0], op), (word[1], low[0]), (word[2], low[1])];
        let entry = &self.entry[(number % ENTRIES) as usize];
        for (unit, (word, low)) in entry.iter().zip(units) {
            unit.word.store(word, Ordering::Relaxed);
            unit.low_tag.store(high | u64::from(low), Ordering::Release);
        }
    }
}

/// The first [`INLINE`] bytes as words of an entry.
fn words(bytes: &[u8]) -> [u64; 3] {
    let mut inline = [0; INLINE];
    let len = bytes.len().min(INLINE);
    inline[..len].copy_from_slice(&bytes[..len]);
    let word = |i: usize| u64::from_le_bytes(inline[8 * i..8 * i + 8].try_into().unwrap_or_default());
    [word(0), word(1), word(2)]
}

/// What marks an entry as holding command `number`. An entry's earlier tag differs by [`ENTRIES`].
fn tag(number: u64) -> u32 {
    number.wrapping_add(1) as u32
}

/// The producer of one ring.
pub struct Ring {
    memory: &'static RingMemory,
    head: u64,
    /// First command of the present or last run.
    first: u64,
    open: bool,
    /// The last command that closed the ring.
    stop: Option<u64>,
    /// Atomic operations of which nobody took what was there; with that, once a later one has their place in the ring.
    before: HashMap<u64, Option<u64>>,
}

impl Ring {
    /// The producer of a fresh ring, which is closed until [`Ring::open`].
    pub fn new(memory: &'static RingMemory) -> Ring {
        Ring { memory, head: 0, first: 0, open: false, stop: None, before: HashMap::new() }
    }

    /// Whether commands are taken.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Hands a command to the copier and returns its number; `None` where the ring is closed or full.
    pub fn submit(&mut self, command: &Command<'_>) -> Option<u64> {
        let number = self.head;
        if !self.open || (number >= ENTRIES && !self.memory.is_done(number - ENTRIES)) {
            return None;
        }
        if let Command::Atomic { .. } = command {
            self.keep_before(number);
        }
        self.memory.publish(number, command);
        self.head += 1;
        Some(number)
    }

    /// Command `number` gets its place for what was there: what others left in it is kept.
    fn keep_before(&mut self, number: u64) {
        let place = number % ENTRIES;
        // All that had the entry before are done.
        let there = self.memory.before[place as usize].load(Ordering::Relaxed);
        let left = self.before.iter_mut().filter(|(earlier, _)| **earlier % ENTRIES == place);
        left.for_each(|(_, kept)| _ = kept.get_or_insert(there));
        self.before.insert(number, None);
    }

    /// What an atomic operation that is done found in its word, once; `None`: it is none, or somebody took that.
    pub fn take_before(&mut self, number: u64) -> Option<u64> {
        let there = || self.memory.before[(number % ENTRIES) as usize].load(Ordering::Relaxed);
        Some(self.before.remove(&number)?.unwrap_or_else(there))
    }

    /// Closes the ring: the copier ends behind the commands so far. False where it is full: try again.
    pub fn close(&mut self) -> bool {
        if self.open {
            self.stop = self.submit(&Command::Stop);
            self.open = self.stop.is_none();
        }
        !self.open
    }

    /// Opens the ring for a new run of the copier, whose first command this returns. The last run must have ended.
    pub fn open(&mut self) -> u64 {
        let next = self.memory.closed().unwrap_or(0);
        self.first = match self.stop.take() {
            // The last run closed the ring by itself, as idle, and left our closing command behind; perhaps also
            // commands before it, and then that one must not end the new run.
            Some(stop) if stop == next => next + 1,
            Some(stop) if stop > next => {
                self.memory.publish(stop, &Command::Copy { dst: 0, src: 0, len: 0 });
                next
            }
            _ => next,
        };
        self.memory.closed.store(0, Ordering::Release);
        self.open = true;
        self.first
    }

    /// Closes the ring after a run that could not be started.
    pub fn abandon(&mut self) {
        self.open = false;
        self.memory.closed.store(self.first + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use extoll_abi::{Operation, Width};

    use super::*;

    fn memory() -> &'static RingMemory {
        &RingMemory::leak(1)[0]
    }

    /// What the copier does with command `number`, if it is there.
    fn take(memory: &RingMemory, number: u64) -> Option<u64> {
        let entry = &memory.entry[(number % ENTRIES) as usize];
        let there =
            entry.iter().all(|unit| unit.low_tag.load(Ordering::Acquire) >> 32 == u64::from(tag(number)));
        there.then(|| entry[0].word.load(Ordering::Relaxed))
    }

    fn finish(memory: &RingMemory, number: u64) {
        memory.done[(number % ENTRIES) as usize].store(tag(number), Ordering::Release);
    }

    #[test]
    fn a_ring_takes_as_many_commands_as_it_has_entries() {
        let memory = memory();
        let mut ring = Ring::new(memory);
        let command = |dst| Command::Copy { dst, src: 0, len: 8 };
        assert_eq!(ring.submit(&command(1)), None, "closed at first");
        assert_eq!(ring.open(), 0);
        for lap in 0..3 {
            for i in 0..ENTRIES {
                assert_eq!(take(memory, lap * ENTRIES + i), None, "an old command looks like a new one");
                assert_eq!(ring.submit(&command(i)), Some(lap * ENTRIES + i));
                assert_eq!(take(memory, lap * ENTRIES + i), Some(i));
                assert!(!memory.is_done(lap * ENTRIES + i));
            }
            assert_eq!(ring.submit(&command(0)), None, "full");
            for i in (0..ENTRIES).rev() {
                finish(memory, lap * ENTRIES + i);
                assert!(memory.is_done(lap * ENTRIES + i));
            }
        }
        assert!(memory.is_done(5), "a command stays done");
    }

    #[test]
    fn numbers_wrap() {
        let memory = memory();
        let last = u64::from(u32::MAX) - 1;
        memory.publish(last, &Command::Stop);
        assert!(take(memory, last).is_some() && take(memory, last + ENTRIES).is_none());
        finish(memory, last);
        assert!(memory.is_done(last) && !memory.is_done(last + ENTRIES));
        finish(memory, last + ENTRIES);
        assert!(memory.is_done(last + ENTRIES) && memory.is_done(last));
    }

    #[test]
    fn a_run_continues_behind_the_stop() {
        let memory = memory();
        let mut ring = Ring::new(memory);
        ring.open();
        ring.submit(&Command::Write { dst: 7, bytes: &[1, 2, 3] });
        assert!(ring.close());
        assert_eq!(ring.submit(&Command::Stop), None);
        // The run took both and closed.
        memory.closed.store(2 + 1, Ordering::Release);
        assert_eq!(ring.open(), 2);
        // The next run took nothing: it was idle, and our stop came too late.
        assert!(ring.close());
        memory.closed.store(2 + 1, Ordering::Release);
        assert_eq!(ring.open(), 3);
        assert_eq!(ring.submit(&Command::Copy { dst: 9, src: 0, len: 1 }), Some(3));
        // Idle again, this time with a command before our stop: the next run takes it, and no stop behind it.
        assert!(ring.close());
        memory.closed.store(3 + 1, Ordering::Release);
        assert_eq!(ring.open(), 3);
        assert_eq!((take(memory, 3), take(memory, 4)), (Some(9), Some(0)));
        assert_eq!(op(memory, 4), 1);
        assert_eq!(ring.submit(&Command::Stop), Some(5));
        // A run that did not start took nothing.
        ring.abandon();
        assert_eq!((ring.submit(&Command::Stop), ring.open()), (None, 3));
    }

    #[test]
    fn what_atomics_found_waits_to_be_taken() {
        let memory = memory();
        let mut ring = Ring::new(memory);
        ring.open();
        let atomic = Command::Atomic { at: 8, atomic: Atomic::add(1) };
        let change = |ring: &mut Ring, found: u64| {
            let number = ring.submit(&atomic).expect("room");
            memory.before[(number % ENTRIES) as usize].store(found, Ordering::Relaxed);
            finish(memory, number);
            number
        };
        let first = change(&mut ring, 1);
        for i in 1..ENTRIES {
            let number = change(&mut ring, 10 + i);
            assert_eq!(ring.take_before(number), Some(10 + i));
        }
        // Other commands leave it where it is; the next ones of its entry must not.
        let copy = ring.submit(&Command::Copy { dst: 1, src: 2, len: 8 }).expect("room");
        assert_eq!((copy % ENTRIES, ring.take_before(copy)), (first, None));
        finish(memory, copy);
        (1..ENTRIES).for_each(|i| _ = change(&mut ring, 20 + i));
        let (second, mut last) = (change(&mut ring, 2), 0);
        (0..ENTRIES).for_each(|_| last = change(&mut ring, 3));
        assert_eq!([first, second, last].map(|number| number % ENTRIES), [0; 3]);
        let found = [last, second, first].map(|number| ring.take_before(number));
        assert_eq!(found, [Some(3), Some(2), Some(1)]);
        assert_eq!(ring.take_before(first), None, "taken");
    }

    #[test]
    fn atomics_are_packed_as_packets_have_them() {
        let memory = memory();
        for (number, atomic, words, len, operation) in [
            (0, Atomic::compare_exchange(Width::Four, 7, 9), [7 << 32 | 9, 0], 4, 10),
            (1, Atomic::compare_exchange(Width::Eight, 7, 9), [9, 7], 8, 10),
            (2, Atomic::new(Operation::Or, Width::Four, u64::MAX), [u64::from(u32::MAX), 0], 4, 3),
        ] {
            memory.publish(number, &Command::Atomic { at: 64, atomic });
            let entry = &memory.entry[number as usize];
            let low = |unit: usize| entry[unit].low_tag.load(Ordering::Relaxed) as u32;
            assert_eq!((take(memory, number), low(0), low(1), low(2)), (Some(64), len, 6, operation));
            assert_eq!([1, 2].map(|unit: usize| entry[unit].word.load(Ordering::Relaxed)), words);
        }
    }

    fn op(memory: &RingMemory, number: u64) -> u32 {
        memory.entry[(number % ENTRIES) as usize][1].low_tag.load(Ordering::Relaxed) as u32
    }
}
