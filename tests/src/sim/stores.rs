//! Stores, loads and atomic operations on other nodes' memory through the SMFU's window, and puts into the same pages (spec 6).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use extoll_abi::regs::{
    EXTOLL_RF_SMFU_RCVD_NP, EXTOLL_RF_SMFU_RCVD_P, EXTOLL_RF_SMFU_RCVD_RSP, EXTOLL_RF_SMFU_SENT_NP,
    EXTOLL_RF_SMFU_SENT_P, EXTOLL_RF_SMFU_SENT_RSP,
};
use extoll_abi::{Atomic, Operation, Width};
use ggas::device::{DeviceError, SmfuMap, SmfuWindow, Span};
use ggas::{HostBuffer, Node, PAGE, PortHandle, PostError, Region};

use super::area::Area;
use super::member::Member;
use super::program::{Dead, Program};

/// Bytes that each node has in the part of each other one. The last ones are never stored to.
const SLICE: usize = 1024;
const USED: usize = SLICE - 64;
/// Parts of a window with more nodes than the unit has intervals, so that address bits name them (spec 6.2).
const MANY: u16 = 64;
/// How long a load waits for its answer before its program looks around: the first time, and at most.
const LOAD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Shape of the windows of a network.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Address bits name the nodes, instead of intervals.
    pub mask: bool,
}

impl Windows {
    /// Drawn from a generator of their own, as mailboxes are.
    pub fn of(seed: u64) -> Option<Windows> {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5f0);
        let mask = random.bool();
        (random.u8(..3) == 0).then_some(Windows { mask })
    }
}

/// What one other node has in this one's part.
struct Slice {
    area: Area,
    /// Bytes that it puts to. When a put is done its sender knows late, so it stores to them no more, nor loads them.
    puts: RefCell<Vec<bool>>,
}

/// A member's part of the window, and its access to all others.
pub struct Share {
    // Goes first: the unit lets go of the memory before that goes.
    window: Box<dyn SmfuWindow>,
    stride: u64,
    slices: Vec<Slice>,
}

impl Share {
    /// `seed_of` says what is in the slice of a node at first.
    pub fn open(
        node: &Node,
        port: &PortHandle,
        shape: Windows,
        nodes: usize,
        seed_of: impl Fn(usize) -> u64,
    ) -> Share {
        let len = nodes * SLICE;
        let stride = len.next_power_of_two().max(PAGE);
        let buffer = HostBuffer::zeroed(len).expect("memory");
        let span = Span::host(&buffer);
        let region: Rc<Region> = Rc::new(port.register(buffer).expect("a region"));
        let parts = if shape.mask { MANY } else { nodes as u16 };
        let map = SmfuMap {
            nodes: (0..parts).collect(),
            stride: stride as u64,
            part_bytes: len as u64,
            local: Some(span),
            uncached: false,
            window: None,
        };
        // SAFETY: the region keeps the memory, and the slices keep the region until after the window is dropped.
        let window = unsafe { node.device().map_smfu(&map) }.expect("a window");
        let slice = |other| Slice {
            area: Area::slice(region.clone(), other * SLICE, SLICE, seed_of(other)),
            puts: RefCell::new(vec![false; SLICE]),
        };
        Share { window, stride: stride as u64, slices: (0..nodes).map(slice).collect() }
    }

    /// What `node` had begun to do here may be done or not.
    pub fn doubt(&self, node: usize) {
        self.slices[node].area.doubt();
    }

    /// Compares every byte.
    pub fn verify(&self, what: impl Fn(usize) -> String) {
        for (other, slice) in self.slices.iter().enumerate() {
            slice.area.verify(|| what(other));
        }
    }
}

/// What a card has sent and received: stores, loads, answers.
pub fn counts(node: &Node) -> [u64; 6] {
    [
        EXTOLL_RF_SMFU_SENT_P,
        EXTOLL_RF_SMFU_RCVD_P,
        EXTOLL_RF_SMFU_SENT_NP,
        EXTOLL_RF_SMFU_RCVD_NP,
        EXTOLL_RF_SMFU_SENT_RSP,
        EXTOLL_RF_SMFU_RCVD_RSP,
    ]
    .map(|offset| node.read_register(offset).expect("a register"))
}

/// Every packet came once, as all nodes together say.
pub fn verify_counts(nodes: &[Node]) {
    let mut all = [0; 6];
    for node in nodes {
        all.iter_mut().zip(counts(node)).for_each(|(all, count)| *all += count);
    }
    let [stores, stored, loads, loaded, answers, answered] = all;
    assert_eq!(stores, stored, "stores sent and received");
    assert!(loads >= loaded, "{loads} loads sent, {loaded} received");
    assert_eq!([answers, answered], [loaded, loaded], "answers sent and received, of loads");
}

/// A word of up to 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl Program<'_> {
    /// A random access to the part of `other`, which has met this node.
    pub fn access(&mut self, other: &Rc<Member>) -> Result<(), Dead> {
        let bits = self.random.u32(0..=9);
        let (len, at) = (self.random.usize(1..=1 << bits), self.random.usize(..USED));
        let len = len.min(USED - at);
        self.world.count_access();
        match self.random.u8(..16) {
            0 => self.put_to_slice(other, at, len.min(64)),
            1..8 => self.store(other, at, len),
            8..12 => self.load(other, at, len),
            posted => self.atomic(other, at, posted < 14),
        }
    }

    /// Behind it all stores to `other` are done.
    pub fn store_fence(&mut self, other: &Rc<Member>) -> Result<(), Dead> {
        self.load(other, SLICE - 1, 1)
    }

    /// Whether this node puts to any of these bytes.
    fn is_put_to(&self, other: &Member, at: usize, len: usize) -> bool {
        let slice = other.share.as_ref().map(|share| &share.slices[self.me.node]);
        slice.is_some_and(|slice| slice.puts.borrow()[at..at + len].contains(&true))
    }

    fn store(&mut self, other: &Rc<Member>, at: usize, len: usize) -> Result<(), Dead> {
        if self.is_put_to(other, at, len) {
            return Ok(());
        }
        let mut data = vec![0; len];
        self.random.fill(&mut data);
        if let Some(share) = &other.share {
            share.slices[self.me.node].area.expect(at, data.clone());
        }
        // One that the network did not take as a whole is done again.
        self.through("store", other, at, |window, offset, _| window.store(offset, &data))?;
        Ok(())
    }

    fn load(&mut self, other: &Rc<Member>, at: usize, len: usize) -> Result<(), Dead> {
        if self.is_put_to(other, at, len) {
            return Ok(());
        }
        let mut bytes = vec![0; len];
        let mut load = |window: &dyn SmfuWindow, offset, time| window.load(offset, &mut bytes, time);
        let answered = self.through("load", other, at, &mut load)?;
        if let (true, Some(share)) = (answered, &other.share) {
            let (node, to) = (self.me.node, other.node);
            share.slices[node].area.check(at, &bytes, || format!("what node {node} loads from node {to}"));
        }
        Ok(())
    }

    /// An atomic operation on the word at or before `at`: it is done once, behind what this node did there before, and finds that.
    fn atomic(&mut self, other: &Rc<Member>, at: usize, posted: bool) -> Result<(), Dead> {
        let width = if self.random.bool() { Width::Eight } else { Width::Four };
        let (len, at) = (width.bytes(), at & !(width.bytes() - 1));
        let (number, operand, fits) = (self.random.u8(..10), self.random.u64(..), self.random.bool());
        let Some(share) = other.share.as_ref().filter(|_| !self.is_put_to(other, at, len)) else {
            return Ok(());
        };
        let (node, to, area) = (self.me.node, other.node, &share.slices[self.me.node].area);
        let old = word(&area.newest(at, len));
        let atomic = match Operation::new(number) {
            // Sums of numbers that are none have bits of their own.
            None | Some(Operation::AddFloat) => {
                Atomic::compare_exchange(width, if fits { old } else { !old }, operand)
            }
            Some(operation) => Atomic::new(operation, width, operand),
        };
        let new = atomic.apply(old);
        area.expect(at, new.to_le_bytes()[..len].to_vec());
        if posted {
            self.through("reduction", other, at, |window, offset, _| window.reduce(offset, atomic))?;
            return Ok(());
        }
        // One whose answer stayed out was done or not: the word says which, since whatever is behind it comes behind it.
        let mut open = false;
        self.through("atomic operation", other, at, |window, offset, time| {
            if open {
                let mut found = [0; 8];
                window.load(offset, &mut found[..len], time)?;
                let found = u64::from_le_bytes(found);
                let what = || format!("{atomic:?} of node {node} at byte {at} of node {to}, on {old:#x}");
                assert!(found == old || found == new, "{}: {found:#x}", what());
                if found == new {
                    return Ok(());
                }
            }
            open = true;
            let found = window.atomic(offset, atomic, time)?;
            assert_eq!(found, old, "what {atomic:?} of node {node} finds at byte {at} of node {to}");
            Ok(())
        })?;
        Ok(())
    }

    /// A put behind all stores to the same bytes.
    fn put_to_slice(&mut self, other: &Rc<Member>, at: usize, len: usize) -> Result<(), Dead> {
        let (me, other) = (self.me.clone(), other.clone());
        let (Some(share), Some(pair)) = (&other.share, me.pair(&other)) else { return Ok(()) };
        let Slice { area, puts } = &share.slices[me.node];
        let len = len.min(self.world.plan.bytes());
        let read = self.random.usize(..=self.world.plan.bytes() - len);
        puts.borrow_mut()[at..at + len].fill(true);
        let nla = area.nla(at);
        let put = || -> Result<(), PostError> {
            pair.connection.try_put(&me.outbox.region, read, len, nla, ggas::Spec::NONE)
        };
        self.post(put)?;
        area.expect(at, me.outbox.data(read, len));
        Ok(())
    }

    /// Tries an access until it is done; false where it was one to a node that died.
    fn through(
        &mut self,
        what: &str,
        other: &Rc<Member>,
        at: usize,
        mut access: impl FnMut(&dyn SmfuWindow, u64, Duration) -> Result<(), DeviceError>,
    ) -> Result<bool, Dead> {
        let (world, me) = (self.world, self.me.clone());
        let Some(share) = &me.share else { return Ok(false) };
        let offset = other.node as u64 * share.stride + (me.node * SLICE + at) as u64;
        let mut time = LOAD.0;
        world.until(
            || format!("a {what} of node {} at node {}", me.node, other.node),
            || {
                if me.over.get() {
                    return Some(Err(Dead));
                }
                match access(&*share.window, offset, time) {
                    Ok(()) => return Some(Ok(true)),
                    Err(DeviceError::SmfuAccess { .. }) if me.over.get() => return Some(Err(Dead)),
                    // Nobody answers for a dead node: the load's time ends (spec 6).
                    Err(DeviceError::SmfuAccess { .. }) if other.over.get() => return Some(Ok(false)),
                    Err(DeviceError::SmfuAccess { problem, .. }) => {
                        let network = problem.starts_with("the network took nothing");
                        let asks = what == "load" || what == "atomic operation";
                        let expected = network || asks && problem.starts_with("no answer to a");
                        assert!(expected, "a {what} of node {}: {problem}", me.node);
                    }
                    Err(error) => panic!("a {what} of node {}: {error}", me.node),
                }
                time = (2 * time).min(LOAD.1);
                self.drain();
                None
            },
        )
    }
}
