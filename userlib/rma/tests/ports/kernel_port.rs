//! Ports of kernels on the CPU executor.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOON, builder, networks, paths};
use ggas_clock::Clock;
use ggas_device::sim::{Faults, SimNetwork, Simulation};
use ggas_kernels::{CpuConfig, KernelMem, LaunchError, Processor, start};
use ggas_rma::{KernelPort, Node, Path, PortConfig, Region};
use ggas_selftest::args::{selftest_posts, selftest_rma};

const BYTES: usize = 1000;
const SECOND: Duration = Duration::from_secs(1);

/// The card path said, which kernels would not take; and its pages as memory.
fn kernel_paths() -> [PortConfig; 4] {
    let [a, b, c] = paths().map(|config| PortConfig { path: config.path.or(Some(Path::Card)), ..config });
    [a, b, c, watched()]
}

fn watched() -> PortConfig {
    PortConfig { path: Some(Path::Card), watch_page: true, ..PortConfig::default() }
}

fn open(network: &SimNetwork, node: usize, config: PortConfig) -> KernelPort {
    Node::new(network.device(node).unwrap()).open_kernel_port(config, &Processor::cpu()).unwrap()
}

/// One node of a ping-pong: a port for kernels and its registered buffers.
struct Side {
    port: KernelPort,
    memory: Arc<KernelMem>,
    region: Region,
    /// Status and number of wrong bytes.
    result: KernelMem,
}

impl Side {
    fn new(network: &SimNetwork, node: usize, config: PortConfig) -> Side {
        let cpu = Processor::cpu();
        let port = open(network, node, config);
        let memory = Arc::new(cpu.alloc(2 * 1024).unwrap());
        let region = port.register_kernel_memory(memory.clone()).unwrap();
        let result = cpu.alloc(16).unwrap();
        Side { port, memory, region, result }
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
            quiet: 0,
        }
    }
}

#[test]
fn kernels_play_ping_pong() {
    let cpu = Processor::cpu();
    for network in networks() {
        for config in kernel_paths() {
            let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
            for rounds in [3, 40] {
                let args = [a.args(&b, rounds, true), b.args(&a, rounds, false)];
                let _armed = (a.port.arm(), b.port.arm());
                // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
                let launches = args
                    .each_ref()
                    .map(|args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, args) });
                start(&launches).unwrap().wait(SOON).unwrap();
                for side in [&a, &b] {
                    assert_eq!(side.result.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", side.port.report());
                }
            }
        }
    }
}

/// Nodes, faults and kernels in the virtual time of one simulation: the time at the end of a ping-pong.
fn simulated_ping_pong(config: PortConfig, seed: u64) -> Duration {
    let simulation = Simulation::new(seed);
    let faults = Faults::none().seed(seed).drop(0.05).duplicate(0.02);
    let network = builder().faults(faults).simulation(&simulation).build().unwrap();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
    let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
    let args = [a.args(&b, 20, true), b.args(&a, 20, false)];
    let _armed = (a.port.arm(), b.port.arm());
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = |args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, args) };
    start(&[launch(&args[0]), launch(&args[1])]).unwrap().wait(SOON).unwrap();
    for side in [&a, &b] {
        assert_eq!(side.result.read_u64s(0, 2).unwrap(), [0, 0], "{:?}", side.port.report());
    }
    simulation.elapsed()
}

#[test]
fn kernels_take_part_in_simulations() {
    for config in kernel_paths() {
        let times = [1, 2, 1].map(|seed| simulated_ping_pong(config, seed));
        assert_eq!(times[0], times[2], "the same seed, the same time");
        assert_ne!(times[0], times[1], "another seed drops other frames");
    }
}

/// A network in virtual time, and what runs kernels in the same.
fn timed() -> (Processor, SimNetwork, Clock) {
    let simulation = Simulation::new(3);
    let clock = simulation.clock();
    let network = builder().simulation(&simulation).build().unwrap();
    (Processor::cpu_with(CpuConfig::on_clock(clock.clone())), network, clock)
}

#[test]
fn waits_of_kernels_end_on_the_clock_that_they_are_given() {
    let minute = Duration::from_secs(60);
    let (cpu, network, clock) = timed();
    for config in kernel_paths() {
        let config = PortConfig { kernel_timeout: minute, ..config };
        let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
        let args = b.args(&a, 1, false);
        let _armed = b.port.arm();
        let begun = clock.now();
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
        start(&[launch]).unwrap().wait(2 * minute).unwrap();
        let waited = clock.since(begun);
        assert!((minute..minute + SECOND).contains(&waited), "{waited:?}");
        let report = b.port.report().expect("nobody sends");
        assert!((minute..minute + SECOND).contains(&report.waited), "{report}");
        // What outlasts the launch's own time-out is named, and cancelled.
        // SAFETY: as above.
        let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
        let error = start(&[launch]).unwrap().wait(minute / 2).unwrap_err();
        assert!(matches!(error, LaunchError::Timeout { after, .. } if after >= minute / 2), "{error}");
    }
}

#[test]
fn many_threads_post_on_one_port() {
    const THREADS: u32 = 64;
    const POSTS: u32 = 20;
    let (cpu, network) = (Processor::cpu(), &networks()[1]);
    for config in kernel_paths() {
        let (sender, receiver) = (open(network, 0, config), open(network, 1, config));
        let seen = cpu.alloc(THREADS as usize * 8).unwrap();
        let status = cpu.alloc(8).unwrap();
        let (from, to) = (sender.port_address(), receiver.port_address());
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
                ggas_selftest::launch(&cpu, "ggas_selftest_posts", 2, THREADS / 2, &sends),
                ggas_selftest::launch(&cpu, "ggas_selftest_posts", 1, 32, &takes),
            ]
        };
        start(&launches).unwrap().wait(SOON).unwrap();
        assert_eq!(status.load_u64(0).unwrap(), 0, "{:?} {:?}", sender.report(), receiver.report());
        let sum = u64::from(POSTS * (POSTS + 1) / 2);
        assert_eq!(seen.read_u64s(0, THREADS as usize).unwrap(), vec![sum; THREADS as usize]);
    }
}

/// Who has just posted waits for those that wait already: on a GPU, nobody else's turn might come for seconds.
#[test]
fn threads_take_turns_on_the_card_path() {
    const THREADS: u32 = 32;
    const POSTS: u32 = 20;
    let (cpu, network) = (Processor::cpu(), &networks()[0]);
    // Others run, and ask for their turns, while a thread waits until the card has taken the line before.
    let sender = open(network, 0, watched());
    let receiver = Node::new(network.device(1).unwrap()).open_port(watched()).unwrap();
    let (to, status) = (receiver.address(), cpu.alloc(8).unwrap());
    let args = selftest_posts {
        port: sender.address(),
        status: status.address(),
        peer_node: to.node.into(),
        peer_vpid: to.vpid.into(),
        posts: POSTS,
        ..selftest_posts::default()
    };
    let _armed = sender.arm();
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_posts", 1, THREADS, &args) };
    start(&[launch]).unwrap().wait(SOON).unwrap();
    assert_eq!(status.load_u64(0).unwrap(), 0, "{:?}", sender.report());
    let order: Vec<_> = (0..THREADS * POSTS).map(|_| receiver.wait(SOON).unwrap().word0 >> 32).collect();
    // From when all have begun until the first ends, all wait but the one whose turn it is.
    let begun = (0..u64::from(THREADS)).map(|thread| order.iter().position(|who| *who == thread).unwrap());
    let ended = |thread| order.iter().rposition(|who| *who == thread).unwrap();
    let steady = begun.max().unwrap()..(0..u64::from(THREADS)).map(ended).min().unwrap();
    assert!(steady.len() > (THREADS * POSTS / 2) as usize, "{steady:?}");
    for turns in order[steady].windows(THREADS as usize / 2) {
        let different: std::collections::HashSet<_> = turns.iter().collect();
        assert_eq!(different.len(), turns.len(), "{turns:?}");
    }
}

#[test]
fn a_kernel_that_waits_in_vain_reports_it() {
    let (cpu, network, _) = timed();
    let kernel_timeout = Duration::from_secs(10);
    let config = PortConfig { path: Some(Path::Card), kernel_timeout, ..PortConfig::default() };
    let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
    let args = a.args(&b, 1, true);
    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
    let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
    start(&[launch]).unwrap().wait(SOON).unwrap();
    let report = a.port.report().expect("nobody answers");
    assert!(report.to_string().contains("for a notification"), "{report}");
    assert!((kernel_timeout..kernel_timeout + SECOND).contains(&report.waited), "{report}");
    assert!(report.to_string().contains("not armed: call KernelPort::arm before the launch"), "{report}");
    // What is armed later does not change it.
    let _armed = a.port.arm();
    assert_eq!(a.port.report(), Some(report));
    a.port.clear_report();
    assert_eq!(a.port.report(), None);
}

#[test]
fn a_report_says_which_notification_nothing_on_the_port_asked_for() {
    let (cpu, network, _) = timed();
    let real = networks().into_iter().map(|network| (Processor::cpu(), network, Duration::from_millis(300)));
    for (cpu, network, kernel_timeout) in real.chain([(cpu, network, 10 * SECOND)]) {
        for config in kernel_paths() {
            let config = PortConfig { kernel_timeout, ..config };
            let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
            let args = [selftest_rma { quiet: 1, ..a.args(&b, 1, true) }, b.args(&a, 1, false)];
            {
                let _armed = (a.port.arm(), b.port.arm());
                let launches = args
                    .each_ref()
                    // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
                    .map(|args| unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, args) });
                start(&launches).unwrap().wait(SOON).unwrap();
            }
            let [sender, receiver] = [&a, &b].map(|side| side.port.report().expect("in vain").to_string());
            assert!(sender.contains("asked for a responder or completer notification"), "{sender}");
            assert!(sender.contains("EXTOLL_SPEC_"), "{sender}");
            assert!(receiver.contains("nothing was posted on this port"), "{receiver}");
            assert!(receiver.contains("EXTOLL_SPEC_COMPLETER"), "{receiver}");
            assert!(!sender.contains("not armed") && !receiver.contains("not armed"), "{sender} {receiver}");
        }
    }
}

#[test]
fn a_port_that_nobody_armed_says_so_on_both_paths() {
    let (cpu, network, _) = timed();
    for config in kernel_paths() {
        let config = PortConfig { kernel_timeout: 10 * SECOND, ..config };
        let (a, b) = (Side::new(&network, 0, config), Side::new(&network, 1, config));
        for armed in [true, false, true] {
            let guard = armed.then(|| a.port.arm());
            let args = b.args(&a, 1, false);
            // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
            let launch = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
            let args = selftest_rma { port: a.port.address(), ..args };
            // SAFETY: as above.
            let other = unsafe { ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &args) };
            start(&[launch, other]).unwrap().wait(SOON).unwrap();
            drop(guard);
            let report = a.port.report().expect("nobody sends").to_string();
            assert_eq!(report.contains("not armed"), !armed, "{report}");
            assert!(b.port.report().expect("nobody sends").to_string().contains("not armed"));
            a.port.clear_report();
            b.port.clear_report();
        }
    }
}
