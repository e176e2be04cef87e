//! Queues between processes: on the model and on engines, of a job on one host or on several, and of members that no job joins, and
//! where one dies.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::processes::{die, in_job, in_job_with_death, on_hosts, victim};
use extoll_abi::layout::GGAS_ERR_LOST;
use ggas_device::sim::{ProcessFabric, SimNetwork};
use ggas_kernels::{Processor, start};
use ggas_members::Job;
use ggas_queues::{Exchange, Memory, Queues, QueuesConfig, QueuesError, Shared, Way};
use ggas_rma::Node;
use ggas_selftest::args::{
    SELFTEST_PUT_BLOCK, SELFTEST_QUEUE_COUNTERS, SELFTEST_QUEUE_EXCHANGE as EXCHANGE,
    SELFTEST_QUEUE_LAST as LAST, selftest_queue,
};
use ggas_window::{Window, engines_across};

const SOON: Duration = Duration::from_secs(60);
const LANES: usize = 5;
const EACH: usize = 4096;
const PART: usize = 2 * LANES * EACH;

fn config(way: Way) -> QueuesConfig {
    QueuesConfig { queues: 3, way, timeout: SOON, ..QueuesConfig::default() }
}

/// Runs a kernel of member `rank`; how it ended, and how many bytes were wrong.
fn run(queues: &Queues, shared: &Shared, rank: usize, (form, first): (u32, u32)) -> [u64; 2] {
    let cpu = Processor::cpu();
    let (counters, results) =
        (cpu.alloc(8 * SELFTEST_QUEUE_COUNTERS as usize).unwrap(), cpu.alloc(16).unwrap());
    let args = selftest_queue {
        queues: queues.address(rank).unwrap(),
        memory: shared.address(rank).unwrap(),
        other: 0,
        counters: counters.address(),
        status: results.address(),
        wrong: results.address() + 8,
        bytes: 3000,
        each: EACH as u64,
        form,
        scope: SELFTEST_PUT_BLOCK,
        rounds: if form == EXCHANGE { 3 } else { 1 },
        first,
        lane: 0,
        lanes: LANES as u32,
    };
    let _armed = queues.arm();
    // SAFETY: the arguments are this kernel's, and their memory outlives the wait.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_queue", LANES as u32, 16, &args) };
    start(&[launch]).unwrap().wait(2 * SOON).unwrap();
    [results.load_u64(0).unwrap(), results.load_u64(8).unwrap()]
}

fn model(job: &Job) -> (SimNetwork, Node) {
    let fabric = ProcessFabric::join(job.member().clone()).unwrap();
    let network = SimNetwork::builder().join(fabric).unwrap();
    let node = Node::new(network.device(0).unwrap());
    (network, node)
}

/// Queues and a window of all processes, reached this way.
fn open(job: &Job, node: &Node, way: Way) -> (Queues, Shared) {
    let cpu = Processor::cpu();
    let queues = Queues::across(job, node, &cpu, &config(Way::Auto)).unwrap();
    let window = Arc::new(Window::across(job, node, &cpu, PART, SOON).unwrap());
    let shared = queues.share_across(job, Memory::from(window).by(way)).unwrap();
    (queues, shared)
}

/// `auto`: how the window is reached where nobody says it.
fn exchange(job: &Job, node: &Node, auto: Way) {
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    for (way, expected) in [(Way::Auto, auto), (Way::Device, Way::Device)] {
        let (queues, shared) = open(job, node, way);
        assert_eq!(shared.way(rank, (rank + 1) % size).unwrap(), expected);
        assert!(matches!(queues.address((rank + 1) % size), Err(QueuesError::Elsewhere { .. })));
        for what in [(EXCHANGE, 0), (LAST, 3), (LAST, 4)] {
            job.barrier(SOON).unwrap();
            assert_eq!(
                run(&queues, &shared, rank, what),
                [0, 0],
                "{what:?} {:?}",
                queues.report(rank).unwrap()
            );
        }
        queues.check().unwrap();
        job.barrier(SOON).unwrap();
    }
}

#[test]
fn processes_exchange_by_the_model() {
    in_job("across::processes_exchange_by_the_model", (3, 1), |job| {
        let (_network, node) = model(job);
        exchange(job, &node, Way::Stores);
    });
}

#[test]
fn processes_exchange_by_engines() {
    in_job("across::processes_exchange_by_engines", (3, 1), |job| {
        let network = engines_across(job, &Processor::cpu(), SOON).unwrap();
        let node = Node::new(network.device(job.rank() as usize).unwrap());
        let _running = network.run().unwrap();
        exchange(job, &node, Way::Stores);
    });
}

/// Hosts of the ranks, with so many ranks on a node. Where no library carries packets between hosts the test is skipped.
fn over_hosts(test: &str, hosts: &[usize], per_node: u32, dies: Option<u32>, member: fn(&Job)) {
    if crate::wire::is_there() {
        on_hosts(test, hosts, per_node, dies, member);
    }
}

fn model_over_hosts(job: &Job) -> (SimNetwork, Node) {
    let network = SimNetwork::builder().join_as(job.member().clone()).unwrap();
    let node = Node::new(network.device(0).unwrap());
    (network, node)
}

/// Windows whose other parts kernels have no pointers to, and memory of kernels that no window has.
fn exchange_over_hosts(job: &Job) {
    let (_network, node) = model_over_hosts(job);
    exchange(job, &node, Way::Device);
    let (rank, cpu) = (job.rank() as usize, Processor::cpu());
    let queues = Queues::across(job, &node, &cpu, &config(Way::Auto)).unwrap();
    let shared = queues.share_across(job, Arc::new(cpu.alloc(PART).unwrap())).unwrap();
    for what in [(EXCHANGE, 0), (LAST, 3)] {
        job.barrier(SOON).unwrap();
        assert_eq!(run(&queues, &shared, rank, what), [0, 0], "{what:?} {:?}", queues.report(rank).unwrap());
    }
    job.barrier(SOON).unwrap();
}

#[test]
fn processes_of_three_hosts_exchange() {
    over_hosts("across::processes_of_three_hosts_exchange", &[0, 1, 2], 1, None, exchange_over_hosts);
}

#[test]
fn ranks_that_share_nodes_of_two_hosts_exchange() {
    let hosts = [0, 0, 0, 1];
    over_hosts("across::ranks_that_share_nodes_of_two_hosts_exchange", &hosts, 3, None, exchange_over_hosts);
}

/// The others' kernels hear of it long before their waits end by themselves.
fn lose_one(job: &Job, node: &Node) {
    let rank = job.rank();
    let cpu = Processor::cpu();
    let config = QueuesConfig { timeout: 30 * SOON, ..config(Way::Auto) };
    let queues = Queues::across(job, node, &cpu, &config).unwrap();
    let window = Arc::new(Window::across(job, node, &cpu, PART, SOON).unwrap());
    let shared = queues.share_across(job, Memory::from(window).by(Way::Device)).unwrap();
    job.barrier(SOON).unwrap();
    if Some(rank) == victim() {
        die();
    }
    let [status, wrong] = run(&queues, &shared, rank as usize, (EXCHANGE, 0));
    assert_eq!([status, wrong], [u64::from(GGAS_ERR_LOST), 0]);
    let error = queues.check().unwrap_err();
    assert!(matches!(error, QueuesError::PeerLost { member: 1 }), "{error}");
    let report = queues.report(rank as usize).unwrap().expect("reported").to_string();
    assert!(report.contains("the process at the other end is gone"), "{report}");
}

#[test]
fn a_process_that_dies_ends_waits_on_the_model() {
    in_job_with_death("across::a_process_that_dies_ends_waits_on_the_model", 2, 1, |job| {
        let (_network, node) = model(job);
        lose_one(job, &node);
    });
}

#[test]
fn a_process_that_dies_ends_waits_on_engines() {
    in_job_with_death("across::a_process_that_dies_ends_waits_on_engines", 2, 1, |job| {
        let network = engines_across(job, &Processor::cpu(), SOON).unwrap();
        let node = Node::new(network.device(job.rank() as usize).unwrap());
        let _running = network.run().unwrap();
        lose_one(job, &node);
    });
}

#[test]
fn a_process_that_dies_on_another_host_ends_waits() {
    over_hosts("across::a_process_that_dies_on_another_host_ends_waits", &[0, 1], 1, Some(1), |job| {
        let (_network, node) = model_over_hosts(job);
        lose_one(job, &node);
    });
}

/// Members that hand each other bytes by memory, as those of a network do in whatever way they have.
struct Handed {
    own: usize,
    all: Arc<(Mutex<Vec<Vec<u8>>>, Barrier)>,
}

impl Exchange for Handed {
    fn exchange(&self, own: &[u8], _: Duration) -> Result<Vec<Vec<u8>>, QueuesError> {
        let (said, meet) = &*self.all;
        said.lock().unwrap()[self.own] = own.to_vec();
        meet.wait();
        let all = said.lock().unwrap().clone();
        meet.wait();
        Ok(all)
    }
}

/// Kernels reach a window on nodes by no plain pointers on the model, and their queues' flags not at all: its puts go
/// through the network device.
#[test]
fn a_window_on_nodes_goes_through_the_network_device() {
    const MEMBERS: usize = 2;
    let network = SimNetwork::builder().nodes(MEMBERS).build().unwrap();
    let all = Arc::new((Mutex::new(vec![Vec::new(); MEMBERS]), Barrier::new(MEMBERS)));
    std::thread::scope(|scope| {
        for own in 0..MEMBERS {
            let (all, node) = (all.clone(), Node::new(network.device(own).unwrap()));
            scope.spawn(move || {
                let cpu = Processor::cpu();
                let handed = Handed { own, all };
                let queues = Queues::apart(&handed, (own, MEMBERS), &node, &cpu, &config(Way::Auto)).unwrap();
                let window = Arc::new(Window::on_nodes(&node, &[0, 1], &cpu, PART, SOON).unwrap());
                let shared = queues.share_across(&handed, window.clone()).unwrap();
                assert_eq!(shared.way(own, 1 - own).unwrap(), Way::Device);
                for what in [(EXCHANGE, 0), (LAST, 3), (LAST, 4)] {
                    handed.exchange(&[], SOON).unwrap();
                    assert_eq!(run(&queues, &shared, own, what), [0, 0], "{what:?}");
                }
                // Bytes that the other member's kernel wrote, as the host sees them.
                handed.exchange(&[], SOON).unwrap();
                let mut seen = vec![0; 3000];
                window.read(own, LANES * EACH, &mut seen).unwrap();
                assert!(seen.iter().any(|byte| *byte != 0));
                handed.exchange(&[], SOON).unwrap();
            });
        }
    });
}

/// Stores to such a window are on their way yet when a flag that does not pass the SMFU comes, so they are not taken. Flags leave
/// the SMFU to it, whichever is made first.
#[test]
fn stores_that_pass_the_smfu_are_not_taken() {
    in_job("across::stores_that_pass_the_smfu_are_not_taken", (2, 1), |job| {
        let (_network, node) = model(job);
        let (cpu, rank) = (Processor::cpu(), job.rank() as usize);
        let on_nodes = || {
            let nodes = [0, 1];
            Arc::new(Window::on_nodes(&node, &nodes, &cpu, PART, SOON).unwrap())
        };
        for window_first in [true, false] {
            let early = window_first.then(on_nodes);
            let queues = Queues::across(job, &node, &cpu, &config(Way::Auto)).unwrap();
            let window = early.unwrap_or_else(on_nodes);
            let stores = queues.share_across(job, Memory::from(window.clone()).by(Way::Stores));
            let error = stores.unwrap_err().to_string();
            assert!(error.contains("pass the card's SMFU"), "{error}");
            let shared = queues.share_across(job, window).unwrap();
            assert_eq!(shared.way(rank, 1 - rank).unwrap(), Way::Device);
            for what in [(EXCHANGE, 0), (LAST, 3)] {
                job.barrier(SOON).unwrap();
                assert_eq!(run(&queues, &shared, rank, what), [0, 0], "{what:?}");
            }
            job.barrier(SOON).unwrap();
        }
    });
}

/// One member without a port fails, and so do all, each with the reason.
#[test]
fn either_all_members_open_queues_or_none() {
    const MEMBERS: usize = 2;
    let network = SimNetwork::builder().nodes(MEMBERS).build().unwrap();
    let all = Arc::new((Mutex::new(vec![Vec::new(); MEMBERS]), Barrier::new(MEMBERS)));
    let full = Node::new(network.device(1).unwrap());
    let small =
        ggas_rma::PortConfig { queue_bytes: 4096, segment_bytes: 4096, ..ggas_rma::PortConfig::default() };
    let _taken: Vec<_> = (0..251).map(|_| full.open_port(small).unwrap()).collect();
    std::thread::scope(|scope| {
        for own in 0..MEMBERS {
            let (all, node) = (all.clone(), Node::new(network.device(own).unwrap()));
            scope.spawn(move || {
                let handed = Handed { own, all };
                let opened =
                    Queues::apart(&handed, (own, MEMBERS), &node, &Processor::cpu(), &config(Way::Auto));
                let error = opened.unwrap_err();
                match own {
                    0 => assert!(matches!(error, QueuesError::Peer { member: 1, .. }), "{error}"),
                    _ => assert!(matches!(error, QueuesError::PortsInUse { member: 1, .. }), "{error}"),
                }
                assert!(error.to_string().contains("all 251 ports of node 1 are open"), "{error}");
            });
        }
    });
}
