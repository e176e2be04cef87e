//! `velo-pingpong` by kernels: one thread of a block at each end.

use crate::args::{bench_peer, bench_pingpong};
use ggas::velo::KernelVelo;
use ggas::{Address, KernelPort, KernelReport, PortBase, VeloConfig};

use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{BenchError, Check, Samples};

/// Round trips of a row.
const ITERATIONS: u64 = 4000;
/// Times that each kind is measured, in turn.
const TURNS: u64 = 8;
const THREADS: u32 = 32;

/// A port that kernels hold.
enum Held {
    Message(KernelVelo),
    Notification(KernelPort),
}

impl Held {
    fn open(setup: &Setup, node: u32, message: bool) -> Result<Held, BenchError> {
        if !message {
            return Ok(Held::Notification(setup.open_kernel_port(node)?));
        }
        let config = VeloConfig { kernel_timeout: setup.options.timeout, ..VeloConfig::default() };
        let port = KernelVelo::open(setup.node(node)?.device(), config, setup.processor(node));
        Ok(Held::Message(port.doing("opening a port for kernels")?))
    }

    fn peer(&self) -> (u16, u8) {
        let address = match self {
            Held::Message(port) => port.port_address(),
            Held::Notification(port) => PortBase::address(port),
        };
        (address.node, address.vpid)
    }

    fn kernel(&self) -> (&'static str, u64) {
        match self {
            Held::Message(port) => ("bench_velo_message", port.address()),
            Held::Notification(port) => ("bench_velo_notification", KernelPort::address(port)),
        }
    }

    fn report(&self) -> Option<KernelReport> {
        match self {
            Held::Message(port) => port.report(),
            Held::Notification(port) => port.report(),
        }
    }
}

/// The ends of one kind that are here.
struct Kind {
    ends: Vec<(u32, Held)>,
    peers: Vec<(u16, u8)>,
}

impl Kind {
    fn new(setup: &Setup, message: bool) -> Result<Kind, BenchError> {
        let open = |node| Ok((node, Held::open(setup, node, message)?));
        let ends = setup.ends().map(open).collect::<Result<Vec<_>, BenchError>>()?;
        let peers = setup.share(ends.iter().map(|(_, held)| held.peer()).collect())?;
        Ok(Kind { ends, peers })
    }

    /// One run of the kernels; samples if node 0 is here.
    fn run(&self, setup: &Setup, bytes: u64, count: u64) -> Result<Option<Samples>, BenchError> {
        let probe = |(node, _): &(u32, Held)| Probe::with_warm_up(setup.processor(*node), count);
        let probes = self.ends.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
        let args = |((node, held), probe): (&(u32, Held), &Probe)| {
            let peer = other(&self.peers, *node)?;
            Ok(bench_pingpong {
                timing: probe.args(),
                peer: bench_peer { target: 0, node: peer.node.into(), vpid: peer.vpid.into() },
                port: held.kernel().1,
                bytes: bytes as u32,
                first: u32::from(*node == 0),
                ..bench_pingpong::default()
            })
        };
        let args = self.ends.iter().zip(&probes).map(args).collect::<Result<Vec<_>, BenchError>>()?;
        let launch = |((node, held), args): (&(u32, Held), _)| {
            kernel::launch(setup.processor(*node), held.kernel().0, 1, THREADS, args)
        };
        let launches: Vec<_> = self.ends.iter().zip(&args).map(launch).collect();
        // Threads that only wait drive the model meanwhile.
        let armed = self.ends.iter().map(|(_, held)| match held {
            Held::Message(port) => (port.arm(), None),
            Held::Notification(port) => (None, Some(port.arm())),
        });
        let armed: Vec<_> = armed.collect();
        kernel::run(&launches, setup.options)?;
        drop(armed);
        for ((_, held), probe) in self.ends.iter().zip(&probes) {
            probe.finished(held.kernel().0, held.report())?;
        }
        setup.samples_of_first(&probes)
    }
}

/// Notification puts and messages in turn; wrong data end a kernel with an error.
pub(super) fn both(task: Task, bytes: u64) -> Result<[(Samples, Check); 2], BenchError> {
    let setup = Setup::new(task, Worker::Kernels)?;
    let kinds = [Kind::new(&setup, false)?, Kind::new(&setup, true)?];
    let count = (task.options.iterations.unwrap_or(ITERATIONS) / TURNS).max(1);
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (kind, samples) in kinds.iter().zip(&mut samples) {
            samples.extend(kind.run(&setup, bytes, count)?);
        }
    }
    let [first, second] = samples.map(|runs| (!runs.is_empty()).then(|| Samples::merged(&runs)));
    Ok([setup.collect(first, Check::default())?, setup.collect(second, Check::default())?])
}

/// The other end's port.
pub(super) fn other(addresses: &[(u16, u8)], node: u32) -> Result<Address, BenchError> {
    let missing = || BenchError::Unsupported("a ping-pong needs two nodes".to_owned());
    addresses.get(1 - node as usize).map(|(node, vpid)| Address::new(*node, *vpid)).ok_or_else(missing)
}
