//! Ports of real cards in a large timed system, with lengths for bytes: how long it takes, and how much memory.
//!
//!     cargo run --release -p ggas-rma --example timed_cards [all-to-all | neighbours]

use std::time::Duration;

use ggas_clock::Clock;
use ggas_device::sim::timed::{Moves, System, Timed};
use ggas_device::sim::{Direction, SimNetwork, Torus};
use ggas_device::{HostBuffer, LockedMemory};
use ggas_rma::{Node, Port, PortConfig, Region, Spec};

use self::used::{cpu_seconds, peak_mebibytes};

#[path = "../../../fpga-sim/examples/common/used.rs"]
mod used;

/// Bytes of each put.
const BYTES: usize = 1024;
const LIMIT: Duration = Duration::from_secs(3600);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let which = std::env::args().nth(1);
    let wanted = |name: &str| which.as_deref().is_none_or(|which| which == name);
    if wanted("all-to-all") {
        let partners = |torus: &Torus, me: usize| (me + 1..torus.len()).chain(0..me).collect();
        run("512 nodes, all to all, 1 KiB each", (8, 8, 8), partners, 0)?;
    }
    if wanted("neighbours") {
        let around = |torus: &Torus, me: usize| {
            let next = |direction| torus.neighbour(torus.id_of_index(me), direction);
            Direction::ALL.into_iter().filter_map(next).filter_map(|id| torus.index(id)).collect()
        };
        run("4,096 nodes, neighbours, 1 KiB, allreduce", (16, 16, 16), around, 12)?;
    }
    Ok(())
}

/// A node's port, and what it puts from and others put to.
struct Place {
    port: Port,
    region: Region,
}

/// Each node puts to its partners and waits for as many, then sums up a word by recursive doubling in so many steps.
fn run(
    what: &str,
    (x, y, z): (u32, u32, u32),
    partners: impl Fn(&Torus, usize) -> Vec<usize>,
    steps: usize,
) -> Result<()> {
    let (began, cpu_began) = (Clock::REAL.now(), cpu_seconds()?);
    let torus = Torus::new(x, y, z)?;
    let timed = Timed::on_torus(&System::named("extoll-fpga")?, torus, 1)?;
    let builder = SimNetwork::builder().nodes(torus.len()).locked_memory(LockedMemory::Unlimited);
    let network = builder.timed(&timed, Moves::Lengths).build()?;
    let places = (0..torus.len()).map(|node| open(&network, node)).collect::<Result<Vec<_>>>()?;
    let (cpu_ready, first, places) = (cpu_seconds()?, timed.now(), &places);
    timed.run((0..torus.len()).map(|me| {
        let partners = partners(&torus, me);
        let program = move || {
            for to in &partners {
                put(places, me, *to, BYTES);
            }
            let mut early = vec![0; steps];
            for _ in &partners {
                while let Some(step) = next(&places[me].port) {
                    early[step] += 1;
                }
            }
            for step in 0..steps {
                notify(places, me, me ^ 1 << step, step);
                while early[step] == 0 {
                    let found = next(&places[me].port).expect("all puts are there");
                    early[found] += 1;
                }
            }
        };
        (me, format!("node {me}"), program)
    }));
    let (took, cpu) = (Clock::REAL.since(began).as_secs_f64(), cpu_seconds()?);
    let counts = timed.counts();
    println!(
        "{what}: {:.1} us of virtual time in {took:.1} s, {:.1} s of processor time ({:.1} s of it until all ports were \
         open), {} events, {:.0} a second of processor time, {} hops, {} MiB",
        (timed.now() - first).as_us(),
        cpu - cpu_began,
        cpu_ready - cpu_began,
        counts.events,
        counts.events as f64 / (cpu - cpu_ready),
        counts.hops,
        peak_mebibytes(),
    );
    Ok(())
}

fn open(network: &SimNetwork, node: usize) -> Result<Place> {
    let node = Node::new(network.device(node)?);
    let config = PortConfig { queue_bytes: 16 << 10, segment_bytes: 16 << 10, ..PortConfig::default() };
    let port = node.open_port(config)?;
    let region = port.register(HostBuffer::zeroed(2 * BYTES)?)?;
    Ok(Place { port, region })
}

fn put(places: &[Place], me: usize, to: usize, bytes: usize) {
    let target = places[to].region.nla(BYTES).expect("within the region");
    let connection = places[me].port.connect(places[to].port.address());
    connection.put(&places[me].region, 0, bytes, target, Spec::COMPLETER).expect("posted");
}

fn notify(places: &[Place], me: usize, to: usize, step: usize) {
    let connection = places[me].port.connect(places[to].port.address());
    connection.notification_put(1, step as u64, Spec::COMPLETER).expect("posted");
}

/// The next notification: of a put (`None`), or of a step of the sum.
fn next(port: &Port) -> Option<usize> {
    let said = port.wait(LIMIT).expect("a notification");
    assert!(said.error().is_empty(), "{said:?}");
    let Ok((_, extoll_abi::Body::Class { payload, .. })) = said.decode() else { return None };
    Some(payload as usize)
}
