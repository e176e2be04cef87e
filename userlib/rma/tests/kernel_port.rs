//! Ports handed to kernels on the CPU executor and taken back.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Pair, SOON, networks, paths};
use ggas_kernels::args::{selftest_posts, selftest_rma};
use ggas_kernels::{KernelMem, Launch, Processor, start};
use ggas_rma::{KernelPath, KernelPort, Match, Path, Port, PortConfig, PostError, Region, Spec};

const BYTES: usize = 1000;

/// One node of a ping-pong: a port for kernels and its registered buffers.
struct Side {
    port: KernelPort,
    memory: Arc<KernelMem>,
    region: Region,
    /// Status and number of wrong bytes.
    result: KernelMem,
}

impl Side {
    fn new(port: Port, cpu: &Processor, path: KernelPath) -> Side {
        let memory = Arc::new(cpu.alloc(2 * 1024).unwrap());
        let region = port.register_kernel_memory(memory.clone()).unwrap();
        let result = cpu.alloc(16).unwrap();
        Side { port: port.for_kernels(cpu, path).unwrap(), memory, region, result }
    }

    fn args(&self, peer: &Side, rounds: u32, first: bool) -> selftest_rma {
        let address = peer.port.port_address();
        selftest_rma {
            port: self.port.address(),
            send: self.memory.address(),
            send_nla: self.region.nla(0).unwrap(),
            receive: self.memory.address() + 1024,
            target_nla: peer.region.nla(1024).unwrap(),
            status: self.result.address(),
            wrong: self.result.address() + 8,
            peer_node: address.node.into(),
            peer_vpid: address.vpid.into(),
            rounds,
            bytes: BYTES as u32,
            first: first.into(),
            reserved: 0,
        }
    }
}

#[test]
fn kernels_play_ping_pong_and_give_the_port_back() {
    let cpu = Processor::cpu();
    for network in networks() {
        for config in paths() {
            for path in [KernelPath::Card, KernelPath::Slots] {
                let Pair { origin, target } = Pair::new(&network, config);
                let (a, b) = (Side::new(origin, &cpu, path), Side::new(target, &cpu, path));
                for rounds in [3, 40] {
                    let args = [a.args(&b, rounds, true), b.args(&a, rounds, false)];
                    let _armed = (a.port.arm(), b.port.arm());
                    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
                    let launches = args
                        .each_ref()
                        .map(|args| unsafe { Launch::new(&cpu, "ggas_selftest_rma", 1, 32, args) });
                    start(&launches).unwrap().wait(SOON).unwrap();
                    for side in [&a, &b] {
                        assert_eq!(side.result.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", side.port.report());
                    }
                }
                let (a, b) = (a.port.into_port().unwrap(), b.port.into_port().unwrap());
                a.connect(b.address()).notification_put(7, 7, Spec::COMPLETER).unwrap();
                let noti = b.wait_match(&Match::any().class(7), SOON).unwrap();
                assert_eq!(noti.word0, 7, "the host goes on where the kernels stopped");
            }
        }
    }
}

#[test]
fn many_threads_post_on_one_port() {
    const THREADS: u32 = 64;
    const POSTS: u32 = 20;
    let (cpu, network) = (Processor::cpu(), &networks()[1]);
    for config in paths() {
        let Pair { origin, target } = Pair::new(network, config);
        let seen = cpu.alloc(THREADS as usize * 8).unwrap();
        let status = cpu.alloc(8).unwrap();
        let (from, to) = (origin.address(), target.address());
        let sender = origin.for_kernels(&cpu, config.path).unwrap();
        let receiver = target.for_kernels(&cpu, config.path).unwrap();
        let args = |port: &KernelPort, peer: ggas_rma::Address, expect| selftest_posts {
            port: port.address(),
            seen: seen.address(),
            status: status.address(),
            peer_node: peer.node.into(),
            peer_vpid: peer.vpid.into(),
            posts: POSTS,
            batch: 0,
            expect,
            reserved: 0,
        };
        let sends = args(&sender, to, 0);
        let takes = args(&receiver, from, THREADS * POSTS);
        let _armed = (sender.arm(), receiver.arm());
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launches = unsafe {
            [
                Launch::new(&cpu, "ggas_selftest_posts", 2, THREADS / 2, &sends),
                Launch::new(&cpu, "ggas_selftest_posts", 1, 32, &takes),
            ]
        };
        start(&launches).unwrap().wait(SOON).unwrap();
        assert_eq!(status.load_u64(0).unwrap(), 0, "{:?} {:?}", sender.report(), receiver.report());
        let sum = u64::from(POSTS * (POSTS + 1) / 2);
        assert_eq!(seen.read_u64s(0, THREADS as usize).unwrap(), vec![sum; THREADS as usize]);
    }
}

#[test]
fn the_host_keeps_only_the_other_path() {
    let (cpu, network) = (Processor::cpu(), &networks()[0]);
    for (host, kernels) in [(Path::Card, Path::Slots), (Path::Slots, Path::Card)] {
        let Pair { origin, target } =
            Pair::new(network, PortConfig { path: Some(host), ..PortConfig::default() });
        let connection = origin.connect(target.address());
        let kport = origin.for_kernels(&cpu, kernels).unwrap();
        connection.notification_put(1, 0, Spec::COMPLETER).unwrap();
        target.wait(SOON).unwrap();
        drop(kport);
    }
    for path in [Path::Card, Path::Slots] {
        let Pair { origin, target } =
            Pair::new(network, PortConfig { path: Some(path), ..PortConfig::default() });
        let connection = origin.connect(target.address());
        let kport = origin.for_kernels(&cpu, path).unwrap();
        let refused = connection.notification_put(1, 0, Spec::COMPLETER).unwrap_err();
        assert!(matches!(refused, PostError::KernelOwned), "{refused}");
        kport.into_port().unwrap();
        connection.notification_put(1, 0, Spec::COMPLETER).unwrap();
        target.wait(SOON).unwrap();
    }
}

#[test]
fn a_kernel_that_waits_in_vain_reports_it() {
    let (cpu, network) = (Processor::cpu(), &networks()[0]);
    let config = PortConfig { kernel_timeout: Duration::from_millis(50), ..PortConfig::default() };
    let Pair { origin, target } = Pair::new(network, config);
    let (a, b) = (Side::new(origin, &cpu, Path::Card), Side::new(target, &cpu, Path::Card));
    let args = a.args(&b, 1, true);
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = unsafe { Launch::new(&cpu, "ggas_selftest_rma", 1, 32, &args) };
    start(&[launch]).unwrap().wait(SOON).unwrap();
    let report = a.port.report().expect("nobody answers");
    assert!(report.to_string().contains("for a notification"), "{report}");
    assert!(report.waited >= Duration::from_millis(50), "{report}");
    a.port.clear_report();
    assert_eq!(a.port.report(), None);
}

#[test]
fn out_of_order_consumption_is_settled_before_kernels_read() {
    let (cpu, network) = (Processor::cpu(), &networks()[0]);
    let Pair { origin, target } = Pair::new(network, PortConfig::default());
    for class in [1, 2] {
        origin.connect(target.address()).notification_put(class, 0, Spec::COMPLETER).unwrap();
    }
    target.wait_match(&Match::any().class(2), SOON).unwrap();
    let error = target.for_kernels(&cpu, Path::Card).unwrap_err();
    assert!(error.to_string().contains("consume the older ones"), "{error}");
}
