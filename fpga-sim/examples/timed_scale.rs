//! How large a system the timed driver runs, in what time and memory:
//!
//!     cargo run --release -p extoll-sim --example timed_scale

use extoll_sim::timed::{Flag, Node, Put, System, Timed};
use extoll_sim::torus::{Direction, Torus};
use ggas_clock::Clock;

use self::used::{cpu_seconds, peak_mebibytes};

#[path = "common/used.rs"]
mod used;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = System::named("extoll-fpga")?;
    println!(
        "{:44}{:>10} {:>7} {:>7} {:>9} {:>10} {:>5}",
        "", "virtual", "real s", "CPU s", "events", "a CPU s", "MiB"
    );
    run("512 nodes, all to all, 1 KiB each", &system, (8, 8, 8), all_to_all)?;
    run("4,096 nodes, neighbours, 1 KiB, allreduce", &system, (16, 16, 16), exchange_and_reduce)?;
    Ok(())
}

type Programs = fn(&Timed);

fn run(
    what: &str,
    system: &System,
    (x, y, z): (u32, u32, u32),
    programs: Programs,
) -> Result<(), Box<dyn std::error::Error>> {
    let (began, cpu_began) = (Clock::REAL.now(), cpu_seconds()?);
    let timed = Timed::on_torus(system, Torus::new(x, y, z)?, 1)?;
    programs(&timed);
    let (took, cpu) = (Clock::REAL.since(began).as_secs_f64(), cpu_seconds()? - cpu_began);
    let (counts, virtual_time) = (timed.counts(), timed.now());
    println!(
        "{what:44}{:>10} {took:>7.2} {cpu:>7.2} {:>9} {:>10.0} {:>5}   {} hops, {} puts",
        format!("{:.1} us", virtual_time.as_us()),
        counts.events,
        counts.events as f64 / cpu,
        peak_mebibytes(),
        counts.hops,
        counts.flights,
    );
    Ok(())
}

/// Each node puts 1 KiB to each other one and waits for all that come.
fn all_to_all(timed: &Timed) {
    let nodes = timed.nodes();
    let flags: Vec<Flag> = (0..nodes).map(|_| timed.flag()).collect();
    timed.run((0..nodes).map(|me| {
        let flags = &flags;
        let program = move || {
            let node = timed.node(me);
            // Each begins with the next one: targets change places.
            for to in (me + 1..nodes).chain(0..me) {
                node.put(Put::new(to, 1024).notified().arrived(&flags[to]));
            }
            node.wait(&flags[me], nodes as u64 - 1);
        };
        (me, format!("node {me}"), program)
    }));
    assert_eq!(timed.counts().flights, (nodes * (nodes - 1)) as u64);
}

/// Ten rounds: 1 KiB to all six neighbours, then an allreduce of a word by recursive doubling.
fn exchange_and_reduce(timed: &Timed) {
    const ROUNDS: u64 = 10;
    let (nodes, Some(torus)) = (timed.nodes(), timed.torus()) else { return };
    let steps = nodes.ilog2() as usize;
    let flag = |_| timed.flag();
    let around: Vec<Flag> = (0..nodes).map(flag).collect();
    let doubling: Vec<Vec<Flag>> = (0..steps).map(|_| (0..nodes).map(flag).collect()).collect();
    timed.run((0..nodes).map(|me| {
        let (around, doubling) = (&around, &doubling);
        let neighbour = move |direction| {
            let next = torus.neighbour(torus.id_of_index(me), direction);
            next.and_then(|id| torus.index(id)).unwrap_or(me)
        };
        let program = move || {
            let node: Node<'_> = timed.node(me);
            for round in 1..=ROUNDS {
                for direction in Direction::ALL {
                    let to = neighbour(direction);
                    node.put(Put::new(to, 1024).notified().arrived(&around[to]));
                }
                node.wait(&around[me], 6 * round);
                for (step, flags) in doubling.iter().enumerate() {
                    let other = me ^ 1 << step;
                    node.put(Put::new(other, 8).notified().arrived(&flags[other]));
                    node.wait(&flags[me], round);
                }
            }
        };
        (me, format!("node {me}"), program)
    }));
    assert_eq!(timed.counts().flights, nodes as u64 * ROUNDS * (6 + steps as u64));
}
