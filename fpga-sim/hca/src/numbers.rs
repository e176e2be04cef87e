//! Maps by numbers that adapters give out themselves: nobody chooses them, so a multiplication is hash enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers of 32 bits.
pub(crate) type ByNumber<T> = HashMap<u32, T, BuildHasherDefault<Multiply>>;

/// Multiplies by the golden ratio.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
