//! Memory with a model of what it must hold, and of what it may hold where a node died meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ggas::{HostBuffer, PortHandle, Region};

/// See the module's description.
pub struct Area {
    pub region: Rc<Region>,
    /// Where it begins in the region.
    base: usize,
    expected: RefCell<Vec<u8>>,
    /// Everything that was to be written, in its order: offset and bytes.
    written: RefCell<Vec<(usize, Vec<u8>)>>,
    /// What was begun may have been done or not.
    uncertain: Cell<bool>,
}

impl Area {
    /// Registers `len` bytes that depend on `seed`.
    pub fn new(port: &PortHandle, len: usize, seed: u64) -> Area {
        let region = port.register(HostBuffer::zeroed(len).expect("memory")).expect("a region");
        Area::slice(Rc::new(region), 0, len, seed)
    }

    /// `len` bytes of a region from `base` on, which depend on `seed` from now on.
    pub fn slice(region: Rc<Region>, base: usize, len: usize, seed: u64) -> Area {
        let mut data = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut data);
        region.write(base, &data).expect("within the region");
        Area {
            region,
            base,
            expected: RefCell::new(data),
            written: RefCell::default(),
            uncertain: Cell::new(false),
        }
    }

    /// Network logical address of byte `offset`.
    pub fn nla(&self, offset: usize) -> u64 {
        self.region.nla(self.base + offset).expect("within the region")
    }

    /// Bytes that never change.
    pub fn data(&self, offset: usize, len: usize) -> Vec<u8> {
        self.expected.borrow()[offset..offset + len].to_vec()
    }

    /// What is to be there by now.
    pub fn newest(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut data = self.data(offset, len);
        for (start, written) in self.written.borrow().iter() {
            let common = offset.max(*start)..(offset + len).min(start + written.len());
            if !common.is_empty() {
                data[common.start - offset..common.end - offset]
                    .copy_from_slice(&written[common.start - start..common.end - start]);
            }
        }
        data
    }

    /// From now on `data` is to be at `offset`.
    pub fn expect(&self, offset: usize, data: Vec<u8>) {
        self.written.borrow_mut().push((offset, data));
    }

    /// Its peer or its node has died: what was begun may be done or not.
    pub fn doubt(&self) {
        self.uncertain.set(true);
    }

    /// Compares every byte.
    pub fn verify(&self, what: impl Fn() -> String) {
        let mut found = vec![0; self.expected.borrow().len()];
        self.region.read(self.base, &mut found).expect("all of it");
        self.check(0, &found, what);
    }

    /// Compares bytes that were found at `start`.
    pub fn check(&self, start: usize, found: &[u8], what: impl Fn() -> String) {
        let (mut expected, written) = (self.expected.borrow().clone(), self.written.borrow());
        if self.uncertain.get() {
            return self.check_each(start, found, &written, what);
        }
        for (offset, data) in written.iter() {
            expected[*offset..offset + data.len()].copy_from_slice(data);
        }
        let differs = |at: &usize| expected[*at] != found[*at - start];
        let Some(at) = (start..start + found.len()).find(differs) else { return };
        let count = (start..start + found.len()).filter(differs).count();
        let last = written.iter().rposition(|(offset, data)| (*offset..offset + data.len()).contains(&at));
        panic!(
            "{}: byte {at:#x} is {:#04x}, not {:#04x} as of write {last:?} of {}; {count} of {} bytes differ",
            what(),
            found[at - start],
            expected[at],
            written.len(),
            found.len()
        );
    }

    /// Each byte is as it was, or as one of the writes made it.
    fn check_each(
        &self,
        start: usize,
        found: &[u8],
        written: &[(usize, Vec<u8>)],
        what: impl Fn() -> String,
    ) {
        let initial = self.expected.borrow();
        for (at, byte) in (start..).zip(found) {
            let wrote = |(offset, data): &(usize, Vec<u8>)| {
                at.checked_sub(*offset).and_then(|i| data.get(i)) == Some(byte)
            };
            assert!(
                initial[at] == *byte || written.iter().any(wrote),
                "{}: nobody wrote {byte:#04x} to byte {at:#x}",
                what()
            );
        }
    }
}
