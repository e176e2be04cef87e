//! `ggas demo`: small runs of the benchmarks, in one table.

use crate::failure::{Failure, chain};
use crate::{info, out};
use ggas_benches::{Device, Options, Path, Progress, Report, Row, Team, Via};
use ggas_device::ChoiceError;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct DemoArgs {
    /// Where kernels run: cpu or gpu; a GPU if there is one
    #[arg(long, value_name = "WHERE")]
    device: Option<Device>,
}

/// One line or more of the table.
struct Scene {
    what: &'static str,
    bench: &'static str,
    method: &'static str,
    nodes: u32,
    sizes: &'static [u64],
    /// Threads per block; empty: the benchmark chooses.
    threads: &'static [u32],
    /// Blocks per node; empty: the benchmark chooses.
    blocks: &'static [u32],
    path: Path,
}

impl Scene {
    const fn new(
        what: &'static str,
        bench: &'static str,
        method: &'static str,
        sizes: &'static [u64],
    ) -> Self {
        Scene { what, bench, method, nodes: 2, sizes, threads: &[], blocks: &[], path: Path::Slots }
    }

    const fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    const fn threads(mut self, threads: &'static [u32]) -> Self {
        self.threads = threads;
        self
    }

    const fn blocks(mut self, blocks: &'static [u32]) -> Self {
        self.blocks = blocks;
        self
    }

    const fn card(mut self) -> Self {
        self.path = Path::Card;
        self
    }
}

const SCENES: &[Scene] = &[
    Scene::new("put, notified", "rma-pingpong", "notification", &[8, 4096]),
    Scene::new("put, notified, card pages", "rma-pingpong", "notification", &[8]).card(),
    Scene::new("put, polled on the data", "rma-pingpong", "poll", &[8]),
    Scene::new("puts in flight", "rma-bandwidth", "notification", &[1 << 20]),
    Scene::new("put rate", "rma-rate", "put", &[]).blocks(&[1]),
    Scene::new("remote store", "ggas-pingpong", "write", &[8]).threads(&[1]),
    Scene::new("remote load", "ggas-pingpong", "read", &[8]).threads(&[1]),
    Scene::new("remote stores", "ggas-bandwidth", "store", &[1 << 20]).threads(&[256]),
    Scene::new("barrier", "barrier", "single", &[]).nodes(4).blocks(&[1]),
    Scene::new("barrier, 4 blocks each", "barrier", "hierarchical", &[]).nodes(4).blocks(&[4]),
    Scene::new("reduce", "reduce", "gather", &[1024]).nodes(4),
    Scene::new("allreduce", "allreduce", "all-gather", &[1024]).nodes(4),
    Scene::new("allreduce", "allreduce", "all-to-all", &[1024]).nodes(4),
    Scene::new("RandomAccess", "randomaccess", "ggas", &[1 << 14]).nodes(4),
    Scene::new("RandomAccess", "randomaccess", "rma", &[1 << 12]).nodes(4),
];

const WIDTHS: [usize; 7] = [25, 5, 12, 8, 9, 10, 8];
const TITLES: [&str; 7] = ["what", "nodes", "method", "bytes", "median us", "rate", "verified"];

pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let device = choose(args)?;
    out::print(&(line(TITLES.map(String::from)) + &"-".repeat(WIDTHS.iter().sum::<usize>() + 12) + "\n"))?;
    let mut failures = Vec::new();
    // The card's pages are for the CPU executor: memory that a GPU writes does not show that a word of 0 arrived.
    for scene in SCENES.iter().filter(|scene| device == Device::Cpu || scene.path != Path::Card) {
        let text = match play(scene, device) {
            Ok(report) => {
                if let Err(error) = report.check() {
                    failures.push(chain(&error));
                }
                report.rows.iter().map(|row| measured(scene, &report, row)).collect()
            }
            Err(error) => {
                failures.push(format!("{}, {}: {}", scene.bench, scene.method, chain(&error)));
                failed(scene)
            }
        };
        out::print(&text)?;
    }
    if !failures.is_empty() {
        return Err(Failure::Failed(format!("the demo failed:\n  {}", failures.join("\n  "))));
    }
    let seconds = start.elapsed().as_secs_f64();
    out::print(&format!("All verified, {seconds:.0} s. A closer look: {} bench list\n", program()))
}

/// How this program was called, as short as it can be called again.
fn program() -> String {
    let name = std::env::args_os().next().map_or_else(|| "ggas".into(), PathBuf::from);
    let here = std::env::current_dir().ok().and_then(|here| Some(name.strip_prefix(here).ok()?.to_owned()));
    here.unwrap_or(name).display().to_string()
}

/// Says where the kernels run, in one line.
fn choose(args: &DemoArgs) -> Result<Device, Failure> {
    let (device, why) = info::choose(args.device)?;
    let line = match (device, why) {
        (Device::Gpu, _) => format!("Kernels run on {}.", info::gpu_names()),
        (Device::Cpu, Some(why)) => info::fallback(&why),
        (Device::Cpu, None) => "Kernels run on the CPU executor, as asked for.".into(),
    };
    // The demo asks for the model; who has set another device is told.
    let other = match ggas_device::choose(None, args.device.map(Device::kind)) {
        Ok(choice) if choice.kind != Via::Sim => format!("\n{}", elsewhere(choice.kind)),
        Err(error @ (ChoiceError::Word { .. } | ChoiceError::Differ { .. })) => {
            return Err(info::not_there(error));
        }
        _ => String::new(),
    };
    out::print(&format!("{line}\nThe nodes are software EXTOLLs in this process.{other}\n\n"))?;
    Ok(device)
}

/// For whom the demo is not on the device that programs take here.
fn elsewhere(kind: Via) -> String {
    format!(
        "Not all of it goes by {kind}, which programs take here: {} bench rma-pingpong --via {kind}",
        program()
    )
}

fn play(scene: &Scene, device: Device) -> Result<Report, ggas_benches::BenchError> {
    let options = Options {
        nodes: scene.nodes,
        device,
        sizes: scene.sizes.to_vec(),
        threads: scene.threads.to_vec(),
        blocks: scene.blocks.to_vec(),
        method: Some(scene.method.into()),
        path: Some(scene.path),
        ..Options::default()
    };
    let mut progress = Progress::bar();
    let report = ggas_benches::find(scene.bench)?.run(&Team::alone(), &options, &mut progress);
    progress.finish();
    report
}

fn measured(scene: &Scene, report: &Report, row: &Row) -> String {
    let bytes = row.bytes.or(row.elements.map(|n| n * element_bytes(scene.bench)));
    let rate = match (row.bandwidth_mbps, row.rate_per_s) {
        (Some(_), None) if bytes.is_some_and(|n| n < 1024) => String::new(), // the latency says it all
        (Some(bandwidth), _) => format!("{} MB/s", digits(bandwidth)),
        (None, Some(rate)) if rate >= 1e6 => format!("{} M/s", digits(rate / 1e6)),
        (None, Some(rate)) if rate >= 1e3 => format!("{} k/s", digits(rate / 1e3)),
        (None, Some(rate)) => format!("{} /s", digits(rate)),
        (None, None) => String::new(),
    };
    let verified = if row.errors == 0 && report.verified { "✓" } else { "WRONG" };
    line([
        scene.what.into(),
        row.nodes.unwrap_or(report.nodes).to_string(),
        row.method.clone().unwrap_or_else(|| scene.method.into()),
        bytes.map(|n| n.to_string()).unwrap_or_default(),
        digits(row.latency_us.median),
        rate,
        verified.into(),
    ])
}

fn failed(scene: &Scene) -> String {
    let empty = String::new;
    let cells = [scene.what.into(), scene.nodes.to_string(), scene.method.into(), empty(), empty(), empty()];
    let [a, b, c, d, e, f] = cells;
    line([a, b, c, d, e, f, "FAILED".into()])
}

/// Floats in the collectives, 64-bit words in the RandomAccess table.
fn element_bytes(bench: &str) -> u64 {
    if bench == "randomaccess" { 8 } else { 4 }
}

/// Names on the left, numbers on the right.
fn line(cells: [String; 7]) -> String {
    let mut text = String::new();
    for (i, cell) in cells.iter().enumerate() {
        let width = WIDTHS[i];
        text += &if i == 0 || i == 2 { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
    }
    text.trim_end().to_owned() + "\n"
}

/// Three digits that mean something.
fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_names_a_benchmark_and_a_method_of_it() {
        for scene in SCENES {
            let bench = ggas_benches::find(scene.bench).unwrap();
            assert!(bench.methods().contains(&scene.method), "{} has no {}", scene.bench, scene.method);
        }
    }

    #[test]
    fn lines_fit_ninety_columns() {
        assert!(line(TITLES.map(String::from)).chars().count() <= 90);
        assert_eq!(digits(0.1234), "0.123");
        assert_eq!(digits(12.34), "12.3");
        assert_eq!(digits(1234.5), "1234");
    }
}
