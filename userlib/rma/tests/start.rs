//! A thousand nodes cost little and idle for free. A test of its own process: it reads memory and
//! CPU time of the whole process.

mod common;

use std::time::Duration;

use common::SOON;
use ggas_device::LockedMemory;
use ggas_device::sim::SimNetwork;
use ggas_rma::{Node, PortConfig, Spec};

const NODES: usize = 1000;

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_thousand_nodes() {
    let memory = resident_kib();
    let network = SimNetwork::builder().nodes(NODES).locked_memory(LockedMemory::Unlimited).build().unwrap();
    let nodes: Vec<Node> = (0..NODES).map(|i| Node::new(network.device(i).unwrap())).collect();
    let ports: Vec<_> = nodes.iter().map(|node| node.open_port(PortConfig::default()).unwrap()).collect();
    let each = (resident_kib() - memory) / NODES;
    assert!(each < 1024, "{each} KiB per node");
    assert!(threads() < 16, "{} threads", threads());

    // A ring once around, so that every node works.
    for (i, port) in ports.iter().enumerate() {
        let next = &ports[(i + 1) % NODES];
        port.connect(next.address()).notification_put(0, i as u64, Spec::COMPLETER).unwrap();
        assert_eq!(next.wait(SOON).unwrap().word0, i as u64);
    }

    // Nothing is armed: no CPU is used once the threads have gone to sleep.
    let used = || {
        let before = cpu_time();
        std::thread::sleep(Duration::from_millis(500));
        cpu_time() - before
    };
    // What takes the processor away may count as use, but not each time.
    assert!(
        (0..10).any(|_| used() < Duration::from_millis(25)),
        "an idle model uses CPU: {:?} in 500 ms",
        used()
    );
}
