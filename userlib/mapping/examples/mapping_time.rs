//! How long a mapping takes, and how good the heuristic is: `cargo run --release -p ggas-mapping --example mapping_time`.

use std::time::Instant;

use ggas_mapping::{Channel, MapError, Metric, Pattern, Search, Topology, map};

const RUNS: u64 = 200;

/// All ranks send to all, volumes at random.
fn dense(ranks: usize, rng: &mut fastrand::Rng) -> Result<Pattern, MapError> {
    let mut pattern = Pattern::new(ranks)?;
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            pattern.add(from, to, rng.u64(1..1_000_000));
        }
    }
    Ok(pattern)
}

/// A level at random between each two places: the hardest case, as nothing is alike.
fn mesh(places: usize, rng: &mut fastrand::Rng) -> Result<Topology, MapError> {
    let mut levels = vec![vec![0; places]; places];
    let pairs: Vec<(usize, usize)> =
        (0..places).flat_map(|one| (0..one).map(move |other| (one, other))).collect();
    for (one, other) in pairs {
        let level = rng.u8(0..4);
        (levels[one][other], levels[other][one]) = (level, level);
    }
    let channel = |rate: f64| Channel { name: rate.to_string(), latency_us: None, gbytes_per_s: Some(rate) };
    let devices = (0..places).map(|place| place.to_string()).collect();
    Topology::new("mesh".to_owned(), devices, [40.0, 20.0, 12.0, 3.0].map(channel).into(), &levels)
}

fn tree(groups: &[usize]) -> Result<Topology, MapError> {
    let channels = (0..groups.len())
        .map(|level| format!("[[channel]]\nname = '{level}'\ngbytes_per_s = {}\n", 40 >> level));
    Topology::parse(&format!("name = 'tree'\ngroups = {groups:?}\n{}", channels.collect::<String>()), "tree")
}

type Case = fn(&mut fastrand::Rng) -> Result<(Topology, Pattern), MapError>;

fn main() -> Result<(), MapError> {
    let cases: [(&str, u64, Case); 6] = [
        ("8 GPUs of a tree, all to all", RUNS, |rng| Ok((tree(&[2, 2, 2])?, dense(8, rng)?))),
        ("8 GPUs of a mesh, all to all", RUNS, |rng| Ok((mesh(8, rng)?, dense(8, rng)?))),
        ("16 GPUs of helios, 3-d stencil", RUNS, |_| {
            Ok((Topology::named("helios")?, Pattern::stencil(&[2, 2, 4], false, 3, 1)?))
        }),
        ("16 GPUs of helios, all to all", RUNS, |rng| Ok((Topology::named("helios")?, dense(16, rng)?))),
        ("64 places of a tree, 3-d stencil", 10, |_| {
            Ok((tree(&[4, 4, 4])?, Pattern::stencil(&[4, 4, 4], true, 3, 1)?))
        }),
        ("64 places of a mesh, all to all", 10, |rng| Ok((mesh(64, rng)?, dense(64, rng)?))),
    ];
    println!("{:<34} {:>9} {:>9}  (us; of {RUNS} or 10)", "", "median", "slowest");
    for (name, runs, case) in cases {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut times = Vec::new();
        for _ in 0..runs {
            let (topology, pattern) = case(&mut rng)?;
            let began = Instant::now();
            map(&topology, &pattern, Metric::Bandwidth, Search::default())?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:<34} {:>9.0} {:>9.0}", times[times.len() / 2], times[times.len() - 1]);
    }
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut worst, mut best) = (0.0_f64, 0);
    for round in 0..RUNS {
        let topology = if round % 2 == 0 { tree(&[2, 2, 2])? } else { mesh(8, &mut rng)? };
        let pattern = dense(8, &mut rng)?;
        let cost = |exact_up_to| {
            let mapping =
                map(&topology, &pattern, Metric::Bandwidth, Search { exact_up_to, ..Search::default() })?;
            Metric::Bandwidth.cost(&topology, &pattern, &mapping)
        };
        let above: f64 = cost(0)? / cost(8)? - 1.0;
        worst = worst.max(above);
        best += u64::from(above < 1e-9);
    }
    println!(
        "heuristic on 8 GPUs: the best mapping in {best} of {RUNS}, at worst {:.2}% above it",
        100.0 * worst
    );
    Ok(())
}
