//! Registered memory with a model of what it must hold.

use std::cell::RefCell;

use ggas::{HostBuffer, PortBase, Region};

/// `len` bytes that depend on `seed`, without a short period.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// A region and the bytes that it must hold, every one of them: what no command was to write is still as it was.
pub struct Area {
    /// The region.
    pub region: Region,
    expected: RefCell<Vec<u8>>,
}

impl Area {
    /// Registers `len` bytes of poison that depends on `seed`.
    pub fn new(port: &PortBase, len: usize, seed: u64) -> Area {
        let region = port.register(HostBuffer::zeroed(len).unwrap()).unwrap();
        let area = Area { region, expected: RefCell::new(vec![0; len]) };
        area.write(0, &bytes(seed, len));
        area
    }

    /// Network logical address of byte `offset`.
    pub fn nla(&self, offset: usize) -> u64 {
        self.region.nla(offset).unwrap()
    }

    /// Writes bytes from the host side.
    pub fn write(&self, offset: usize, data: &[u8]) {
        self.region.write(offset, data).unwrap();
        self.expect(offset, data);
    }

    /// From now on `data` is to be at `offset`.
    pub fn expect(&self, offset: usize, data: &[u8]) {
        self.expected.borrow_mut()[offset..offset + data.len()].copy_from_slice(data);
    }

    /// What the area is to hold at `offset`.
    pub fn expected(&self, offset: usize, len: usize) -> Vec<u8> {
        self.expected.borrow()[offset..offset + len].to_vec()
    }

    /// Compares every byte. Panics with the first difference.
    pub fn verify(&self, what: &str) {
        let expected = self.expected.borrow();
        let mut found = vec![0; expected.len()];
        self.region.read(0, &mut found).unwrap();
        if *expected == found {
            return;
        }
        let differs = |at: &usize| expected[*at] != found[*at];
        let at = (0..found.len()).find(differs).unwrap_or_default();
        let last = (0..found.len()).rfind(differs).unwrap_or_default();
        let count = (0..found.len()).filter(differs).count();
        panic!(
            "{what}: byte {at:#x} is {:#04x}, not {:#04x}; {count} of {} bytes differ, the last at {last:#x}",
            found[at],
            expected[at],
            found.len()
        );
    }
}
