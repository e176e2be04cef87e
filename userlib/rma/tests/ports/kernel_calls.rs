//! Every call of `rma.cuh`, in every form and on every path: what it gives, what it has told to both ports, and the bytes.
//! On the CPU executor, or on the first GPU with `GGAS_TEST_GPUS=1`.

use std::sync::Arc;
use std::time::Duration;

use crate::common::engines;
use crate::common::{SOON, builder, networks, paths, pattern};
use extoll_abi::bindings::*;
use extoll_abi::layout::{GGAS_ERR_ARGUMENT, GGAS_ERR_NOTIFICATION};
use ggas_clock::Clock;
use ggas_device::Device;
use ggas_device::engine::{EngineConfig, EngineNetwork};
use ggas_device::sim::{Faults, Simulation};
use ggas_kernels::{CpuConfig, KernelMem, Processor, start};
use ggas_rma::{KernelPort, Node, Path, PortConfig, Region};
use ggas_selftest::args::*;

const HALF: usize = SELFTEST_RMA_HALF as usize;
/// Of each port's log.
const ROOM: usize = 128;
/// Where nothing is registered.
const NOWHERE: u64 = 1 << 45;
const OK: u64 = 0;

/// Word 1 of a notification and, where the interface says what it is, word 0.
type Told = (u64, Option<u64>);

/// What the calls of the first node give, and both ports are told.
#[derive(Default)]
struct Expected {
    statuses: Vec<u64>,
    told: [Vec<Told>; 2],
    /// Bytes that come to each node: offset, length and where in the other's they come from.
    moved: [Vec<(usize, usize, usize)>; 2],
}

struct Side {
    port: KernelPort,
    region: Region,
    memory: Arc<KernelMem>,
    statuses: KernelMem,
    log: KernelMem,
}

impl Side {
    fn new(device: Arc<dyn Device>, config: PortConfig, processor: &Processor, seed: u8) -> Side {
        let port = Node::new(device).open_kernel_port(config, processor).unwrap();
        let memory = Arc::new(processor.alloc(2 * HALF).unwrap());
        memory.write(0, &pattern(HALF, seed)).unwrap();
        let region = port.register_kernel_memory(memory.clone()).unwrap();
        let [statuses, log] = [2 * ROOM * 8, ROOM * 16].map(|bytes| processor.alloc(bytes).unwrap());
        Side { port, region, memory, statuses, log }
    }

    fn args(&self, peer: &Side, expect: u32) -> selftest_rma_calls {
        let address = peer.port.port_address();
        selftest_rma_calls {
            port: self.port.address(),
            here_nla: self.region.nla(0).unwrap(),
            there_nla: peer.region.nla(0).unwrap(),
            bad_nla: NOWHERE,
            statuses: self.statuses.address(),
            log: self.log.address(),
            peer_node: address.node.into(),
            peer_vpid: address.vpid.into(),
            expect,
            reserved: 0,
        }
    }

    /// What its kernel's calls gave.
    fn statuses(&self) -> Vec<u64> {
        let count = self.statuses.load_u64(0).unwrap() as usize;
        self.statuses.read_u64s(8, count).unwrap()
    }

    /// Each unit says what it does in order; between two there is none.
    fn expect_told(&self, expected: &[Told], what: &str) {
        let words = self.log.read_u64s(0, 2 * ROOM).unwrap();
        let (told, rest) = words.split_at(2 * expected.len());
        for kind in [EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_NOTI_KIND_RESPONDER, EXTOLL_NOTI_KIND_COMPLETER] {
            let mine = |word1: u64| word1 >> EXTOLL_NOTI_KIND_SHIFT & 7 == kind;
            let expected: Vec<_> = expected.iter().filter(|(word1, _)| mine(*word1)).collect();
            let told: Vec<_> = told.chunks(2).filter(|told| mine(told[1])).collect();
            assert_eq!(told.len(), expected.len(), "{what}: notifications of kind {kind}");
            for (i, (told, (word1, word0))) in told.iter().zip(expected).enumerate() {
                let what = format!("{what}: notification {i} of kind {kind}");
                assert_eq!(told[1], *word1, "{what}: {:#x} for {word1:#x}", told[1]);
                assert_eq!(told[0], word0.unwrap_or(told[0]), "{what}");
            }
        }
        assert!(rest.iter().all(|word| *word == 0), "{what}: more notifications than {}", expected.len());
    }

    fn expect_bytes(&self, moved: &[(usize, usize, usize)], source: &[u8], what: &str) {
        let mut expected = vec![0; HALF];
        for (to, len, from) in moved {
            expected[*to..to + len].copy_from_slice(&source[*from..from + len]);
        }
        let mut bytes = vec![0; HALF];
        self.memory.read(HALF, &mut bytes).unwrap();
        let differs = bytes.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: the first byte that differs");
    }
}

/// The program of the first node.
struct Plan<'a> {
    sides: [&'a Side; 2],
    expected: Expected,
}

impl Plan<'_> {
    /// A notification at node `at`, of a post of the first node.
    fn tell(&mut self, at: usize, kind: u64, command: u64, field: u64, word0: Option<u64>) {
        let peer = self.sides[1 - at].port.port_address();
        let (node, vpid) = (u64::from(peer.node), u64::from(peer.vpid));
        let word1 = field
            | vpid << EXTOLL_NOTI_VPID_SHIFT
            | node << EXTOLL_NOTI_NODE_SHIFT
            | kind << EXTOLL_NOTI_KIND_SHIFT
            | command << EXTOLL_NOTI_COMMAND_SHIFT
            | EXTOLL_NOTI_MODE_TE << EXTOLL_NOTI_MODE_SHIFT;
        self.expected.told[at].push((word1, word0));
    }

    /// A call that posts, and those that take what it tells the first node.
    fn made(&mut self) {
        self.expected.statuses.extend([OK; 2]);
    }

    /// Puts of all kinds tell both ends the same.
    fn put(&mut self, command: u64, field: u64, words: [Option<u64>; 2]) {
        self.tell(0, EXTOLL_NOTI_KIND_REQUESTER, command, field, words[0]);
        self.tell(1, EXTOLL_NOTI_KIND_COMPLETER, command, field, words[1]);
        self.made();
    }

    fn sized_put(&mut self, command: u64, from: usize, to: usize, len: usize) {
        let write = self.sides[1].region.nla(HALF + to).unwrap();
        self.put(command, len as u64 - 1, [None, Some(write)]);
        self.expected.moved[1].push((to, len, from));
    }

    fn get(&mut self, command: u64, from: usize, to: usize, len: usize) {
        let read = self.sides[1].region.nla(from).unwrap();
        let write = self.sides[0].region.nla(HALF + to).unwrap();
        let field = len as u64 - 1;
        self.tell(0, EXTOLL_NOTI_KIND_REQUESTER, command, field, None);
        self.tell(1, EXTOLL_NOTI_KIND_RESPONDER, command, field, Some(read));
        self.tell(0, EXTOLL_NOTI_KIND_COMPLETER, command + EXTOLL_CMD_GET_BT_RSP, field, Some(write));
        self.made();
        self.expected.moved[0].push((to, len, from));
    }

    /// The first on this lock, which is 0: 4 at most, then 5 more.
    fn lock(&mut self, number: u64) {
        let word0 = |result: u64, value: u64| number | result << 24 | value << 32;
        let request = EXTOLL_CMD_LOCK_REQ;
        self.tell(0, EXTOLL_NOTI_KIND_REQUESTER, request, 0, Some(word0(0, 4)));
        self.tell(1, EXTOLL_NOTI_KIND_RESPONDER, request, 0, Some(word0(1, 5)));
        self.tell(0, EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_LOCK_RSP, 0, Some(word0(1, 5)));
        self.made();
    }

    fn form(&mut self, form: usize) {
        let slot = form * SELFTEST_RMA_FORM as usize;
        let next = slot + SELFTEST_RMA_SLOT as usize;
        let third = next + SELFTEST_RMA_SLOT as usize;
        let number = form as u64;
        self.sized_put(EXTOLL_CMD_BT_PUT, slot + 3, slot + 5, 201 + form);
        self.sized_put(EXTOLL_CMD_QW_PUT, next, next + 8, 200 + 8 * form);
        self.get(EXTOLL_CMD_BT_GET, slot + 3, slot + 7, 101 + form);
        self.get(EXTOLL_CMD_QW_GET, slot + 8, next, 104 + 8 * form);
        // The bytes of its value are checked apart: they come from nobody's memory.
        let write = self.sides[1].region.nla(HALF + third + 1).unwrap();
        let value = SELFTEST_RMA_VALUE;
        self.put(EXTOLL_CMD_IMMEDIATE_PUT, 2 + number, [Some(value), Some(write)]);
        let payload = Some(value + number);
        self.put(EXTOLL_CMD_NOTIFICATION_PUT, 7 + number, [payload; 2]);
        self.lock(number);
        let raw = third + SELFTEST_RMA_SLOT as usize;
        self.tell(0, EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_CMD_BT_PUT, 8 + number, None);
        self.expected.moved[1].push((raw, 9 + form, slot + 3));
        self.made();
    }

    fn of(sides: [&Side; 2]) -> Expected {
        let mut plan = Plan { sides, expected: Expected::default() };
        (0..3).for_each(|form| plan.form(form));
        plan.expected.statuses.extend([GGAS_ERR_ARGUMENT as u64; 3 * (2 * 5 + 2 + 2 * 7)]);
        for lane in (0..32).filter(|lane| lane % 3 != 0) {
            let payload = u64::from(SELFTEST_RMA_BATCH) + lane;
            plan.tell(1, EXTOLL_NOTI_KIND_COMPLETER, EXTOLL_CMD_NOTIFICATION_PUT, 99, Some(payload));
        }
        plan.expected.statuses.extend([OK; 3]);
        // Last of all, the put that reads where nothing is.
        plan.tell(0, EXTOLL_NOTI_KIND_REQUESTER, EXTOLL_CMD_BT_PUT, 7, None);
        let (word1, _) = plan.expected.told[0].last_mut().unwrap();
        *word1 |= EXTOLL_NOTI_ERROR_REQUESTER << EXTOLL_NOTI_ERROR_SHIFT;
        plan.made();
        plan.expected
    }
}

/// Runs all calls between two nodes of a network, and checks what came of them.
fn check(devices: [Arc<dyn Device>; 2], config: PortConfig, processor: &Processor) {
    let what = format!("{:?}, watched: {}", config.path, config.watch_page);
    let [first, second] = devices;
    let sides = [Side::new(first, config, processor, 1), Side::new(second, config, processor, 2)];
    let expected = Plan::of([&sides[0], &sides[1]]);
    let arrive = expected.told[1].len();
    let args = [sides[0].args(&sides[1], 0), sides[1].args(&sides[0], arrive as u32)];
    {
        let _armed = (sides[0].port.arm(), sides[1].port.arm());
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch =
            |args| unsafe { ggas_selftest::launch(processor, "ggas_selftest_rma_calls", 1, 64, args) };
        start(&[launch(&args[0]), launch(&args[1])]).unwrap().wait(SOON).unwrap();
    }
    let mut statuses = sides[0].statuses();
    let last = statuses.pop();
    let (mine, theirs) = (sides[0].port.report(), sides[1].port.report());
    assert!(
        [OK, GGAS_ERR_NOTIFICATION as u64].contains(&last.unwrap()),
        "{what}: {last:?} {mine:?} {theirs:?}"
    );
    assert_eq!(statuses, expected.statuses[..statuses.len()], "{what}: {mine:?} {theirs:?}");
    assert_eq!(statuses.len() + 1, expected.statuses.len(), "{what}");
    assert!(sides[1].statuses().iter().all(|status| *status == OK), "{what}: {theirs:?}");
    for (i, side) in sides.iter().enumerate() {
        let what = format!("{what}, node {i}");
        side.expect_told(&expected.told[i], &what);
    }
    immediate_bytes(&sides[1], &what);
    for (i, side) in sides.iter().enumerate() {
        side.expect_bytes(&expected.moved[i], &pattern(HALF, 2 - i as u8), &format!("{what}, node {i}"));
    }
}

/// The values of immediate puts, which are taken away then: no memory holds what they are compared with.
fn immediate_bytes(side: &Side, what: &str) {
    for form in 0..3 {
        let at = HALF + form * SELFTEST_RMA_FORM as usize + 2 * SELFTEST_RMA_SLOT as usize + 1;
        let mut bytes = [0; 8];
        side.memory.read(at, &mut bytes).unwrap();
        let count = 3 + form;
        assert_eq!(bytes[..count], SELFTEST_RMA_VALUE.to_le_bytes()[..count], "{what}: immediate put {form}");
        side.memory.write(at, &[0; 8][..count]).unwrap();
    }
}

/// Where the kernels run that this machine is asked to test.
fn processor() -> Processor {
    ggas_selftest::add();
    match std::env::var_os("GGAS_TEST_GPUS") {
        Some(_) => Processor::gpu(0).unwrap(),
        None => Processor::cpu(),
    }
}

/// All that the model has.
fn configs() -> [PortConfig; 4] {
    let [a, b, c] = paths().map(|config| PortConfig { path: config.path.or(Some(Path::Card)), ..config });
    [a, b, c, PortConfig { path: Some(Path::Card), watch_page: true, ..PortConfig::default() }]
}

#[test]
fn all_calls_on_the_model() {
    let processor = processor();
    for network in networks() {
        for config in configs() {
            check([0, 1].map(|node| network.device(node).unwrap()), config, &processor);
        }
    }
}

#[test]
fn all_calls_on_a_network_with_faults() {
    if std::env::var_os("GGAS_TEST_GPUS").is_some() {
        return eprintln!("SKIPPED: virtual time is the executor's");
    }
    for (seed, config) in configs().into_iter().enumerate() {
        let simulation = Simulation::new(seed as u64);
        let clock: Clock = simulation.clock();
        let faults = Faults::none().seed(seed as u64).drop(0.05).duplicate(0.02);
        let network = builder().faults(faults).simulation(&simulation).build().unwrap();
        ggas_selftest::add();
        let cpu = Processor::cpu_with(CpuConfig::on_clock(clock));
        check([0, 1].map(|node| network.device(node).unwrap()), config, &cpu);
    }
}

#[test]
fn all_calls_on_engines() {
    let processor = processor();
    let config = EngineConfig { timeout: Duration::from_secs(600), ..EngineConfig::default() };
    let network = EngineNetwork::with_config(&vec![processor.clone(); 2], config).unwrap();
    let _running = network.run().unwrap();
    check([0, 1].map(|node| network.device(node).unwrap()), engines::CONFIG, &processor);
}
