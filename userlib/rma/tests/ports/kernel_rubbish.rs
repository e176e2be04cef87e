//! Kernels that post what nobody should: bounded, told, and nothing of others is touched.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOON, builder, paths, pattern};
use ggas_clock::Clock;
use ggas_device::sim::{SimNetwork, Simulation};
use ggas_kernels::{CpuConfig, KernelMem, Processor, start};
use ggas_rma::{KernelPort, Node, Path, PortConfig, Region};
use ggas_selftest::args::{selftest_rma, selftest_rubbish};

const BYTES: usize = 4096;
/// A card gives up half a line after 1.6 s [inferred].
const GIVEN_UP: Duration = Duration::from_secs(2);

/// A network in virtual time, and what runs kernels in the same.
struct World {
    network: SimNetwork,
    cpu: Processor,
    clock: Clock,
}

impl World {
    fn new(seed: u64) -> World {
        let simulation = Simulation::new(seed);
        let clock = simulation.clock();
        let network = builder().simulation(&simulation).build().unwrap();
        let cpu = Processor::cpu_with(CpuConfig::on_clock(clock.clone()));
        World { network, cpu, clock }
    }

    fn side(&self, node: usize, config: PortConfig) -> Side {
        let port = Node::new(self.network.device(node).unwrap()).open_kernel_port(config, &self.cpu).unwrap();
        let memory = Arc::new(self.cpu.alloc(BYTES).unwrap());
        memory.write(0, &pattern(BYTES, node as u8)).unwrap();
        let region = port.register_kernel_memory(memory.clone()).unwrap();
        Side { port, memory, region, result: self.cpu.alloc(16).unwrap() }
    }

    /// Runs a kernel of rubbish on a port; what its last call gave.
    fn rubbish(&self, side: &Side, seed: u64, count: u32, part: u32) -> u64 {
        let (port, status) = (side.port.address(), side.result.address());
        let args = selftest_rubbish { port, status, seed, count, part };
        let _armed = side.port.arm();
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_rubbish", 1, 1, &args) };
        start(&[launch]).unwrap().wait(SOON).unwrap();
        side.result.load_u64(0).unwrap()
    }

    /// Ten rounds of puts between two ports, by kernels: whether all was as it should be.
    fn ping_pong(&self, sides: [&Side; 2]) -> bool {
        let [a, b] = sides;
        let args = [a.args(b, true), b.args(a, false)];
        let _armed = (a.port.arm(), b.port.arm());
        // SAFETY: the arguments are this kernel's, their memory lives beyond the wait.
        let launch = |args| unsafe { ggas_selftest::launch(&self.cpu, "ggas_selftest_rma", 1, 32, args) };
        start(&[launch(&args[0]), launch(&args[1])]).unwrap().wait(SOON).unwrap();
        sides.iter().all(|side| side.result.read_u64s(0, 2).unwrap() == [0, 0])
    }
}

/// A port of kernels with registered memory.
struct Side {
    port: KernelPort,
    memory: Arc<KernelMem>,
    region: Region,
    result: KernelMem,
}

impl Side {
    fn args(&self, peer: &Side, first: bool) -> selftest_rma {
        self.result.write_u64s(0, &[0, 0]).unwrap();
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
            rounds: 10,
            bytes: 1000,
            first: first.into(),
            quiet: 0,
        }
    }

    fn is_untouched(&self, node: u8) -> bool {
        let mut bytes = vec![0; BYTES];
        self.memory.read(0, &mut bytes).unwrap();
        bytes == pattern(BYTES, node)
    }
}

fn configs() -> [PortConfig; 4] {
    let [a, b, c] = paths().map(|config| PortConfig { path: config.path.or(Some(Path::Card)), ..config });
    [a, b, c, PortConfig { path: Some(Path::Card), watch_page: true, ..PortConfig::default() }]
}

#[test]
fn any_three_words_of_a_kernel_are_survived() {
    for (seed, config) in configs().into_iter().enumerate() {
        let world = World::new(seed as u64);
        // The bystander first: its VPID is one that rubbish names often.
        let bystander = world.side(1, config);
        let origin = world.side(0, config);
        assert_eq!(world.rubbish(&origin, 0x9e37_79b9_7f4a_7c15, 4000, 0), 0, "{:?}", origin.port.report());
        assert!(bystander.is_untouched(1), "{config:?}");
        drop(origin);
        let (a, b) = (world.side(0, config), world.side(1, config));
        assert!(world.ping_pong([&a, &b]), "{config:?}: {:?} {:?}", a.port.report(), b.port.report());
        assert!(bystander.is_untouched(1), "{config:?}");
    }
}

/// What stands in the line is given up after a while, and the next kernel's descriptors are whole.
#[test]
fn a_kernel_may_end_in_the_middle_of_a_line() {
    for config in configs().into_iter().filter(|config| config.path == Some(Path::Card)) {
        for part in 1..7 {
            let world = World::new(part.into());
            let (a, b, bystander) = (world.side(0, config), world.side(1, config), world.side(1, config));
            assert_eq!(world.rubbish(&a, 7, 0, part), 0);
            world.clock.sleep(GIVEN_UP);
            assert!(world.ping_pong([&a, &b]), "{part}: {:?} {:?}", a.port.report(), b.port.report());
            assert!(bystander.is_untouched(1), "{part}");
        }
    }
}

/// Without the while its own next descriptors are mixed with it: they may fail, in bounded time, and only they.
#[test]
fn half_a_line_harms_nobody_but_its_own_port() {
    for config in configs().into_iter().filter(|config| config.path == Some(Path::Card)) {
        let config = PortConfig { kernel_timeout: Duration::from_secs(3), ..config };
        for part in 1..7 {
            let world = World::new(part.into());
            let (a, b, bystander) = (world.side(0, config), world.side(1, config), world.side(1, config));
            let other = world.side(0, config);
            assert_eq!(world.rubbish(&a, 7, 0, part), 0);
            world.ping_pong([&a, &b]);
            assert!(bystander.is_untouched(1), "{part}");
            assert!(world.ping_pong([&other, &bystander]), "{part}: {:?}", other.port.report());
        }
    }
}
