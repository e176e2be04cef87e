//! What `ggas tune --shared-gpu` does: measures collectives of processes that share a GPU, or several, by each algorithm, and keeps the
//! quickest.

use std::time::Duration;

use ggas_coll::device_of;
use ggas_kernels::Processor;
use ggas_shared_gpu::{Choice, Choices, Collective, Mps};

use crate::bench::shared_gpu::{Figures, notes};
use crate::error::Doing;
use crate::host::HostFacts;
use crate::job::Line;
use crate::shared_gpu::{bench, job};
use crate::shared_methods::{FLAT, Forced, STEPS, algorithm, forced};
use crate::team::Task;
use crate::{BenchError, Device, Options, Progress, Report, Team};

pub(crate) const SIZES: [u64; 8] = [8, 4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20];
/// Operations of a round.
pub(crate) const TRIPS: u32 = 10;
/// So many runs of a cell have so long on average, with its checks, so that a table takes less than a minute.
const CELL: Duration = Duration::from_millis(100);
pub(crate) const CELL_RUNS: u32 = 100;
/// A choice stays until another is so much quicker.
const GAIN: f64 = 0.95;

/// What was chosen, and the measurements behind it.
#[derive(Debug)]
pub struct SharedTuned {
    /// For [`ggas_coll::Tuning::shared_gpu`]: a collective each.
    pub choices: Vec<Choices>,
    /// Rows of `shared-gpu-*`.
    pub reports: Vec<Report>,
}

/// Measures in `options.nodes` processes on `options.gpus` GPUs by turns, with so many runs of each size and algorithm; where they take too long,
/// fewer, but 30, or 20 while those before took more than their part of the time; where they take clearly longer than another algorithm's,
/// 20, and 10 where they take twice as long.
///
/// # Errors
/// As for [`Bench::run`](crate::Bench::run); [`BenchError::WrongData`].
pub fn tune_shared(options: &Options, runs: u32, progress: &mut Progress) -> Result<SharedTuned, BenchError> {
    let mut tuned = SharedTuned { choices: Vec::new(), reports: Vec::new() };
    let (device, mps) = match options.device {
        Device::Cpu => (device_of(&Processor::cpu()), false),
        Device::Gpu => (device_of(&Processor::gpu(0).doing("opening the GPU")?), Mps::find().is_on()),
    };
    let (team, sizes) = (Team::alone(), options.sizes_or(&SIZES, 4..=1 << 30, 4)?);
    let shape = Shape { ranks: options.nodes as usize, gpus: options.gpus as usize };
    let measured_by = versions(options.device);
    progress.begin("processes that share a GPU", Collective::TUNED.len() as u64);
    for collective in Collective::TUNED {
        let methods = methods(collective, shape);
        progress.now(format!("{collective} by {}", methods.join(", ")));
        let within = CELL * runs / CELL_RUNS;
        let counts = (runs.div_ceil(TRIPS), TRIPS);
        let job = job(collective, &methods, options, counts, (sizes.clone(), Some(within)));
        let lines = job.run(options.nodes)?;
        let by_size = by_size(&sizes, &lines, shape);
        tuned.choices.push(Choices {
            device: device.clone(),
            collective,
            ranks: shape.ranks,
            gpus: shape.on_each(),
            mps,
            by_size,
            measured_by: measured_by.clone(),
        });
        let mut report = Task::new(crate::find(bench(collective))?, &team, options)?.report();
        report.fabric = "process".to_owned();
        report.settings.insert("processes", options.nodes.into());
        report.settings.insert("gpus", options.gpus.into());
        notes(options.device, methods.iter().any(|method| method == "dynamic"), &mut report);
        let mut figures = Figures::default();
        figures.add(lines);
        figures.rows(&mut report);
        report.check()?;
        tuned.reports.push(report);
        progress.step();
    }
    Ok(tuned)
}

/// Of this suite, and of the driver.
pub(crate) fn versions(device: Device) -> String {
    let mut host = HostFacts::collect();
    if device == Device::Gpu {
        host.add_gpus(1);
    }
    let git = host.git.map(|git| format!(" ({git})")).unwrap_or_default();
    let driver = host.driver.map(|driver| format!(", driver {driver}")).unwrap_or_default();
    format!("ggas {}{git}{driver}", host.version)
}

/// Processes, and on how many GPUs they are by turns.
#[derive(Clone, Copy)]
struct Shape {
    ranks: usize,
    gpus: usize,
}

impl Shape {
    /// As tables have it.
    fn on_each(self) -> Vec<usize> {
        let Shape { ranks, gpus } = self;
        if gpus == 1 { Vec::new() } else { (0..gpus).map(|gpu| (ranks - gpu).div_ceil(gpus)).collect() }
    }

    /// What a method's name stands for.
    fn choice(self, method: &str, from_bytes: usize) -> Option<Choice> {
        if self.gpus == 1 {
            let algorithm = algorithm(method, self.ranks).flatten()?;
            return Some(Choice { from_bytes, algorithm, between: None });
        }
        let Forced { flat, inside, between } = forced(method)?;
        Some(Choice { from_bytes, algorithm: flat.or(inside)?, between })
    }
}

/// What [`Algorithm`](ggas_shared_gpu::Algorithm) has for the collective. Static by quarters: the text's table has the number of copies through the host that is
/// quickest; and without these by kernels. On several GPUs, beside each other and GPU by GPU.
fn methods(collective: Collective, Shape { ranks, gpus }: Shape) -> Vec<String> {
    use Collective::{Allgather, Allreduce, Broadcast, Reduce};
    if gpus > 1 {
        let has_steps = matches!(collective, Allreduce | Reduce | Broadcast);
        let (flat, steps) = if has_steps { (&FLAT[..], &STEPS[..]) } else { (&FLAT[..2], &[][..]) };
        return flat.iter().chain(steps).map(ToString::to_string).collect();
    }
    let mut methods = vec!["host".to_owned(), "gsb".to_owned()];
    if matches!(collective, Allreduce | Reduce | Broadcast) {
        methods.push("btb".to_owned());
    }
    if collective == Broadcast {
        methods.push("direct".to_owned());
    }
    if matches!(collective, Allreduce | Reduce | Allgather) {
        methods.push("dynamic".to_owned());
        let mut staged: Vec<usize> = (0..=4).map(|quarters| (ranks - 1) * quarters / 4).collect();
        staged.dedup();
        methods.extend(staged.into_iter().map(|staged| format!("static-{staged}")));
        methods.extend(["static-stores", "static-bulk"].map(str::to_owned));
    }
    methods
}

fn by_size(sizes: &[u64], lines: &[Line], shape: Shape) -> Vec<Choice> {
    let way = |method: &str| shape.choice(method, 0);
    let at = |(from_bytes, choice)| Choice { from_bytes, ..choice };
    quickest(sizes, lines, way).into_iter().map(at).collect()
}

/// The quickest way at each size, from that size on until another is quicker; what a method's name stands for is `way`.
pub(crate) fn quickest<W: Copy + PartialEq>(
    sizes: &[u64],
    lines: &[Line],
    way: impl Fn(&str) -> Option<W>,
) -> Vec<(usize, W)> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    // One that is named twice is measured twice, but has one choice.
    sizes.dedup();
    let mut found: Vec<(usize, W)> = Vec::new();
    for bytes in sizes {
        let of_size = || lines.iter().filter(|line| line.bytes == Some(bytes));
        let Some(best) = of_size().min_by(|a, b| a.value.total_cmp(&b.value)) else { continue };
        let from_bytes = if found.is_empty() { 0 } else { bytes as usize };
        let Some(quickest) = way(&best.peer) else { continue };
        let last = found.last().map(|(_, last)| *last);
        let own = last.and_then(|last| of_size().find(|line| way(&line.peer) == Some(last)));
        if last != Some(quickest) && own.is_none_or(|own| best.value < GAIN * own.value) {
            found.push((from_bytes, quickest));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ggas_shared_gpu::{Algorithm, Copier};

    use super::*;

    const ONE: fn(usize) -> Shape = |ranks| Shape { ranks, gpus: 1 };

    fn line(peer: &str, bytes: u64, value: f64) -> Line {
        let text = format!(
            r#"{{"peer": "{peer}", "bench": "b", "nodes": 4, "bytes": {bytes}, "value": {value}, "min": 1}}"#
        );
        crate::job::lines(&text).expect("a line").remove(0)
    }

    #[test]
    fn the_quickest_counts_until_another_is_clearly_quicker() {
        let lines = [
            line("gsb", 8, 9.0),
            line("host", 8, 2.0),
            line("gsb", 64, 9.9),
            line("host", 64, 10.0),
            line("gsb", 512, 20.0),
            line("static-3", 512, 18.0),
            line("static-bulk", 512, 18.5),
            line("host", 512, 30.0),
        ];
        let expected = [
            Choice { from_bytes: 0, algorithm: Algorithm::Host, between: None },
            Choice {
                from_bytes: 512,
                algorithm: Algorithm::Static { staged: 3, by: Copier::Engine },
                between: None,
            },
        ];
        assert_eq!(by_size(&[512, 8, 64], &lines, ONE(4)), expected);
        let twice: Vec<Line> = lines.iter().chain(&lines).cloned().collect();
        assert_eq!(by_size(&[512, 8, 512, 8, 512, 64], &twice, ONE(4)), expected, "named several times");
    }

    #[test]
    fn on_several_gpus_both_levels_are_chosen_or_none() {
        let lines = [
            line("flat-host", 8, 2.0),
            line("gsb-btb", 8, 6.0),
            line("flat-host", 4096, 20.0),
            line("gsb-gsb", 4096, 10.0),
            line("gsb-btb", 4096, 9.0),
            line("gsb-gsb", 65536, 9.0),
            line("gsb-btb", 65536, 9.2),
        ];
        let expected = [
            Choice { from_bytes: 0, algorithm: Algorithm::Host, between: None },
            Choice { from_bytes: 4096, algorithm: Algorithm::Gsb, between: Some(Algorithm::Btb) },
        ];
        let two = Shape { ranks: 5, gpus: 2 };
        assert_eq!(by_size(&[8, 4096, 65536], &lines, two), expected);
        assert_eq!((two.on_each(), ONE(5).on_each()), (vec![3, 2], Vec::new()));
        let all = "flat-host flat-gsb flat-btb gsb-gsb btb-gsb btb-btb gsb-btb";
        assert_eq!(methods(Collective::Broadcast, two).join(" "), all);
        assert_eq!(methods(Collective::Alltoall, two).join(" "), "flat-host flat-gsb");
    }

    #[test]
    fn static_ones_are_quarters_of_the_copies() {
        let of = |ranks| methods(Collective::Reduce, ONE(ranks))[4..].join(" ");
        assert_eq!(of(16), "static-0 static-3 static-7 static-11 static-15 static-stores static-bulk");
        assert_eq!(
            (of(2), of(1)),
            (
                "static-0 static-1 static-stores static-bulk".to_owned(),
                "static-0 static-stores static-bulk".to_owned()
            )
        );
        assert_eq!(methods(Collective::Broadcast, ONE(8)).join(" "), "host gsb btb direct");
        // What has no tree, and no mechanisms, would be measured as GSB again.
        assert_eq!(
            methods(Collective::Allgather, ONE(2)).join(" "),
            "host gsb dynamic static-0 static-1 static-stores static-bulk"
        );
        assert_eq!(methods(Collective::Alltoall, ONE(8)).join(" "), "host gsb");
        assert_eq!(methods(Collective::ReduceScatter, ONE(8)).join(" "), "host gsb");
    }
}
