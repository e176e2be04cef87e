//! Long payloads that the wire reads from GPU memory, and to it: cards of a network of hosts, all in this process, over a UCX that takes
//! some of the host's memory for a GPU's. Where there is no UCX the tests are skipped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use extoll_abi::{Access, Gate, PageSize, Spec};
use extoll_sim::memory::{DeviceCopier, RangeKind, TicketState};
use ggas_wire::Place;

use crate::common::hosts::Hosts;
use crate::common::joined::join;
use crate::common::members::drive;
use crate::common::*;
use memory::{APART, Memory, in_a_child};

#[path = "../../../userlib/wire/tests/gpu/memory.rs"]
mod memory;

/// What a put has most.
const LEN: usize = 4 << 20;
/// Where the table has the pages of GPU memory.
const FIRST: u32 = 1 << 16;

/// Copies to and from "GPU memory", when it is asked how they stand.
struct Copier {
    gpu: u64,
    /// The longest.
    most: AtomicUsize,
    copies: Mutex<(u64, HashMap<u64, Copy>)>,
}

enum Copy {
    Memory(u64, u64, usize),
    Bytes(u64, Vec<u8>),
}

impl Copier {
    /// Where the bytes of an address are.
    fn at(&self, address: u64) -> *mut u8 {
        let gpu = (self.gpu..self.gpu + APART as u64).contains(&address);
        (if gpu { address + APART as u64 } else { address }) as *mut u8
    }

    fn start(&self, len: usize, copy: Copy) -> u64 {
        self.most.fetch_max(len, Ordering::Relaxed);
        let (last, copies) = &mut *self.copies.lock().unwrap();
        *last += 1;
        copies.insert(*last, copy);
        *last
    }
}

impl DeviceCopier for Copier {
    fn copy(&self, destination: u64, source: u64, len: usize) -> u64 {
        self.start(len, Copy::Memory(destination, source, len))
    }

    fn write_inline(&self, destination: u64, bytes: &[u8]) -> u64 {
        self.start(bytes.len(), Copy::Bytes(destination, bytes.to_vec()))
    }

    fn poll(&self, id: u64) -> TicketState {
        // SAFETY: declared by these tests, or kept by the card until this is over.
        match self.copies.lock().unwrap().1.remove(&id).unwrap() {
            // SAFETY: ranges of this device's memory, which lives as long.
            Copy::Memory(to, from, len) => unsafe { std::ptr::copy(self.at(from), self.at(to), len) },
            // SAFETY: the same.
            Copy::Bytes(to, bytes) => unsafe { std::ptr::copy(bytes.as_ptr(), self.at(to), bytes.len()) },
        }
        TicketState::Done
    }

    fn is_cuda(&self) -> bool {
        true
    }
}

/// A GPU of a card: its memory, for a VPID, and the NLA of that.
struct Gpu {
    memory: Memory,
    copier: Arc<Copier>,
}

const NLA: u64 = (FIRST as u64) << 12;

impl Gpu {
    fn new(card: &Node, vpid: u8) -> Gpu {
        let memory = Memory::new();
        let base = memory.at(Place::Gpu) as u64;
        let (most, copies) = (AtomicUsize::new(0), Mutex::default());
        let copier = Arc::new(Copier { gpu: base, most, copies });
        // SAFETY: mapped for ever.
        unsafe { card.memory.add_range(RangeKind::Device(copier.clone()), base, 2 * LEN) }.unwrap();
        for page in 0..(2 * LEN / 4096) as u32 {
            let gate = Gate::new(vpid, Access::ALL, base + 4096 * u64::from(page), PageSize::K4).unwrap();
            card.set_gate(FIRST + page, gate);
        }
        Gpu { memory, copier }
    }

    fn bytes(&self, at: usize, len: usize) -> &mut [u8] {
        self.memory.bytes(Place::Gpu, at, len)
    }
}

#[test]
fn long_payloads_go_between_gpus() {
    in_a_child("hosts_gpu::child", env!("CARGO_TARGET_TMPDIR"));
}

#[test]
#[ignore = "for a process with a UCX that has GPUs"]
fn child() {
    let hosts = Hosts::new(2).unwrap();
    let ((near, first), (far, second)) = (join(&hosts, 0), join(&hosts, 1));
    let gpus = [Gpu::new(&first, 3), Gpu::new(&second, 5)];
    let (source, target) = (Pages::new(&first.memory, LEN, 4096), Pages::new(&second.memory, LEN, 4096));
    source.fill_pattern(7);
    gpus[0].bytes(0, LEN).iter_mut().zip(source.bytes(0, LEN)).for_each(|(to, from)| *to = !from);
    let cards = [first, second];
    let (mut here, mut there) = (cards[0].open(3, 1), cards[1].open(5, 1));
    let (read, write) =
        (cards[0].register(3, &source, Access::ALL), cards[1].register(5, &target, Access::ALL));
    for len in [1, 8, 64, 65, 4096, 4097, 32_767, 32_768, 32_769, 100_001, LEN] {
        for (from, to) in [(NLA, NLA), (NLA, write), (read, NLA)] {
            gpus[1].bytes(0, LEN + 1).fill(0);
            target.write(0, &vec![0; LEN]);
            gpus.iter().for_each(|gpu| gpu.copier.most.store(0, Ordering::Relaxed));
            here.put(there.address(), Spec::COMPLETER | Spec::REQUESTER, from, to, len as u32);
            let (mut came, mut over) = (false, false);
            drive(&cards, "a put", || {
                came |= there.try_next().is_some();
                over |= here.try_next().is_some();
                came && over
            });
            let sent = if from == NLA { gpus[0].bytes(0, len).to_vec() } else { source.bytes(0, len) };
            let got = if to == NLA { gpus[1].bytes(0, len).to_vec() } else { target.bytes(0, len) };
            assert!(sent == got, "{len} bytes from {from:#x} to {to:#x}");
            assert_eq!(gpus[1].bytes(len, 1), [0], "behind {len} bytes");
            // What fits a landing is written there.
            if from == NLA && len >= 32_768 || len > 65_536 {
                let copied = gpus.each_ref().map(|gpu| gpu.copier.most.load(Ordering::Relaxed));
                assert!(
                    copied.iter().all(|most| *most <= 64),
                    "{copied:?} of {len} bytes were copied by the copiers"
                );
            }
        }
    }
    // The way back.
    gpus[0].bytes(0, LEN).fill(0);
    here.get(there.address(), Spec::COMPLETER, NLA, NLA, LEN as u32);
    drive(&cards, "a get", || here.try_next().is_some());
    assert!(gpus[0].bytes(0, LEN) == gpus[1].bytes(0, LEN));
    assert_eq!((near.counts(), far.counts()), ((0, 0, 0), (0, 0, 0)));
    assert_eq!(cards.each_ref().map(Node::all_errors), [vec![], vec![]]);
    for (card, gpu) in cards.iter().zip(&gpus) {
        card.memory.remove_range(gpu.memory.at(Place::Gpu) as u64, 2 * LEN).unwrap();
    }
}
