//! Meeting of blocks (`blocks.cuh`), and rounds that repeat themselves.

use std::time::Duration;

use ggas_kernels::{KernelMem, Launch, Loop, Processor, run_loops, start};
use ggas_selftest::args::{
    SELFTEST_PARTS_MEET, SELFTEST_PARTS_WAIT, selftest_blocks, selftest_edge, selftest_parts,
};
use ggas_selftest::launch;

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

/// An edge that the window refuses is not signalled, and can be sent again with other bytes.
#[test]
fn an_edge_is_signalled_behind_its_data_only() {
    /// Bytes of a part; then node 1's part, the window, the counter and the status follow.
    const PART: usize = 256;
    const WINDOW: usize = 2 * PART;
    const COUNTER: usize = WINDOW + 64;
    const STATUS: usize = COUNTER + 8;
    let cpu = Processor::cpu();
    let memory = cpu.alloc(STATUS + 8).unwrap();
    let at = |offset: usize| memory.address() + offset as u64;
    let size = PART as u64;
    // As `struct ggas_window` of layout.h: node 0 of 2, without a report.
    let window = [at(0), at(0), size, size, 2 << 32, 0, TIMEOUT.as_nanos() as u64];
    memory.write_u64s(WINDOW, &window).unwrap();
    memory.write(0, &[7; 128]).unwrap();
    for (bytes, round, seen, error) in [(PART as u64, 1, 0, true), (128, 2, 2, false)] {
        memory.store_u64(STATUS, 0).unwrap();
        let (window, counter, status) = (at(WINDOW), at(COUNTER), at(STATUS));
        let args = selftest_edge { window, from: at(0), bytes, to: 64, signal: 0, counter, round, status };
        // SAFETY: the structure is this kernel's, and the memory lives beyond the wait.
        let sent = unsafe { launch(&cpu, "ggas_selftest_edge", 3, THREADS, &args) };
        start(&[sent]).unwrap().wait(TIMEOUT).unwrap();
        assert_eq!(memory.load_u64(PART).unwrap(), seen, "round {round}");
        assert_eq!(memory.load_u64(STATUS).unwrap() != 0, error, "round {round}");
        assert_eq!(memory.load_u64(COUNTER).unwrap(), 0);
    }
    let mut arrived = [0; 128];
    memory.read(PART + 64, &mut arrived).unwrap();
    assert_eq!(arrived, [7; 128]);
}

/// Blocks of two nodes that wait for the parts beside their own, or meet, see what those stored in the round before, and
/// nothing of the next one.
#[test]
fn parts_see_each_other_of_the_round_before() {
    const NODES: u64 = 2;
    const ROUNDS: u32 = 50;
    let cpu = Processor::cpu();
    let (waits, meets) = (SELFTEST_PARTS_WAIT, SELFTEST_PARTS_MEET);
    // Of 70 blocks the last one tells of all.
    for (grid, what) in [(1, waits), (7, waits), (7, meets), (70, meets)] {
        let part = 8 * NODES * u64::from(grid) * (1 + 2 * u64::from(THREADS));
        let windows = (NODES * part) as usize;
        // A window of 7 words for each node, then what was wrong, and the status.
        let (wrong, status) = (windows + 14 * 8, windows + 15 * 8);
        let memory = cpu.alloc(status + 8).unwrap();
        let at = |offset: usize| memory.address() + offset as u64;
        let mut launches = Vec::new();
        for node in 0..NODES {
            // As `struct ggas_window` of layout.h, without a report.
            let timeout = TIMEOUT.as_nanos() as u64;
            let window = [at(0), at((node * part) as usize), part, part, NODES << 32 | node, 0, timeout];
            let place = windows + node as usize * 56;
            memory.write_u64s(place, &window).unwrap();
            let (window, wrong, status) = (at(place), at(wrong), at(status));
            let args = selftest_parts { window, wrong, status, rounds: ROUNDS, what };
            // SAFETY: the structure is this kernel's, and the memory lives beyond the wait.
            launches.push(unsafe { launch(&cpu, "ggas_selftest_parts", grid, THREADS, &args) });
        }
        start(&launches).unwrap().wait(TIMEOUT).unwrap();
        assert_eq!(
            (memory.load_u64(wrong).unwrap(), memory.load_u64(status).unwrap()),
            (0, 0),
            "{grid} {what}"
        );
        let last = memory.load_u64(0).unwrap();
        assert_eq!(last, u64::from(ROUNDS), "{grid} {what}");
    }
}
