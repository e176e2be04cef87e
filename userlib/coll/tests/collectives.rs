//! Collectives of kernels on the CPU executor: values, order, failure, reset.

use std::sync::Arc;
use std::time::{Duration, Instant};

use extoll_abi::layout;
use ggas_coll::{Group, GroupConfig, GroupError};
use ggas_device::sim::SimNetwork;
use ggas_kernels::args::{
    SELFTEST_ALL_GATHER, SELFTEST_ALL_TO_ALL, SELFTEST_BARRIER, SELFTEST_DOUBLE, SELFTEST_FLOAT,
    SELFTEST_INT32, SELFTEST_INT64, SELFTEST_REDUCE, selftest_coll,
};
use ggas_kernels::{KernelMem, Launch, Processor, start};
use ggas_rma::Node;
use ggas_window::Window;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of each part before the group's area.
const USER: usize = 4096;

struct Setup {
    cpu: Processor,
    group: Group,
    status: Vec<KernelMem>,
    wrong: KernelMem,
    _network: SimNetwork,
}

impl Setup {
    fn new(nodes: usize, config: GroupConfig) -> Self {
        let network = SimNetwork::builder().nodes(nodes).build().expect("a network");
        let cpu = Processor::cpu();
        let members: Vec<_> = (0..nodes).map(|n| Node::new(network.device(n).expect("a device"))).collect();
        let config = GroupConfig { offset: USER, ..config };
        let pairs: Vec<_> = members.iter().map(|node| (node, &cpu)).collect();
        let window = Window::new(&pairs, config.end(nodes).expect("it fits")).expect("a window");
        let group = Group::new(Arc::new(window), &config).expect("a group");
        let status = (0..nodes).map(|_| cpu.alloc(8).expect("memory")).collect();
        let wrong = cpu.alloc(8).expect("memory");
        Self { cpu, group, status, wrong, _network: network }
    }

    fn args(&self, rank: usize) -> selftest_coll {
        selftest_coll {
            group: self.group.member(rank).expect("a member").address(),
            status: self.status[rank].address(),
            wrong: self.wrong.address(),
            rounds: 1,
            ..selftest_coll::default()
        }
    }

    /// Runs one kernel per node and returns what each node's collectives returned.
    fn run(&self, grid: u32, block: u32, args: &[selftest_coll]) -> Vec<u64> {
        self.status.iter().for_each(|status| status.store_u64(0, 0).expect("in range"));
        let launches: Vec<_> = args
            .iter()
            // SAFETY: the structure is this kernel's, and its memory outlives the wait.
            .map(|args| unsafe { Launch::new(&self.cpu, "ggas_selftest_coll", grid, block, args) })
            .collect();
        start(&launches).and_then(|running| running.wait(TIMEOUT)).expect("kernels end");
        self.status.iter().map(|status| status.load_u64(0).expect("in range")).collect()
    }

    fn barrier(&self, grid: u32, block: u32, rounds: u32) -> Vec<u64> {
        let window = self.group.window();
        let base = window.member(0).and_then(|m| m.global_pointer(0)).expect("mapped");
        let args: Vec<_> = (0..self.group.len())
            .map(|rank| selftest_coll {
                input: base,
                input_stride: window.info().stride as u64,
                method: SELFTEST_BARRIER,
                rounds,
                ..self.args(rank)
            })
            .collect();
        (0..self.group.len()).for_each(|rank| window.store_u64(rank, 0, 0).expect("in range"));
        self.run(grid, block, &args)
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for (nodes, grid, block) in [(1, 1, 1), (2, 1, 32), (3, 1, 2), (5, 1, 64), (2, 3, 33), (4, 2, 32)] {
        for master in [0, nodes - 1] {
            let setup = Setup::new(nodes, GroupConfig { master, ..GroupConfig::default() });
            assert_eq!(setup.barrier(grid, block, 20), vec![0; nodes], "{nodes} nodes, {grid} x {block}");
            assert_eq!(setup.wrong.load_u64(0).expect("in range"), 0, "{nodes} nodes, {grid} x {block}");
            setup.group.check().expect("no failure");
        }
    }
}

#[test]
fn groups_of_different_grids_work_one_after_the_other() {
    let setup = Setup::new(2, GroupConfig::default());
    for (grid, block) in [(4, 32), (1, 32), (3, 64), (2, 1)] {
        assert_eq!(setup.barrier(grid, block, 5), [0, 0]);
    }
    assert_eq!(setup.wrong.load_u64(0).expect("in range"), 0);
}

/// An element type of the kernels, with values whose sum depends on the order for floats.
trait Element: Copy + PartialEq + std::fmt::Debug + std::ops::Add<Output = Self> {
    const TYPE: u32;
    const BYTES: usize;
    fn random(random: &mut fastrand::Rng) -> Self;
    fn store(self, to: &mut Vec<u8>);
    fn load(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($type:ty, $code:expr, $random:expr) => {
        impl Element for $type {
            const TYPE: u32 = $code;
            const BYTES: usize = size_of::<$type>();
            fn random(random: &mut fastrand::Rng) -> Self {
                $random(random)
            }
            fn store(self, to: &mut Vec<u8>) {
                to.extend(self.to_ne_bytes());
            }
            fn load(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("size"))
            }
        }
    };
}
element!(f32, SELFTEST_FLOAT, |r: &mut fastrand::Rng| r.f32() * 1e3 - 500.0);
element!(f64, SELFTEST_DOUBLE, |r: &mut fastrand::Rng| r.f64() * 1e9 - 5e8);
element!(i32, SELFTEST_INT32, |r: &mut fastrand::Rng| r.i32(-100_000_000..100_000_000));
element!(i64, SELFTEST_INT64, |r: &mut fastrand::Rng| r.i64(i64::MIN / 100..i64::MAX / 100));

struct Shape {
    nodes: usize,
    grid: u32,
    block: u32,
    count: usize,
    method: u32,
}

fn reduction<T: Element>(setup: &Setup, shape: &Shape, in_place: bool, rounds: u32) {
    let &Shape { nodes, grid, block, count, method } = shape;
    let mut random = fastrand::Rng::with_seed(count as u64);
    let vectors: Vec<Vec<T>> =
        (0..nodes).map(|_| (0..count).map(|_| T::random(&mut random)).collect()).collect();
    // In rank order, as the kernels promise.
    let sums = (0..count).map(|i| vectors[1..].iter().fold(vectors[0][i], |sum, v| sum + v[i]));
    let sums: Vec<T> = sums.collect();
    let root = nodes - 1;
    let memory: Vec<(KernelMem, KernelMem)> = vectors
        .iter()
        .map(|vector| {
            let mut bytes = Vec::new();
            vector.iter().for_each(|value| value.store(&mut bytes));
            let input = setup.cpu.alloc(bytes.len().max(16)).expect("memory");
            input.write(0, &bytes).expect("in range");
            (input, setup.cpu.alloc(bytes.len().max(16)).expect("memory"))
        })
        .collect();
    let args: Vec<_> = memory
        .iter()
        .enumerate()
        .map(|(rank, (input, output))| selftest_coll {
            input: input.address(),
            out: if in_place { input.address() } else { output.address() },
            count: count as u64,
            element: T::TYPE,
            method,
            rounds,
            root: root as u32,
            ..setup.args(rank)
        })
        .collect();
    assert_eq!(setup.run(grid, block, &args), vec![0; nodes]);
    setup.group.check().expect("no failure");
    for (rank, (input, output)) in memory.iter().enumerate() {
        if method == SELFTEST_REDUCE && rank != root {
            continue;
        }
        let mut bytes = vec![0; count * T::BYTES];
        let result = if in_place { input } else { output };
        result.read(0, &mut bytes).expect("in range");
        let got: Vec<T> = bytes.chunks_exact(T::BYTES).map(T::load).collect();
        // Bit for bit, so that a float sum in another order shows.
        assert!(got == sums, "rank {rank} of {nodes}, {count} elements, method {method}, {grid} x {block}");
    }
}

const METHODS: [u32; 3] = [SELFTEST_REDUCE, SELFTEST_ALL_GATHER, SELFTEST_ALL_TO_ALL];

#[test]
fn sums_are_right_for_every_method_type_and_length() {
    // Slots of 256 bytes: 64 floats, so that vectors end before, at and after one or several exchanges.
    for (nodes, grid, block) in [(1, 1, 32), (2, 1, 64), (3, 1, 33), (4, 2, 32)] {
        let setup = Setup::new(nodes, GroupConfig { slot_bytes: 256, ..GroupConfig::default() });
        for method in METHODS {
            for count in [0, 1, 2, 5, 63, 64, 65, 130, 500] {
                let shape = Shape { nodes, grid, block, count, method };
                reduction::<f32>(&setup, &shape, false, 1);
                reduction::<f64>(&setup, &shape, true, 1);
                reduction::<i32>(&setup, &shape, true, 1);
                reduction::<i64>(&setup, &shape, false, 1);
            }
        }
    }
}

#[test]
fn exchanges_that_follow_each_other_do_not_mix() {
    for (grid, block) in [(1, 64), (2, 32)] {
        let setup = Setup::new(3, GroupConfig { slot_bytes: 256, ..GroupConfig::default() });
        for method in METHODS {
            for count in [40, 200] {
                reduction::<f32>(&setup, &Shape { nodes: 3, grid, block, count, method }, false, 25);
            }
        }
        assert_eq!(setup.barrier(grid, block, 3), [0; 3]);
    }
}

#[test]
fn a_member_that_never_comes_poisons_the_group_until_reset() {
    let setup = Setup::new(3, GroupConfig { timeout: Duration::from_millis(200), ..GroupConfig::default() });
    let absent = |method| {
        let memory = setup.cpu.alloc(1024).expect("memory");
        let args: Vec<_> = (0..3)
            .map(|rank| selftest_coll {
                input: memory.address(),
                out: memory.address(),
                count: 8,
                method,
                skip: u32::from(rank == 2),
                ..setup.args(rank)
            })
            .collect();
        setup.run(1, 32, &args)
    };
    for method in [SELFTEST_BARRIER, SELFTEST_ALL_GATHER] {
        let failed = absent(method);
        assert!(failed[..2].iter().all(|&status| status != 0), "{failed:?}");
        assert!(failed.contains(&u64::from(layout::GGAS_ERR_TIMEOUT)), "{failed:?}");
        match setup.group.check() {
            Err(GroupError::Failed { report, .. }) => {
                assert_eq!(report.status, layout::GGAS_ERR_TIMEOUT);
                assert_eq!(report.peer, Some(2), "{report}");
                assert!(report.waited >= Duration::from_millis(200), "{report}");
            }
            other => panic!("{other:?}"),
        }
        assert!([0, 1].iter().all(|&rank| setup.group.member(rank).unwrap().is_poisoned().unwrap()));
        // At once, and for the member that did not fail itself too.
        let begun = Instant::now();
        let poisoned = setup.barrier(1, 32, 1);
        assert!(
            poisoned.iter().all(|&status| status == u64::from(layout::GGAS_ERR_POISONED)),
            "{poisoned:?}"
        );
        assert!(begun.elapsed() < Duration::from_millis(150));
        setup.group.reset().expect("reset");
        assert_eq!(setup.barrier(1, 32, 3), [0; 3]);
        setup.group.check().expect("as new");
    }
}

#[test]
fn a_group_that_does_not_fit_is_refused() {
    let network = SimNetwork::builder().nodes(2).build().expect("a network");
    let nodes = [0, 1].map(|n| Node::new(network.device(n).expect("a device")));
    let cpu = Processor::cpu();
    let window = Arc::new(Window::new(&[(&nodes[0], &cpu), (&nodes[1], &cpu)], 8192).expect("a window"));
    let refused = |config: GroupConfig| Group::new(window.clone(), &config).expect_err("refused");
    let small = GroupConfig { slot_bytes: 256, ..GroupConfig::default() };
    assert!(matches!(refused(GroupConfig::default()), GroupError::NoRoom { .. }));
    assert!(matches!(refused(GroupConfig { offset: 100, ..small.clone() }), GroupError::Offset(100)));
    assert!(matches!(refused(GroupConfig { master: 2, ..small.clone() }), GroupError::Master { .. }));
    assert!(matches!(refused(GroupConfig { slot_bytes: 0, ..small.clone() }), GroupError::SlotBytes(0)));
    assert!(matches!(
        refused(GroupConfig { offset: usize::MAX, ..small.clone() }),
        GroupError::TooLarge { .. }
    ));
    let group = Group::new(window.clone(), &small).expect("it fits");
    assert!(matches!(group.member(2), Err(GroupError::NoSuchMember { .. })));
}
