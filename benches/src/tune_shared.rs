//! What `ggas tune --shared-gpu` does: measures collectives of processes that share a GPU by each algorithm, and keeps the quickest.

use std::time::Duration;

use ggas_coll::device_of;
use ggas_kernels::Processor;
use ggas_shared_gpu::{Choice, Choices, Collective, Mps};

use crate::bench::shared_gpu::{Figures, notes};
use crate::error::Doing;
use crate::job::Line;
use crate::shared_gpu::{bench, job};
use crate::shared_methods::algorithm;
use crate::team::Task;
use crate::{BenchError, Device, Options, Progress, Report, Team};

const SIZES: [u64; 8] = [8, 4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20];
/// Operations of a round.
const TRIPS: u32 = 10;
/// So many runs of a cell have so long, so that a table takes a minute.
const CELL: Duration = Duration::from_millis(300);
const CELL_RUNS: u32 = 100;
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

/// Measures in `options.nodes` processes, with so many runs of each size and algorithm; where they take too long, fewer, but 30; where they take
/// clearly longer than another algorithm's, 20.
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
    progress.begin("processes that share a GPU", Collective::TUNED.len() as u64);
    for collective in Collective::TUNED {
        let methods = methods(collective, options.nodes as usize);
        progress.now(format!("{collective} by {}", methods.join(", ")));
        let within = CELL * runs / CELL_RUNS;
        let counts = (runs.div_ceil(TRIPS), TRIPS);
        let job = job(collective, &methods, options, counts, (sizes.clone(), Some(within)));
        let lines = job.run(options.nodes)?;
        let by_size = by_size(&sizes, &lines, options.nodes as usize);
        tuned.choices.push(Choices {
            device: device.clone(),
            collective,
            ranks: options.nodes as usize,
            mps,
            by_size,
        });
        let mut report = Task::new(crate::find(bench(collective))?, &team, options)?.report();
        report.fabric = "process".to_owned();
        report.settings.insert("processes", options.nodes.into());
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

/// What [`Algorithm`](ggas_shared_gpu::Algorithm) has for the collective. Static by quarters: the text's table has the number of copies through the host that is quickest; and without these by kernels.
fn methods(collective: Collective, ranks: usize) -> Vec<String> {
    use Collective::{Allgather, Allreduce, Broadcast, Reduce};
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

/// The quickest at each size, from that size on until another is quicker.
fn by_size(sizes: &[u64], lines: &[Line], ranks: usize) -> Vec<Choice> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    let mut found: Vec<Choice> = Vec::new();
    for bytes in sizes {
        let of_size = || lines.iter().filter(|line| line.bytes == Some(bytes));
        let Some(best) = of_size().min_by(|a, b| a.value.total_cmp(&b.value)) else { continue };
        let Some(quickest) = algorithm(&best.peer, ranks).flatten() else { continue };
        let own = found.last().and_then(|last| {
            of_size().find(|line| algorithm(&line.peer, ranks).flatten() == Some(last.algorithm))
        });
        if own.is_none_or(|own| best.value < GAIN * own.value) {
            let from_bytes = if found.is_empty() { 0 } else { bytes as usize };
            found.push(Choice { from_bytes, algorithm: quickest });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ggas_shared_gpu::{Algorithm, Copier};

    use super::*;

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
            Choice { from_bytes: 0, algorithm: Algorithm::Host },
            Choice { from_bytes: 512, algorithm: Algorithm::Static { staged: 3, by: Copier::Engine } },
        ];
        assert_eq!(by_size(&[512, 8, 64], &lines, 4), expected);
    }

    #[test]
    fn static_ones_are_quarters_of_the_copies() {
        let of = |ranks| methods(Collective::Reduce, ranks)[4..].join(" ");
        assert_eq!(of(16), "static-0 static-3 static-7 static-11 static-15 static-stores static-bulk");
        assert_eq!(
            (of(2), of(1)),
            (
                "static-0 static-1 static-stores static-bulk".to_owned(),
                "static-0 static-stores static-bulk".to_owned()
            )
        );
        assert_eq!(methods(Collective::Broadcast, 8).join(" "), "host gsb btb direct");
        // What has no tree, and no mechanisms, would be measured as GSB again.
        assert_eq!(
            methods(Collective::Allgather, 2).join(" "),
            "host gsb dynamic static-0 static-1 static-stores static-bulk"
        );
        assert_eq!(methods(Collective::Alltoall, 8).join(" "), "host gsb");
        assert_eq!(methods(Collective::ReduceScatter, 8).join(" "), "host gsb");
    }
}
