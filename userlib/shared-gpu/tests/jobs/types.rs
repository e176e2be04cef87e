//! Every type of elements, by every algorithm, on one GPU and on two.

use crate::common::in_job;
use crate::ranks::{SOON, by_turns as processor};
use ggas_kernels::KernelMem;
use ggas_members::Job;
use ggas_shared_gpu::{Algorithm, Config, Copier, Element, Hierarchy, HierarchyConfig, Op, Vector};

/// Several chunks of a small buffer, and odd.
const COUNT: usize = 3001;
const RANKS: usize = 3;

/// Of whole numbers of 8 and 16 bits sums wrap; the others' fit, halves' without rounding.
fn number(element: Element, rank: usize, at: usize) -> i64 {
    match element {
        Element::Half | Element::Bfloat16 => (rank as i64 + 1) * (at as i64 % 3 + 1),
        // None below zero: as one without sign it would be no `i64`, and a product of floats with zero would be `-0.0`.
        Element::Uint64 | Element::Float | Element::Double => (rank as i64 + 1) * 41 + at as i64 % 97,
        _ => (rank as i64 + 1) * 41 - at as i64 % 97,
    }
}

/// Bits of a small whole number as an element.
fn bits(element: Element, value: i64) -> u64 {
    match element {
        Element::Float => u64::from((value as f32).to_bits()),
        Element::Double => (value as f64).to_bits(),
        Element::Bfloat16 => u64::from((value as f32).to_bits() >> 16),
        // A normal number of at most 11 bits: the exponent's bias is 15 for 127, and 13 bits of the fraction fall away.
        Element::Half => u64::from(((value as f32).to_bits() >> 13) - (112 << 10)),
        _ => value as u64,
    }
}

fn bytes(element: Element, values: impl Iterator<Item = i64>) -> Vec<u8> {
    values.flat_map(|value| bits(element, value).to_ne_bytes().into_iter().take(element.size())).collect()
}

/// What a whole number is once it is in an element.
fn wrapped(element: Element, value: i64) -> i64 {
    match element {
        Element::Int8 => i64::from(value as i8),
        Element::Uint8 => i64::from(value as u8),
        Element::Int16 => i64::from(value as i16),
        Element::Uint16 => i64::from(value as u16),
        Element::Uint32 => i64::from(value as u32),
        _ => value,
    }
}

fn combined(element: Element, op: Op, at: usize) -> i64 {
    let own = |rank| wrapped(element, number(element, rank, at));
    let fold = |one: i64, two: i64| match op {
        Op::Sum => wrapped(element, one.wrapping_add(two)),
        Op::Prod => wrapped(element, one.wrapping_mul(two)),
        Op::Min => one.min(two),
        Op::Max => one.max(two),
        Op::And => one & two,
        Op::Or => one | two,
        Op::Xor => one ^ two,
    };
    (0..RANKS).map(own).reduce(fold).expect("a rank")
}

struct Rank {
    all: Hierarchy,
    input: KernelMem,
    output: KernelMem,
    me: usize,
}

impl Rank {
    fn new(job: &Job, gpus: u32, algorithm: Option<Algorithm>, flat: Option<Algorithm>) -> Rank {
        let of = || Config { buffer: 16 << 10, algorithm, timeout: SOON, ..Config::default() };
        let gpu = Some(job.rank() % gpus);
        let config = HierarchyConfig { inside: of(), between: of(), flat, gpu, ..HierarchyConfig::default() };
        let processor = processor(job);
        let all = Hierarchy::new(job, None, &processor, &config).expect("set up");
        let memory = || processor.alloc(8 * RANKS * COUNT + 8).expect("memory");
        Rank { all, input: memory(), output: memory(), me: job.rank() as usize }
    }

    fn gives(&self, what: &str, expected: &[u8]) {
        let mut got = vec![0; expected.len() + 8];
        self.output.read(0, &mut got).expect("in range");
        assert!(got[..expected.len()] == *expected, "{what} at rank {}", self.me);
        assert!(got[expected.len()..] == [0xee; 8], "{what} at rank {}: beyond", self.me);
        self.output.write(0, &vec![0xee; self.output.len()]).expect("in range");
    }

    fn reductions(&mut self, what: &str, element: Element, count: usize) {
        for op in Op::ALL {
            let is_of_bits = matches!(op, Op::And | Op::Or | Op::Xor);
            let is_whole =
                !matches!(element, Element::Float | Element::Double | Element::Half | Element::Bfloat16);
            if is_of_bits && !is_whole {
                continue;
            }
            let (input, output) = (Vector::at(&self.input, 0), Vector::at(&self.output, 0));
            self.all.allreduce(input, output, count, element, op).expect("a reduction");
            let what = format!("{what}: {op:?} of {count} {element:?}");
            self.gives(&what, &bytes(element, (0..count).map(|at| combined(element, op, at))));
        }
    }

    /// What only moves, and parts of a sum: each rank has `count` elements for each.
    fn moves(&mut self, what: &str, element: Element, count: usize) {
        let what = |call: &str| format!("{what}: {call} of {count} {element:?}");
        let (input, output) = (Vector::at(&self.input, 0), Vector::at(&self.output, 0));
        let of = |rank: usize, at: usize| number(element, rank, at);
        let each = |make: &dyn Fn(usize, usize) -> i64| {
            bytes(element, (0..RANKS * count).map(|at| make(at / count, at % count)))
        };
        self.all.allgather(input, output, count, element).expect("all together");
        self.gives(&what("allgather"), &each(&of));
        self.all.alltoall(input, output, count, element).expect("all to all");
        self.gives(&what("alltoall"), &each(&|rank, at| of(rank, self.me * count + at)));
        self.all.reduce_scatter(input, output, count, element, Op::Max).expect("parts");
        let own = self.me * count..(self.me + 1) * count;
        self.gives(&what("reduce-scatter"), &bytes(element, own.map(|at| combined(element, Op::Max, at))));
        if self.me == 1 {
            self.output.write(0, &bytes(element, (0..count).map(|at| of(1, at)))).expect("in range");
        }
        self.all.broadcast(1, output, count, element).expect("sent");
        self.gives(&what("broadcast"), &bytes(element, (0..count).map(|at| of(1, at))));
    }

    fn all_types(&mut self, what: &str) {
        for element in Element::ALL {
            let own = bytes(element, (0..RANKS * COUNT).map(|at| number(element, self.me, at)));
            self.input.write(0, &own).expect("in range");
            self.output.write(0, &vec![0xee; self.output.len()]).expect("in range");
            for count in [7, COUNT] {
                self.reductions(what, element, count);
                self.moves(what, element, count);
            }
        }
    }
}

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Gsb,
    Algorithm::Btb,
    Algorithm::Host,
    Algorithm::Static { staged: 1, by: Copier::Engine },
    Algorithm::Static { staged: 0, by: Copier::Stores },
    Algorithm::Static { staged: 0, by: Copier::Bulk },
    Algorithm::Dynamic,
];

#[test]
fn every_type_by_every_algorithm_on_a_gpu() {
    in_job("types::every_type_by_every_algorithm_on_a_gpu", (RANKS as u32, 1), |job| {
        for algorithm in ALGORITHMS {
            Rank::new(job, 1, Some(algorithm), None).all_types(&format!("{algorithm:?}"));
        }
        job.barrier(SOON).expect("all are done");
    });
}

#[test]
fn every_type_on_two_gpus() {
    in_job("types::every_type_on_two_gpus", (RANKS as u32, 1), |job| {
        Rank::new(job, 2, Some(Algorithm::Gsb), None).all_types("GPU by GPU");
        Rank::new(job, 2, None, Some(Algorithm::Host)).all_types("beside each other");
        job.barrier(SOON).expect("all are done");
    });
}
