//! Collectives of kernels on the CPU executor: what they compute.

use crate::common::{Setup, USER, small};
use crate::element::Element;
use ggas_coll::GroupConfig;
use ggas_kernels::KernelMem;
use ggas_selftest::args::*;

const ALLREDUCE: [u32; 9] = [
    SELFTEST_ALLREDUCE,
    SELFTEST_ALLREDUCE_ONE_SHOT,
    SELFTEST_ALLREDUCE_TWO_SHOT,
    SELFTEST_ALLREDUCE_READ,
    SELFTEST_ALLREDUCE_GATHER,
    SELFTEST_ALLREDUCE_ALL_GATHER,
    SELFTEST_ALLREDUCE_TREE,
    SELFTEST_ALLREDUCE_ALL_TO_ALL,
    SELFTEST_ALLREDUCE_WINDOW,
];
const REDUCE: [u32; 5] = [
    SELFTEST_REDUCE,
    SELFTEST_REDUCE_READ,
    SELFTEST_REDUCE_GATHER,
    SELFTEST_REDUCE_TREE,
    SELFTEST_REDUCE_ALL_TO_ALL,
];
const OTHERS: [u32; 4] =
    [SELFTEST_REDUCE_SCATTER, SELFTEST_BROADCAST, SELFTEST_ALL_GATHER, SELFTEST_ALL_TO_ALL];

fn methods() -> impl Iterator<Item = u32> {
    ALLREDUCE.into_iter().chain(REDUCE).chain(OTHERS)
}

/// Staging, which knows no parts of blocks, takes part in two forms.
fn forms(method: u32) -> &'static [u32] {
    match method {
        SELFTEST_ALLREDUCE_WINDOW => &[SELFTEST_BLOCK, SELFTEST_GRID],
        SELFTEST_ALLREDUCE_READ..=SELFTEST_ALLREDUCE_ALL_TO_ALL
        | SELFTEST_REDUCE_READ..=SELFTEST_REDUCE_ALL_TO_ALL => &[SELFTEST_BLOCK, SELFTEST_GRID],
        _ => &[SELFTEST_BLOCK, SELFTEST_OWNED, SELFTEST_SHARED, SELFTEST_GRID],
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    method: u32,
    form: u32,
    element: Element,
    op: u32,
    count: usize,
    in_place: bool,
    rounds: u32,
}

impl Case {
    fn is_window(&self) -> bool {
        self.method == SELFTEST_ALLREDUCE_WINDOW
    }

    /// Elements of each node's input and output.
    fn lengths(&self, nodes: usize) -> (usize, usize) {
        match self.method {
            SELFTEST_REDUCE_SCATTER => (nodes * self.count, self.count),
            SELFTEST_ALL_TO_ALL => (nodes * self.count, nodes * self.count),
            SELFTEST_ALL_GATHER => (self.count, nodes * self.count),
            _ => (self.count, self.count),
        }
    }

    /// What node `rank` must have in the end; `None`: whatever.
    fn expected(&self, inputs: &[Vec<u64>], root: usize, rank: usize) -> Option<Vec<u64>> {
        let count = self.count;
        let reduced = |at: usize| {
            let values: Vec<u64> = inputs.iter().map(|input| input[at]).collect();
            self.element.reduce(self.op, &values)
        };
        let parts = |part: &dyn Fn(usize, usize) -> u64| {
            let part = &part;
            (0..inputs.len()).flat_map(move |node| (0..count).map(move |i| part(node, i))).collect()
        };
        match self.method {
            SELFTEST_REDUCE_SCATTER => Some((0..count).map(|i| reduced(rank * count + i)).collect()),
            SELFTEST_BROADCAST => Some(inputs[root].clone()),
            SELFTEST_ALL_GATHER => Some(parts(&|node, i| inputs[node][i])),
            SELFTEST_ALL_TO_ALL => Some(parts(&|node, i| inputs[node][rank * count + i])),
            method if REDUCE.contains(&method) && rank != root => None,
            _ => Some((0..count).map(reduced).collect()),
        }
    }
}

fn check(setup: &Setup, case: Case, inputs: &[Vec<u64>]) {
    let (nodes, element) = (setup.group.len(), case.element);
    let root = nodes - 1;
    let (_, out_len) = case.lengths(nodes);
    // The window's user part holds input, and output behind it.
    let half = USER / 2;
    let window = setup.group.window();
    let offset_out = if case.in_place { 0 } else { half };
    let memory: Vec<(KernelMem, KernelMem)> = inputs
        .iter()
        .enumerate()
        .map(|(rank, values)| {
            let bytes = element.bytes(values);
            let poison = vec![0xaa; (out_len * element.size()).max(16)];
            if case.is_window() {
                window.write(rank, half, &vec![0xaa; bytes.len()]).expect("in range");
                window.write(rank, 0, &bytes).expect("in range");
            }
            let [input, output] = [&bytes, &poison].map(|filled| {
                let memory = setup.cpu.alloc(filled.len().max(16)).expect("memory");
                memory.write(0, filled).expect("in range");
                memory
            });
            // Data that are broadcast lie in the output.
            if case.method == SELFTEST_BROADCAST && rank == root {
                output.write(0, &bytes).expect("in range");
            }
            (input, output)
        })
        .collect();
    let args: Vec<_> = (0..nodes)
        .map(|rank| {
            let (input, output) = &memory[rank];
            let output = if case.in_place { input } else { output };
            let base = selftest_coll {
                window: window.member(rank).expect("a member").address(),
                count: case.count as u64,
                element: element.code(),
                op: case.op,
                form: case.form,
                method: case.method,
                rounds: case.rounds,
                root: root as u32,
                ..setup.args(rank)
            };
            if case.is_window() {
                selftest_coll { input: 0, out: offset_out as u64, ..base }
            } else {
                selftest_coll { input: input.address(), out: output.address(), ..base }
            }
        })
        .collect();
    let (grid, block) = if case.form == SELFTEST_BLOCK { (1, 40) } else { (3, 32) };
    let what = format!("{nodes} nodes, {case:?}");
    assert_eq!(setup.run(grid, block, &args), vec![0; nodes], "{what}: {:?}", setup.group.check());
    setup.group.check().expect("no failure");
    for (rank, (input, output)) in memory.iter().enumerate() {
        let Some(expected) = case.expected(inputs, root, rank) else { continue };
        let mut seen = vec![0; out_len * element.size()];
        match (case.is_window(), case.in_place) {
            (true, _) => window.read(rank, offset_out, &mut seen).expect("in range"),
            (false, true) => input.read(0, &mut seen).expect("in range"),
            (false, false) => output.read(0, &mut seen).expect("in range"),
        }
        assert!(seen == element.bytes(&expected), "rank {rank} of {what}");
    }
}

fn whole_numbers(random: &mut fastrand::Rng, setup: &Setup, case: &Case) -> Vec<Vec<u64>> {
    let (in_len, _) = case.lengths(setup.group.len());
    let mut vector = || (0..in_len).map(|_| case.element.whole(case.op, random)).collect();
    (0..setup.group.len()).map(|_| vector()).collect()
}

#[test]
fn every_method_is_right_for_every_length() {
    let mut random = fastrand::Rng::with_seed(1);
    for nodes in [1, 2, 3, 4, 5, 8] {
        let setup = Setup::new(nodes, small());
        for method in methods() {
            for (i, count) in [0, 1, 2, 3, 7, 31, 64, 65, 257, 640].into_iter().enumerate() {
                let form = forms(method)[i % forms(method).len()];
                let element = Element::Float;
                let case =
                    Case { method, form, element, op: SELFTEST_SUM, count, in_place: false, rounds: 2 };
                check(&setup, case, &whole_numbers(&mut random, &setup, &case));
            }
        }
    }
}

#[test]
fn every_form_of_every_method_is_right() {
    let mut random = fastrand::Rng::with_seed(2);
    for nodes in [2, 3] {
        let setup = Setup::new(nodes, small());
        for method in methods() {
            for &form in forms(method) {
                for count in [1, 100, 601] {
                    let element = Element::Float;
                    let case =
                        Case { method, form, element, op: SELFTEST_SUM, count, in_place: false, rounds: 3 };
                    check(&setup, case, &whole_numbers(&mut random, &setup, &case));
                }
            }
        }
    }
}

#[test]
fn every_method_is_right_for_every_type_and_operation() {
    let mut random = fastrand::Rng::with_seed(3);
    let setup = Setup::new(3, small());
    for method in methods() {
        for element in Element::ALL {
            for &op in element.ops() {
                for (form, count) in forms(method).iter().zip([37, 203]) {
                    let case = Case { method, form: *form, element, op, count, in_place: false, rounds: 1 };
                    check(&setup, case, &whole_numbers(&mut random, &setup, &case));
                }
            }
        }
    }
}

#[test]
fn results_may_replace_inputs() {
    let mut random = fastrand::Rng::with_seed(4);
    for nodes in [2, 3, 4] {
        let setup = Setup::new(nodes, small());
        for method in ALLREDUCE.into_iter().chain(REDUCE) {
            for element in [Element::Float, Element::Half, Element::Int64] {
                for &form in forms(method) {
                    let case = Case {
                        method,
                        form,
                        element,
                        op: SELFTEST_SUM,
                        count: 333,
                        in_place: true,
                        rounds: 1,
                    };
                    check(&setup, case, &whole_numbers(&mut random, &setup, &case));
                }
            }
        }
    }
}

#[test]
fn sums_are_made_in_the_order_of_ranks_and_rounded_once() {
    let mut random = fastrand::Rng::with_seed(5);
    let setup = Setup::new(5, small());
    for method in ALLREDUCE.into_iter().filter(|method| *method != SELFTEST_ALLREDUCE_TREE) {
        for element in [Element::Float, Element::Double, Element::Half, Element::Bfloat16] {
            let form = SELFTEST_BLOCK;
            let case =
                Case { method, form, element, op: SELFTEST_SUM, count: 250, in_place: false, rounds: 1 };
            let mut vector = || (0..250).map(|_| element.any(&mut random)).collect();
            let inputs: Vec<Vec<u64>> = (0..5).map(|_| vector()).collect();
            check(&setup, case, &inputs);
        }
    }
}

#[test]
fn sixteen_bits_survive_the_way_through_a_float() {
    let setup = Setup::new(1, GroupConfig::default());
    for element in [Element::Half, Element::Bfloat16] {
        let all: Vec<u64> = (0..1 << 16).filter(|&bits| !element.is_nan(bits)).collect();
        let case = Case {
            method: SELFTEST_ALLREDUCE,
            form: SELFTEST_BLOCK,
            element,
            op: SELFTEST_SUM,
            count: all.len(),
            in_place: false,
            rounds: 1,
        };
        check(&setup, case, &[all]);
    }
}

#[test]
fn different_collectives_follow_each_other() {
    let mut random = fastrand::Rng::with_seed(6);
    // Also with buffers as small as groups of a thousand nodes have.
    let least = GroupConfig { packed_bytes: 256, ..small() };
    assert_eq!((least.packed_bytes, least.packed_channels, least.slot_bytes), {
        let many = GroupConfig::for_nodes(1024);
        (many.packed_bytes, many.packed_channels, many.slot_bytes)
    });
    for (nodes, config) in [(2, small()), (4, small()), (5, least)] {
        let setup = Setup::new(nodes, config);
        for _ in 0..150 {
            let all: Vec<u32> = methods().collect();
            let method = all[random.usize(..all.len())];
            let form = forms(method)[random.usize(..forms(method).len())];
            let rounds = random.u32(1..4);
            let count = random.usize(..500);
            let element = Element::Int32;
            let case = Case { method, form, element, op: SELFTEST_SUM, count, in_place: false, rounds };
            check(&setup, case, &whole_numbers(&mut random, &setup, &case));
        }
        for method in [SELFTEST_SYNC, SELFTEST_BARRIER, SELFTEST_BARRIER_MASTER] {
            assert_eq!(setup.barrier(method, 2, 32, 3), vec![0; nodes]);
        }
    }
}
