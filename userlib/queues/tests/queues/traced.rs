//! What kernels move by queues is in the trace that a mapping reads, where somebody asks: by the network device as much as its units sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::processes::in_job_with;
use extoll_abi::bindings::{EXTOLL_RF_RMA_PERF_REQ_OUTPUT, EXTOLL_RF_RMA_PERF_RESP};
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{Processor, start};
use ggas_mapping::Pattern;
use ggas_members::Job;
use ggas_queues::{Memory, Queues, QueuesConfig, Way};
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_PUT_BLOCK, SELFTEST_PUT_THREAD, SELFTEST_PUT_WARP, SELFTEST_QUEUE_COUNTERS,
    SELFTEST_QUEUE_EXCHANGE, SELFTEST_QUEUE_NOTIFY, SELFTEST_QUEUE_READ, selftest_queue,
};
use ggas_window::Window;

const SOON: Duration = Duration::from_secs(60);
const MEMBERS: usize = 3;
const LANES: u64 = 4;
const BYTES: u64 = 3000;
const EACH: u64 = 4096;
const ROUNDS: u64 = 3;
const FLAG: u64 = 8;
/// Scope, blocks and threads of as many callers.
const SCOPES: [(u32, u32, u32); 3] =
    [(SELFTEST_PUT_THREAD, 1, 4), (SELFTEST_PUT_WARP, 2, 64), (SELFTEST_PUT_BLOCK, 4, 16)];
/// What goes to the next member, by exchanges, what that reads, and what is written and notified; and to the one before.
fn expected() -> [u64; 2] {
    let exchanges = ROUNDS * SCOPES.len() as u64;
    [exchanges * (BYTES + FLAG) + BYTES + (BYTES + FLAG), exchanges * FLAG].map(|bytes| bytes * LANES)
}

/// What a process's node has sent by its requester and its responder.
fn sent(node: &Node) -> u64 {
    let quadwords = |register| node.read_register(register).expect("a counter") & 0xffff_ffff;
    8 * (quadwords(EXTOLL_RF_RMA_PERF_REQ_OUTPUT) + quadwords(EXTOLL_RF_RMA_PERF_RESP + 16))
}

fn folder() -> PathBuf {
    let asked = std::env::var_os("GGAS_TRACE").expect("in a process that is told to trace");
    Path::new(&asked).parent().expect("a folder").to_owned()
}

fn move_by(job: &Job, way: Way) {
    let rank = job.rank() as usize;
    let network = SimNetwork::join(ProcessFabric::join(job.member().clone()).unwrap()).unwrap();
    let (node, cpu) = (Node::new(network.device(0).unwrap()), Processor::cpu());
    let config = QueuesConfig { queues: 3, way, timeout: SOON, ..QueuesConfig::default() };
    let queues = Queues::across(job, &node, &cpu, &config).unwrap();
    let window = Window::across(job, &node, &cpu, (2 * LANES * EACH) as usize, SOON).unwrap();
    let shared = queues.share_across(job, Memory::from(Arc::new(window)).by(way)).unwrap();
    assert_eq!(shared.way(rank, (rank + 1) % MEMBERS).unwrap(), way);
    let before = sent(&node);
    let exchanges = (0..).map(|i| i * ROUNDS as u32).zip(SCOPES);
    let exchanges = exchanges.map(|(first, scope)| (SELFTEST_QUEUE_EXCHANGE, first, scope));
    let others = [(SELFTEST_QUEUE_READ, 1, SCOPES[2]), (SELFTEST_QUEUE_NOTIFY, 0, SCOPES[2])];
    for (form, first, (scope, blocks, threads)) in exchanges.chain(others) {
        let (counters, results) =
            (cpu.alloc(8 * SELFTEST_QUEUE_COUNTERS as usize).unwrap(), cpu.alloc(16).unwrap());
        let args = selftest_queue {
            queues: queues.address(rank).unwrap(),
            memory: shared.address(rank).unwrap(),
            counters: counters.address(),
            status: results.address(),
            wrong: results.address() + 8,
            bytes: BYTES,
            each: EACH,
            form,
            scope,
            rounds: if form == SELFTEST_QUEUE_EXCHANGE { ROUNDS as u32 } else { 1 },
            first,
            lanes: LANES as u32,
            ..selftest_queue::default()
        };
        job.barrier(SOON).unwrap();
        let _armed = queues.arm();
        // SAFETY: the arguments are this kernel's, and their memory outlives the wait.
        let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_queue", blocks, threads, &args) };
        start(&[launch]).unwrap().wait(2 * SOON).unwrap();
        assert_eq!(results.load_u64(0).unwrap(), 0, "{form} {scope}: {:?}", queues.report(rank).unwrap());
        // Nobody writes what a read looks at.
        let is_read = form == SELFTEST_QUEUE_READ;
        assert!(is_read || results.load_u64(8).unwrap() == 0, "{form} {scope}: wrong bytes");
        job.barrier(SOON).unwrap();
    }
    std::fs::write(folder().join(format!("sent.{rank}")), (sent(&node) - before).to_string()).unwrap();
    queues.check().unwrap();
}

/// Bytes that members sent each other, as traced; and what their nodes sent.
fn traced(test: &str, member: fn(&Job)) -> (Vec<(usize, usize, u64)>, Vec<u64>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}",
        test.replace("::", "-"),
        std::process::id()
    ));
    let prefix = folder.join("run");
    if std::env::var_os("GGAS_TRACE").is_none() {
        std::fs::create_dir_all(&folder).unwrap();
    }
    in_job_with(test, MEMBERS as u32, ("GGAS_TRACE", prefix.to_str().unwrap()), member);
    let pattern = Pattern::traced(&prefix).unwrap();
    let sent = |rank| std::fs::read_to_string(folder.join(format!("sent.{rank}"))).unwrap().parse().unwrap();
    let sent = (0..MEMBERS).map(sent).collect();
    std::fs::remove_dir_all(&folder).unwrap();
    (pattern.messages().collect(), sent)
}

/// Each member's to the next and to the one before.
fn by_hand() -> Vec<(usize, usize, u64)> {
    let [next, before] = expected();
    let to = |from, to| (from, to, if to == (from + 1) % MEMBERS { next } else { before });
    (0..MEMBERS)
        .flat_map(|from| (0..MEMBERS).filter(move |at| *at != from).map(move |at| to(from, at)))
        .collect()
}

#[test]
fn queues_by_stores_are_traced() {
    let (pattern, sent) = traced("traced::queues_by_stores_are_traced", |job| move_by(job, Way::Stores));
    assert_eq!(pattern, by_hand());
    assert_eq!(sent, [0; MEMBERS], "nothing by the network device");
}

#[test]
fn queues_by_the_network_device_are_traced_as_its_units_count() {
    let test = "traced::queues_by_the_network_device_are_traced_as_its_units_count";
    let (pattern, sent) = traced(test, |job| move_by(job, Way::Device));
    assert_eq!(pattern, by_hand());
    for (rank, sent) in sent.into_iter().enumerate() {
        let all: u64 = pattern.iter().filter(|(from, ..)| *from == rank).map(|(.., bytes)| bytes).sum();
        // A notification has 8 bytes in the trace, and no payload.
        assert_eq!(sent, all - FLAG * LANES, "{rank}");
    }
}
