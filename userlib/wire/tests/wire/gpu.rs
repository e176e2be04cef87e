//! Payloads in GPU memory that the library reads and writes itself, on a UCX that takes some of the host's memory for a GPU's
//! (`gpu/ucx_with_gpus.c`). Where UCX is not installed, or the crate was built without it, the tests are skipped.

#[path = "../gpu/memory.rs"]
mod memory;

use crate::common::{self, PATIENCE, pattern};
use ggas_clock::Clock;
use ggas_wire::{
    Choice, Endpoint, Event, GpuChoice, GpuReason, GpuWay, Key, Library, Peer, Place, Region, Taken,
    WireError, choose,
};
use memory::{APART, Memory, in_a_child};

struct Two {
    giver: Endpoint,
    reader: Endpoint,
    peer: Peer,
    from: Memory,
    to: Memory,
}

impl Two {
    fn new(choice: &Choice) -> Two {
        let [giver, mut reader] = [(); 2].map(|()| Endpoint::open(choice).unwrap());
        let peer = reader.insert(&giver.address().unwrap()).unwrap();
        let (from, to) = (Memory::new(), Memory::new());
        for place in [Place::Host, Place::Gpu] {
            from.bytes(place, 0, APART).iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at));
        }
        Two { giver, reader, peer, from, to }
    }

    fn until(&mut self, what: &str, mut over: impl FnMut(&mut Two) -> bool) {
        let end = Clock::REAL.deadline(PATIENCE);
        while !over(self) {
            assert!(Clock::REAL.now() < end, "waited for {what}");
            Clock::REAL.yield_now();
        }
    }

    fn grant(&mut self, place: Place, at: usize, len: usize) -> (Region, Key) {
        // SAFETY: mapped for ever, and not accessed while something is under way.
        let region = unsafe { self.giver.grant(self.from.at(place).wrapping_add(at), len, place) }.unwrap();
        (region, self.giver.key(region).unwrap().clone())
    }

    fn fetch(&mut self, key: &Key, (offset, len): (usize, usize), place: Place) {
        let to = self.to.at(place);
        self.until("room for a read", |two| {
            two.reader.poll(|_| {}).unwrap();
            // SAFETY: as above.
            let taken = unsafe { two.reader.fetch(two.peer, key, offset as u64, (to, len, place), 7) };
            taken.unwrap() == Taken::Yes
        });
    }

    fn take_back(&mut self, region: Region) {
        self.until("the end of the giver's part", |two| {
            two.giver.poll(|_| {}).unwrap();
            two.reader.poll(|_| {}).unwrap();
            match two.giver.unregister(region) {
                Ok(()) => true,
                Err(WireError::Busy { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        });
    }

    /// Whether a read succeeds.
    fn end(&mut self) -> bool {
        let mut end = None;
        self.until("the end of a read", |two| {
            let each = |event: Event<'_>| match event {
                Event::Done { token: 7 } => end = Some(true),
                Event::Failed { token: 7, .. } => end = Some(false),
                _ => {}
            };
            two.reader.poll(each).unwrap();
            two.giver.poll(|_| {}).unwrap();
            end.is_some()
        });
        end == Some(true)
    }
}

#[test]
fn ucx_reads_and_writes_gpu_memory() {
    in_a_child("gpu::child_reads_and_writes", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
#[ignore = "for a process with a UCX that has GPUs"]
fn child_reads_and_writes() {
    let choice = choose().unwrap();
    assert_eq!(choice.gpu, GpuChoice { way: GpuWay::Direct, reason: GpuReason::Asked });
    let mut two = Two::new(&choice);
    assert!(two.reader.reaches_gpus());
    const PLACES: [Place; 2] = [Place::Host, Place::Gpu];
    for (source, target) in PLACES.iter().flat_map(|from| PLACES.map(|to| (*from, to))) {
        for len in [1, 8, 4096, 40_000, (1 << 20) + 3, 20 << 20] {
            two.to.bytes(target, 0, len + 1).fill(0);
            let (region, key) = two.grant(source, 3, len + 2);
            two.fetch(&key, (1, len), target);
            assert!(two.end(), "{source:?} to {target:?}, {len} B");
            let right = two.to.bytes(target, 0, len) == two.from.bytes(source, 4, len);
            assert!(right && two.to.bytes(target, len, 1) == [0], "{source:?} to {target:?}, {len} B");
            two.take_back(region);
        }
    }
}

#[test]
fn what_was_not_granted_is_not_read() {
    in_a_child("gpu::child_is_refused", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
#[ignore = "for a process with a UCX that has GPUs"]
fn child_is_refused() {
    let choice = choose().unwrap();
    for target in [Place::Host, Place::Gpu] {
        let mut two = Two::new(&choice);
        let (region, key) = two.grant(Place::Gpu, 0, 5_000);
        let mut longer = key.bytes().to_vec();
        longer[..8].copy_from_slice(&10_000_u64.to_le_bytes());
        two.fetch(&Key::try_from(&longer[..]).unwrap(), (4_999, 2), target);
        assert!(!two.end(), "a byte beyond what was granted");
        two.giver.unregister(region).unwrap();
        two.fetch(&key, (0, 5_000), target);
        assert!(!two.end(), "memory that was taken back");
    }
}

#[test]
fn memory_that_is_still_sent_is_not_given_back() {
    in_a_child("gpu::child_sends", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
#[ignore = "for a process with a UCX that has GPUs"]
fn child_sends() {
    let mut two = Two::new(&choose().unwrap());
    const LEN: usize = 32 << 20;
    let (_, key) = two.grant(Place::Gpu, 0, 1);
    two.fetch(&key, (0, 1), Place::Gpu);
    assert!(two.end(), "a connection");
    // The reader stands still: what the giver has begun to send stays on its way.
    for polls in 0.. {
        let (region, key) = two.grant(Place::Gpu, 0, LEN);
        two.fetch(&key, (0, LEN), Place::Gpu);
        for _ in 0..polls {
            two.giver.poll(|_| {}).unwrap();
        }
        match two.giver.unregister(region) {
            Ok(()) => assert!(!two.end(), "the giver had not heard of the read"),
            Err(WireError::Busy { .. }) => {
                assert!(two.end(), "what began before goes on");
                return two.take_back(region);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// An endpoint that is closed touches no memory, also of what comes whole.
#[test]
fn closed_endpoints_write_nothing() {
    in_a_child("gpu::child_closes", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
#[ignore = "for a process with a UCX that has GPUs"]
fn child_closes() {
    let choice = choose().unwrap();
    let mut two = Two::new(&choice);
    const LEN: usize = 32 << 20;
    let (_, key) = two.grant(Place::Gpu, 0, LEN);
    two.fetch(&key, (0, LEN), Place::Gpu);
    for _ in 0..100 {
        two.reader.poll(|event| panic!("{event:?}")).unwrap();
        two.giver.poll(|_| {}).unwrap();
    }
    let other = Endpoint::open(&choice).unwrap();
    drop(std::mem::replace(&mut two.reader, other));
    let before = two.to.bytes(Place::Gpu, 0, LEN).to_vec();
    for _ in 0..10_000 {
        two.giver.poll(|_| {}).unwrap();
    }
    assert!(two.to.bytes(Place::Gpu, 0, LEN) == before);
}

/// Without such a library nothing changes, and who asks is told.
#[test]
fn gpus_that_are_not_reached_are_refused() {
    let Some(choice) = common::chosen(Library::Ucx) else { return };
    if choice.offer.gpu_memory {
        return;
    }
    assert_eq!(choice.gpu, GpuChoice { way: GpuWay::Staged, reason: GpuReason::OutOfReach });
    let mut endpoint = Endpoint::open(&choice).unwrap();
    let byte = 0_u8;
    // SAFETY: it is not read.
    let refused = unsafe { endpoint.grant(&raw const byte, 1, Place::Gpu) };
    assert!(refused.is_err() && !endpoint.reaches_gpus());
    let direct = GpuChoice { way: GpuWay::Direct, reason: GpuReason::Asked };
    let error = Endpoint::open(&Choice { gpu: direct, ..choice }).err().unwrap().to_string();
    assert!(error.contains("GPU memory"), "{error}");
}
