//! Buffers in the memory that a process shares with its job. A process of its own: the arena that buffers come from
//! is one for the whole process.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use extoll_sim::shared::ProcessFabric;
use ggas_device::sim::SimNetwork;
use ggas_device::{HostBuffer, PAGE};
use ggas_members::memory::Arena;
use ggas_members::{Member, Shape};
use proptest::prelude::*;

/// Tests that join, one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn joined() -> (SimNetwork, Arc<Arena>) {
    let member = Member::all_of_job(Shape::new(1, 1).unwrap()).unwrap().remove(0);
    let fabric = ProcessFabric::join(member).unwrap();
    let arena = fabric.arena().clone();
    (SimNetwork::join(fabric).unwrap(), arena)
}

fn lies_in(arena: &Arena, buffer: &HostBuffer) -> bool {
    arena.offset_of(buffer.address(), buffer.len()).is_some()
}

/// Bytes of physical memory behind the arena.
fn resident(arena: &Arena) -> u64 {
    let stat = nix::sys::stat::fstat(arena.fd().as_fd()).unwrap();
    stat.st_blocks as u64 * 512
}

#[test]
fn buffers_come_from_the_arena_from_the_join_to_the_end_of_the_job() {
    let _alone = alone();
    let before = HostBuffer::zeroed(100).unwrap();
    let (network, arena) = joined();
    let during = HostBuffer::zeroed(100).unwrap();
    assert!(!lies_in(&arena, &before) && lies_in(&arena, &during));
    assert!(!lies_in(&arena, &HostBuffer::unshared(100).unwrap()));
    // What finds no room is private, what is absurd is refused.
    let large = HostBuffer::zeroed(arena.len() + 1).unwrap();
    assert!(!lies_in(&arena, &large));
    assert!(HostBuffer::zeroed(usize::MAX / 2).is_err());
    assert!(HostBuffer::zeroed(0).unwrap().is_empty());

    // A buffer outlives its job.
    drop(network);
    during.store_u64(8, 7);
    let kept = Arc::downgrade(&arena);
    drop(arena);
    assert_eq!(during.load_u64(8), 7);
    drop(during);
    assert!(kept.upgrade().is_none(), "the arena goes with its last buffer");
    let after = HostBuffer::zeroed(100).unwrap();
    after.store_u64(0, 1);
}

#[test]
fn pages_are_touched_lazily_and_given_back() {
    let arena = Arena::create(1 << 30).unwrap();
    let buffer = HostBuffer::in_arena(&arena, 512 << 20).unwrap();
    assert_eq!(resident(&arena), 0);
    buffer.write(100 << 20, &vec![7; 32 << 20]);
    assert_eq!(resident(&arena), 32 << 20);
    let other = HostBuffer::in_arena(&arena, 3 * PAGE).unwrap();
    other.write(PAGE, &[1]);
    drop(buffer);
    assert_eq!(resident(&arena), PAGE as u64, "the other buffer's page stays");
    assert!(HostBuffer::in_arena(&arena, 0).is_err());
    assert!(HostBuffer::in_arena(&arena, usize::MAX).is_err());
}

#[test]
fn a_forked_child_has_no_part_in_the_arena() {
    let _alone = alone();
    let (_network, arena) = joined();
    let buffer = HostBuffer::zeroed(PAGE).unwrap();
    buffer.store_u64(0, 42);
    // SAFETY: the child calls nothing but the code under test, which takes no lock that another thread may hold
    // now, and ends without running anything of its parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = HostBuffer::zeroed(PAGE).map(|own| own.store_u64(0, 1));
        drop(buffer); // gives nothing back: the block is the parent's
        let ok = own.is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended in order");
    assert_eq!(buffer.load_u64(0), 42);
    let next = HostBuffer::zeroed(PAGE).unwrap();
    assert!(lies_in(&arena, &next) && next.address() != buffer.address());
}

#[derive(Clone, Debug)]
enum Op {
    Make { pages: usize, align_shift: u32 },
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1usize..40, 0u32..10).prop_map(|(pages, align_shift)| Op::Make { pages, align_shift }),
        any::<usize>().prop_map(Op::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Blocks never overlap, begin aligned and zeroed, and leave nothing behind.
    #[test]
    fn blocks_are_apart_zeroed_and_returned(ops in prop::collection::vec(op(), 1..120)) {
        let arena = Arena::create(1 << 20).unwrap();
        let mut blocks = Vec::new();
        for (step, op) in ops.into_iter().enumerate() {
            match op {
                Op::Make { pages, align_shift } => {
                    let (len, align) = (pages * PAGE - step % PAGE, PAGE << align_shift);
                    let Ok(block) = arena.alloc(len, align) else { continue };
                    let start = block.ptr() as usize;
                    prop_assert!(start.is_multiple_of(align));
                    prop_assert!(arena.offset_of(start as u64, len).is_some());
                    // SAFETY: the block is ours, `len` bytes long.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(block.ptr(), len) };
                    prop_assert!(bytes.iter().all(|byte| *byte == 0), "a new block is zeroed");
                    bytes.fill(step as u8 | 1);
                    blocks.push((block, len, step as u8 | 1));
                }
                Op::Free(which) if !blocks.is_empty() => drop(blocks.swap_remove(which % blocks.len())),
                Op::Free(_) => {}
            }
        }
        for (block, len, fill) in &blocks {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(block.ptr(), *len) };
            prop_assert!(bytes.iter().all(|byte| byte == fill), "another block's owner wrote here");
        }
        let held: usize = blocks.iter().map(|(_, len, _)| len.next_multiple_of(PAGE)).sum();
        prop_assert_eq!(resident(&arena), held as u64);
        drop(blocks);
        prop_assert_eq!(resident(&arena), 0);
        // Free stretches are joined again.
        prop_assert!(arena.alloc(arena.len(), 1).is_ok());
    }
}
