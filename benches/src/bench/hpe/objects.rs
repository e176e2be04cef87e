//! `hpe-objects`: what a fault on a shared object costs, and a launch that uses one.

use std::time::Instant;

use ggas_hpe::{HpeError, Runtime, Tracking, Use};

use super::devices;
use crate::bench::litmus::in_one_process;
use crate::error::Doing;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

pub(crate) struct Objects;

const WAYS: [(&str, Tracking); 3] = [
    ("protect", Tracking::Protect),
    ("protect-by-thread", Tracking::ProtectByThread),
    ("userfault", Tracking::Userfault),
];
/// Blocks of an object.
const BLOCKS: usize = 64;

impl Bench for Objects {
    fn name(&self) -> &'static str {
        "hpe-objects"
    }

    fn about(&self) -> &'static str {
        "shared objects: a fault, and launches behind which nothing or one block was touched (HPE III-D)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        const NAMES: [&str; 3] = [WAYS[0].0, WAYS[1].0, WAYS[2].0];
        &NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sizes = options.sizes_or(&[4096, 64 << 10], 4096..=16 << 20, 4096)?;
        let mut report = task.report();
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        let setup = Setup::new(task, Worker::Kernels)?;
        for method in methods {
            for &block in &sizes {
                progress.now(format!("{method}, blocks of {block} bytes"));
                match rows(&setup, method, block as usize) {
                    Ok(rows) => rows.into_iter().for_each(|(row, check)| {
                        report.push(row.method(method).bytes(block), check);
                    }),
                    Err(Missing::Not(why)) => report.notes.push(format!("{method}: not run: {why}")),
                    Err(Missing::Failed(error)) => return Err(error),
                }
                progress.step();
            }
        }
        report.notes.push("`copy`: a copy of a block, without a fault".to_owned());
        Ok(report)
    }
}

/// Why there are no rows.
enum Missing {
    /// The system does not allow it.
    Not(String),
    Failed(BenchError),
}

impl From<BenchError> for Missing {
    fn from(error: BenchError) -> Missing {
        Missing::Failed(error)
    }
}

fn rows(setup: &Setup, method: &str, block: usize) -> Result<Vec<(Row, Check)>, Missing> {
    let tracking = WAYS.into_iter().find(|(name, _)| *name == method).map_or(WAYS[0].1, |(_, way)| way);
    let builder = devices(setup, 1)?.block(block).tracking(tracking).timeout(setup.options.timeout);
    let runtime = match builder.build() {
        Err(HpeError::System { what, error }) if what.starts_with("userfaultfd") => {
            return Err(Missing::Not(format!("{what}: {error}")));
        }
        made => made.doing("making a runtime")?,
    };
    let iterations = setup.options.iterations.unwrap_or(20);
    Ok(measure(&runtime, block, iterations)?)
}

fn measure(runtime: &Runtime, block: usize, iterations: u64) -> Result<Vec<(Row, Check)>, BenchError> {
    let size = BLOCKS * block;
    let device = runtime.devices()[0];
    let start = runtime.alloc_shared(device, size).doing("allocating a shared object")?;
    let all = [(start.cast_const(), Use::Write)];
    let launch = || runtime.launch(&all, || ()).doing("launching");
    // SAFETY: bytes of the object.
    let write = |at: usize, value: u8| unsafe { start.add(at).write_volatile(value) };
    // SAFETY: the same.
    let read = |at: usize| unsafe { start.add(at).read_volatile() };
    let mut check = Check::default();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..iterations {
        let value = round as u8;
        for (writes, times) in times.iter_mut().enumerate() {
            launch()?;
            for at in (0..size).step_by(block) {
                let began = Instant::now();
                let seen = if writes == 1 {
                    write(at, value);
                    value
                } else {
                    read(at)
                };
                times.push(began.elapsed().as_nanos() as f64);
                // What was written before the launch is there behind it.
                let expected = if writes == 1 { value } else { value.saturating_sub(1) };
                check.wrong(u64::from(seen != expected), || format!("byte {at} in round {round} is {seen}"));
            }
        }
    }
    launch()?;
    let [reads, writes] = times.map(|times| Samples::new(times, 1));
    let untouched = time_calls(50 * iterations, |_| launch())?;
    (0..size).step_by(block).for_each(|at| {
        read(at);
    });
    let reading = [(start.cast_const(), Use::Read)];
    let kept = time_calls(50 * iterations, |_| {
        runtime.launch(&reading, || ()).doing("launching with what was read")
    })?;
    let touched = time_calls(5 * iterations, |i| {
        write(0, i as u8);
        launch()
    })?;
    let (there, mut here) =
        (runtime.alloc(device, block).doing("allocating memory of a device")?, vec![0u8; block]);
    let copy = time_calls(10 * iterations, |_| {
        // SAFETY: memory of this function.
        unsafe { runtime.copy(here.as_mut_ptr(), there, block) }.doing("copying")
    })?;
    let rows = [
        ("copy", copy),
        ("read fault", reads),
        ("write fault", writes),
        ("launch, untouched", untouched),
        ("launch that reads, all blocks read before", kept),
        ("launch, a block written", touched),
    ];
    let mut check = Some(check);
    let row = |(what, samples): (&str, Samples)| {
        (Row::new(&samples).with("what", what), check.take().unwrap_or_default())
    };
    Ok(rows.into_iter().map(row).collect())
}
