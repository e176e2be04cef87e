//! Meeting of blocks (`blocks.cuh`), and rounds that repeat themselves.

use std::time::Duration;

use ggas_kernels::{KernelMem, Launch, Loop, Processor, run_loops, start};
use ggas_selftest::{args::selftest_blocks, launch};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What the kernel uses, for a grid.
struct Bed {
    cpu: Processor,
    memory: KernelMem,
    args: selftest_blocks,
    grid: u32,
}

const THREADS: u32 = 33;
const COUNTER: usize = 0;
const SEEN: usize = 8;
const LAST: usize = 16;
const LOOP: usize = 24;
const WORDS: usize = 40;

impl Bed {
    fn new(grid: u32) -> Bed {
        let cpu = Processor::cpu();
        let words = 8 * (grid * THREADS) as usize;
        let memory = cpu.alloc(WORDS + words).unwrap();
        let at = |offset: usize| memory.address() + offset as u64;
        let (counter, seen, last, words) = (at(COUNTER), at(SEEN), at(LAST), at(WORDS));
        let args = selftest_blocks { words, counter, seen, last, loop_: 0, value: 5, end: 0 };
        Bed { cpu, memory, args, grid }
    }

    fn launch(&self, resident: u32) -> Launch<'_> {
        // SAFETY: the structure is this kernel's, and the memory lives as long as `self`.
        let launch = unsafe { launch(&self.cpu, "ggas_selftest_blocks", self.grid, THREADS, &self.args) };
        launch.resident(resident)
    }

    fn word(&self, at: usize) -> u64 {
        self.memory.load_u64(at).unwrap()
    }
}

#[test]
fn one_block_is_the_last_and_sees_what_all_stored() {
    for (grid, resident) in [(1, 1), (7, 7), (7, 1), (40, 3)] {
        let bed = Bed::new(grid);
        for launches in 1..=3 {
            start(&[bed.launch(resident)]).unwrap().wait(TIMEOUT).unwrap();
            let all = u64::from(grid * THREADS) * 5;
            assert_eq!((bed.word(LAST), bed.word(SEEN)), (launches, launches * all), "{grid} {resident}");
            assert_eq!(bed.word(COUNTER), 0);
        }
    }
}

#[test]
fn a_loop_makes_as_many_rounds_as_are_left_or_until_a_kernel_ends_it() {
    for (end, rounds) in [(0, 6), (4, 4), (1, 1)] {
        let mut bed = Bed::new(3);
        bed.args.loop_ = bed.memory.address() + LOOP as u64;
        bed.args.end = end;
        bed.memory.write_u64s(LOOP, &[0, 6]).unwrap();
        let step = vec![bed.launch(2)];
        run_loops(&[Loop { steps: vec![step], words: (&bed.memory, LOOP) }], TIMEOUT).unwrap();
        assert_eq!((bed.word(LOOP), bed.word(LOOP + 8)), (rounds, 0));
        assert_eq!(bed.word(LAST), rounds);
        let per_thread: u64 = (0..rounds).map(|round| 5 + round).sum();
        assert_eq!(bed.word(SEEN), u64::from(3 * THREADS) * per_thread);
    }
}
