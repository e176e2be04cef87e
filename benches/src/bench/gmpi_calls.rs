//! `gmpi-calls` (GMPI paper, IV): what a call of a kernel costs until its answer, by its arguments, with each way that rings have.

use ggas_gmpi::{Config, Gmpi, PLACEMENTS, Placement, Polling};

use crate::args::bench_gmpi_calls;
use crate::error::Doing;
use crate::gmpi::Ranks;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Team};

const KERNEL: &str = "bench_gmpi_calls_rounds";
/// The daemon reads one element at a time up to the second, then the others: sizes on both sides of a ring line's.
const ARGUMENTS: [u64; 6] = [1, 3, 7, 15, 23, 31];

pub(crate) struct GmpiCalls;

impl Bench for GmpiCalls {
    fn name(&self) -> &'static str {
        "gmpi-calls"
    }

    fn about(&self) -> &'static str {
        "a call of a kernel to GMPI's daemon and its answer, by the number of arguments (GMPI paper, IV)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["mapped", "tagged", "copied", "gdrcopy"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 {
            let why = "calls that no other process sees are measured in one process: leave --fabric out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = options.sizes_or(&ARGUMENTS, 1..=31, 1)?;
        let methods = task.methods();
        let mut report = task.report();
        report.nodes = 1;
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            let setup = Setup::new(task, Worker::Kernels)?;
            let gmpi = match open(&setup, method) {
                Err(error) if method == "gdrcopy" => {
                    report.notes.push(format!("gdrcopy, the paper's way: not run: {error}"));
                    continue;
                }
                opened => opened?,
            };
            for &arguments in &sizes {
                progress.now(format!("{method}, {arguments} arguments"));
                let (row, check) = measure(&setup, &gmpi, arguments)?;
                report.push(row.method(method), check);
                progress.step();
            }
            gmpi.close().doing("closing GMPI")?;
        }
        report.notes.push(match polling() {
            Polling::Spin => "the daemon looks again and again".to_owned(),
            _ => "the daemon looks again and again, and yields in between: cores are few".to_owned(),
        });
        Ok(report)
    }
}

/// The shortest calls, where a core can be had for them alone.
fn polling() -> Polling {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if cores >= 4 { Polling::Spin } else { Polling::Yield }
}

/// A world of one process.
fn open(setup: &Setup, method: &str) -> Result<Gmpi, BenchError> {
    let named = |placement: &Placement| format!("{placement:?}").eq_ignore_ascii_case(method);
    let placement = PLACEMENTS.into_iter().chain([Placement::Gdrcopy]).find(named).unwrap_or_default();
    let timeout = setup.options.timeout;
    let config = Config { placement, timeout, polling: polling(), ..Config::default() };
    Ranks::of_one(setup, &config)
}

fn measure(setup: &Setup, gmpi: &Gmpi, arguments: u64) -> Result<(Row, Check), BenchError> {
    let default = if setup.options.device == Device::Gpu { 10_000 } else { 2000 };
    let iterations = setup.options.iterations.unwrap_or(default);
    let processor = setup.processor(0);
    let probe = Probe::with_warm_up(processor, iterations)?;
    let answered = processor.alloc(8).doing("allocating kernel memory")?;
    let args = bench_gmpi_calls {
        timing: probe.args(),
        buf: gmpi.address(),
        answered: answered.address(),
        arguments,
    };
    kernel::run(&[kernel::launch(processor, KERNEL, 1, 32, &args)], setup.options)?;
    gmpi.check().doing("making calls")?;
    probe.finished(KERNEL, None)?;
    let mut check = Check::default();
    let seen = answered.load_u64(0).doing("reading kernel memory")?;
    check.equal("calls that were answered", probe.rounds(), seen);
    let mut row = Row::new(&probe.samples()?);
    row.elements = Some(arguments);
    Ok((row, check))
}
