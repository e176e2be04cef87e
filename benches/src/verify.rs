//! Seeded data, poison, and comparison of every byte.

use serde::{Deserialize, Serialize};

/// What memory holds before data is to arrive.
const POISON: u8 = 0xa5;

/// SplitMix64: a counter-based stream, so any word can be made without those before it.
#[derive(Clone, Copy, Debug)]
pub struct RandomStream {
    seed: u64,
}

impl RandomStream {
    /// Stream number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { seed: mix(seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15))) }
    }

    /// Word number `index`.
    pub fn word(&self, index: u64) -> u64 {
        mix(self.seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bytes that one sender sends.
#[derive(Clone, Copy, Debug)]
pub struct Pattern(RandomStream);

impl Pattern {
    /// The pattern of `seed` for sender or buffer number `stream`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(RandomStream::new(seed, stream))
    }

    /// `len` bytes of it.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let words = len.div_ceil(8) as u64;
        let mut bytes: Vec<u8> = (0..words).flat_map(|i| self.0.word(i).to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// `len` bytes that differ from the pattern in every place: what a buffer holds before data arrives.
    pub fn poison(&self, len: usize) -> Vec<u8> {
        self.bytes(len).into_iter().map(|byte| byte ^ POISON).collect()
    }
}

/// Collects what was wrong over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// How many bytes, words or entries were wrong.
    pub errors: u64,
    /// The first wrong one, in words.
    pub first: Option<String>,
}

impl Check {
    /// Compares all bytes; `what` names the buffer.
    pub fn bytes(&mut self, what: &str, expected: &[u8], seen: &[u8]) {
        if expected == seen {
            return;
        }
        if expected.len() != seen.len() {
            self.wrong(1, || format!("{what}: {} bytes instead of {}", seen.len(), expected.len()));
            return;
        }
        let mut places = expected.iter().zip(seen).enumerate().filter(|(_, (a, b))| a != b);
        if let Some((at, (want, got))) = places.next() {
            let more = places.count() as u64;
            self.wrong(1 + more, || format!("{what}: byte {at} is {got:#04x}, not {want:#04x}"));
        }
    }

    /// Compares two numbers.
    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, expected: T, seen: T) {
        if expected != seen {
            self.wrong(1, || format!("{what}: {seen:?} instead of {expected:?}"));
        }
    }

    /// Counts `errors`; the first call says what was wrong.
    pub fn wrong(&mut self, errors: u64, what: impl FnOnce() -> String) {
        self.errors += errors;
        self.first.get_or_insert_with(what);
    }

    /// Adds what another check found.
    pub fn merge(&mut self, other: Check) {
        self.errors += other.errors;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_repeat_by_seed_and_differ_by_stream() {
        let bytes = Pattern::new(1, 0).bytes(1001);
        assert_eq!(bytes, Pattern::new(1, 0).bytes(1001));
        assert_eq!(bytes[..500], Pattern::new(1, 0).bytes(500)[..]);
        assert_ne!(bytes, Pattern::new(1, 1).bytes(1001));
        assert_ne!(bytes, Pattern::new(2, 0).bytes(1001));
    }

    #[test]
    fn poison_differs_everywhere() {
        let pattern = Pattern::new(3, 4);
        assert!(pattern.bytes(4096).iter().zip(pattern.poison(4096)).all(|(a, b)| *a != b));
    }

    #[test]
    fn checks_count_every_wrong_byte_and_keep_the_first() {
        let expected = Pattern::new(1, 1).bytes(64);
        let mut seen = expected.clone();
        let mut check = Check::default();
        check.bytes("ring", &expected, &seen);
        assert_eq!(check, Check::default());
        seen[7] ^= 1;
        seen[63] ^= 0x80;
        check.bytes("ring", &expected, &seen);
        check.equal("count", 3, 4);
        assert_eq!(check.errors, 3);
        assert!(check.first.unwrap().starts_with("ring: byte 7 is"));
    }

    #[test]
    fn a_short_buffer_is_wrong() {
        let mut check = Check::default();
        check.bytes("ring", &[1, 2], &[1]);
        assert_eq!(check.errors, 1);
    }
}
