//! Collectives that the host starts: on the CPU executor, or on the first two GPUs with `GGAS_TEST_GPUS=2`.

use std::time::Duration;

use crate::common::{Setup, TIMEOUT, USER, small};
use crate::element::Element as Numbers;
use ggas_coll::{Collective, Element, GroupConfig, GroupError, Op, SumShape, Vectors};
use ggas_kernels::{Launch, start};
use ggas_selftest::args::*;

/// Where results lie: behind inputs of at most this many bytes.
const OUTPUT: usize = USER / 2;
const GUARD: u8 = 0xa5;
const ONE: SumShape = SumShape { blocks: 1, threads: 32, chunks: 0 };

const OPS: [(Op, u32); 7] = [
    (Op::Sum, SELFTEST_SUM),
    (Op::Prod, SELFTEST_PROD),
    (Op::Min, SELFTEST_MIN),
    (Op::Max, SELFTEST_MAX),
    (Op::And, SELFTEST_AND),
    (Op::Or, SELFTEST_OR),
    (Op::Xor, SELFTEST_XOR),
];

fn element_of(numbers: Numbers) -> Element {
    match numbers {
        Numbers::Float => Element::Float,
        Numbers::Double => Element::Double,
        Numbers::Int32 => Element::Int32,
        Numbers::Int64 => Element::Int64,
        Numbers::Half => Element::Half,
        Numbers::Bfloat16 => Element::Bfloat16,
    }
}

/// Elements of each node's input.
fn in_len(what: Collective, nodes: usize, count: usize) -> usize {
    match what {
        Collective::Barrier => 0,
        Collective::AllToAll | Collective::ReduceScatter { .. } => nodes * count,
        _ => count,
    }
}

/// What node `rank` must find at its output; `None`: what was there.
fn expected(
    what: Collective,
    numbers: Numbers,
    op: u32,
    inputs: &[Vec<u64>],
    count: usize,
    rank: usize,
) -> Option<Vec<u64>> {
    let reduced = |at: usize| numbers.reduce(op, &inputs.iter().map(|input| input[at]).collect::<Vec<_>>());
    match what {
        Collective::Barrier => None,
        Collective::Broadcast { root } => Some(inputs[root].clone()),
        Collective::AllGather => Some(inputs.concat()),
        Collective::AllToAll => {
            Some(inputs.iter().flat_map(|input| input[rank * count..][..count].to_vec()).collect())
        }
        Collective::ReduceScatter { .. } => Some((0..count).map(|i| reduced(rank * count + i)).collect()),
        Collective::Reduce { root, .. } if rank != root => None,
        Collective::Reduce { .. } | Collective::Allreduce { .. } => Some((0..count).map(reduced).collect()),
    }
}

struct Case {
    what: Collective,
    numbers: Numbers,
    op: u32,
    count: usize,
    in_place: bool,
    shape: (u32, u32),
    /// Sums by writes, in so many parts; 0: by reads.
    chunks: u32,
}

fn run(setup: &Setup, what: Collective, vectors: impl Fn(usize) -> Vectors) {
    let launch = |rank| {
        setup.group.collective(rank, &setup.processors[rank], what, &vectors(rank)).expect("it can be")
    };
    let launches: Vec<_> = (0..setup.group.len()).map(launch).collect();
    start(&launches).and_then(|running| running.wait(TIMEOUT)).expect("kernels end");
    setup.group.check().expect("no failure");
}

fn check(setup: &Setup, random: &mut fastrand::Rng, case: &Case) {
    let &Case { what, numbers, op, count, in_place, shape: (blocks, threads), chunks } = case;
    let (nodes, size, window) = (setup.group.len(), numbers.size(), setup.group.window());
    let mut input =
        || (0..in_len(what, nodes, count)).map(|_| numbers.whole(op, random)).collect::<Vec<u64>>();
    let inputs: Vec<Vec<u64>> = (0..nodes).map(|_| input()).collect();
    let place = |rank: usize| match what {
        Collective::Broadcast { .. } => OUTPUT,
        Collective::AllGather if in_place => OUTPUT + rank * count * size,
        _ if in_place => OUTPUT,
        _ => 0,
    };
    for (rank, input) in inputs.iter().enumerate() {
        window.write(rank, 0, &vec![GUARD; USER]).expect("in range");
        window.write(rank, place(rank), &numbers.bytes(input)).expect("in range");
    }
    let element = element_of(numbers);
    let vectors = |rank| Vectors {
        input: place(rank),
        output: OUTPUT,
        count,
        element,
        shape: Some(SumShape { blocks, threads, chunks }),
    };
    let before: Vec<Vec<u8>> = (0..nodes).map(|rank| read(setup, rank)).collect();
    run(setup, what, vectors);
    for (rank, mut should) in before.into_iter().enumerate() {
        if let Some(values) = expected(what, numbers, op, &inputs, count, rank) {
            let bytes = numbers.bytes(&values);
            should[OUTPUT..][..bytes.len()].copy_from_slice(&bytes);
        }
        let seen = read(setup, rank);
        let first = seen.iter().zip(&should).position(|(a, b)| a != b);
        assert_eq!(
            first, None,
            "first wrong byte at rank {rank} of {nodes}: {what:?} of {count} {numbers:?}, {blocks} x {threads}, in \
             {chunks} chunks, in place: {in_place}"
        );
    }
}

/// All of the user's part: what a collective must not touch is compared, too.
fn read(setup: &Setup, rank: usize) -> Vec<u8> {
    let mut bytes = vec![0; USER];
    setup.group.window().read(rank, 0, &mut bytes).expect("in range");
    bytes
}

fn moves(root: usize) -> [Collective; 4] {
    [Collective::Barrier, Collective::Broadcast { root }, Collective::AllGather, Collective::AllToAll]
}

fn reductions(root: usize, op: Op) -> [Collective; 3] {
    [Collective::Reduce { root, op }, Collective::ReduceScatter { op }, Collective::Allreduce { op }]
}

#[test]
fn every_collective_is_right_for_every_length() {
    let mut random = fastrand::Rng::with_seed(11);
    for nodes in [1, 2, 3, 4, 5] {
        let setup = Setup::anywhere(nodes, small());
        let root = nodes / 2;
        for what in moves(root).into_iter().chain(reductions(root, Op::Sum)) {
            // Bytes of a part: nothing, less than a line, lines and what is left, several blocks' shares.
            for count in [0, 1, 3, 4, 33, 128, 500, 1533] {
                for shape in [(1, 32), (3, 40)] {
                    let case = Case {
                        what,
                        numbers: Numbers::Float,
                        op: SELFTEST_SUM,
                        count,
                        in_place: false,
                        shape,
                        chunks: 0,
                    };
                    check(&setup, &mut random, &case);
                }
            }
        }
    }
}

#[test]
fn every_type_and_operation_is_right() {
    let mut random = fastrand::Rng::with_seed(12);
    let setup = Setup::anywhere(3, small());
    for numbers in Numbers::ALL {
        for (op, code) in OPS.into_iter().filter(|(_, code)| numbers.ops().contains(code)) {
            for what in reductions(1, op) {
                for count in [37, 205] {
                    let case = Case {
                        what,
                        numbers,
                        op: code,
                        count,
                        in_place: count == 205 && place_free(what),
                        shape: (2, 64),
                        chunks: 0,
                    };
                    check(&setup, &mut random, &case);
                }
            }
        }
        for what in moves(2) {
            let (count, shape, chunks) = (77, (2, 64), 0);
            let case = Case { what, numbers, op: SELFTEST_SUM, count, in_place: false, shape, chunks };
            check(&setup, &mut random, &case);
        }
    }
}

/// Whether the result may replace the input.
fn place_free(what: Collective) -> bool {
    matches!(what, Collective::Reduce { .. } | Collective::Allreduce { .. })
}

#[test]
fn a_gathered_vector_may_hold_its_parts_already() {
    let mut random = fastrand::Rng::with_seed(13);
    for nodes in [2, 4] {
        let setup = Setup::anywhere(nodes, small());
        for count in [4, 64, 500] {
            let what = Collective::AllGather;
            let case = Case {
                what,
                numbers: Numbers::Int32,
                op: SELFTEST_SUM,
                count,
                in_place: true,
                shape: (2, 32),
                chunks: 0,
            };
            check(&setup, &mut random, &case);
        }
    }
}

#[test]
fn sums_by_writes_are_right_in_any_number_of_chunks() {
    let mut random = fastrand::Rng::with_seed(14);
    let what = Collective::Allreduce { op: Op::Sum };
    for nodes in [1, 2, 3, 4] {
        let setup = Setup::anywhere(nodes, small());
        for numbers in [Numbers::Float, Numbers::Int64, Numbers::Half] {
            // No full part, chunks without a line, chunks of several sizes, and what makes no full line.
            for count in [5, 130, 4001] {
                for chunks in [1, 2, 3, 4, 7] {
                    for in_place in [false, true] {
                        let op = SELFTEST_SUM;
                        let case = Case { what, numbers, op, count, in_place, shape: (2, 32), chunks };
                        check(&setup, &mut random, &case);
                    }
                }
            }
        }
    }
}

#[test]
fn vectors_that_cannot_be_are_refused() {
    let setup = Setup::anywhere(2, small());
    let good = Vectors { input: 0, output: OUTPUT, count: 64, element: Element::Float, shape: Some(ONE) };
    let refused = |what, vectors: Vectors, part: &str| {
        let error =
            setup.group.collective(0, &setup.processors[0], what, &vectors).map(drop).expect_err(part);
        assert!(matches!(error, GroupError::Vectors(_)) && error.to_string().contains(part), "{error}");
    };
    let sum = Collective::Allreduce { op: Op::Sum };
    refused(sum, Vectors { shape: Some(SumShape { blocks: 257, ..ONE }), ..good }, "at most 256");
    refused(sum, Vectors { shape: Some(SumShape { threads: 513, ..ONE }), ..good }, "at most 256 of 512");
    refused(sum, Vectors { input: 8, ..good }, "multiple of 16");
    refused(sum, Vectors { output: 16, ..good }, "overlap");
    refused(sum, Vectors { output: USER, ..good }, "are not free");
    refused(sum, Vectors { count: usize::MAX, ..good }, "are not free");
    refused(Collective::AllToAll, Vectors { output: 0, ..good }, "overlap");
    refused(Collective::ReduceScatter { op: Op::Sum }, Vectors { output: 256, ..good }, "overlap");
    refused(Collective::AllGather, Vectors { input: OUTPUT + 256, ..good }, "overlap");
    refused(Collective::Broadcast { root: 2 }, good, "use 0 to 1");
    refused(Collective::Allreduce { op: Op::Xor }, good, "use whole numbers");
    let none = setup.group.collective(2, &setup.processors[0], sum, &good).map(drop);
    assert!(matches!(none, Err(GroupError::NoSuchMember { member: 2, .. })), "{none:?}");
}

#[test]
fn a_member_that_does_not_come_is_named() {
    let timeout = Duration::from_secs(1);
    let setup = Setup::anywhere(3, GroupConfig { timeout, ..small() });
    // Ranks 0 and 2 share a GPU, if there are two.
    let vectors = Vectors { input: 0, output: OUTPUT, count: 64, element: Element::Float, shape: Some(ONE) };
    let what = Collective::Reduce { root: 0, op: Op::Max };
    let launch =
        |rank| setup.group.collective(rank, &setup.processors[rank], what, &vectors).expect("it can be");
    let ends = |launches: &[Launch<'_>]| {
        start(launches).and_then(|running| running.wait(TIMEOUT)).expect("kernels end by themselves");
        setup.group.check().map_err(Box::new)
    };
    let attempt = || {
        let error = ends(&[launch(0), launch(2)]).expect_err("member 1 never came");
        let GroupError::Failed { report, .. } = &*error else { panic!("{error}") };
        setup.group.reset().expect("no kernel runs");
        let after = ends(&[launch(0), launch(1), launch(2)]);
        if after.is_err() {
            setup.group.reset().expect("no kernel runs");
        }
        if report.peer == Some(1) { after } else { Err(error) }
    };
    // A machine may stall for as long as members wait, but not each time.
    let late: Vec<_> = (0..5).map_while(|_| attempt().err()).collect();
    assert!(late.len() < 5, "{late:?}");
}
