//! `engine-idle`: RMA engines that have nothing to do. Their warps look for posts all the time, which takes no traffic, but energy.

use std::time::Duration;

use crate::energy::Span;
use crate::setup::{Setup, Worker};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Team};

/// One operation.
const PAUSE: Duration = Duration::from_millis(1);

/// Operations unless the user says.
const PAUSES: u64 = 1000;

pub(crate) struct EngineIdle;

impl Bench for EngineIdle {
    fn name(&self) -> &'static str {
        "engine-idle"
    }

    fn about(&self) -> &'static str {
        "engines that nobody posts to, for a millisecond; with --energy, what they take"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["idle"]
    }

    fn by_engines(&self) -> &'static [&'static str] {
        self.methods()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if !options.engines(self) {
            let why = "engine-idle needs engines: use --via nvlink";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let mut report = task.report();
        progress.begin(self.name(), 1);
        progress.now("idle");
        let setup = Setup::new(task, Worker::Kernels)?;
        // Engines of all processes are there.
        setup.share::<()>(Vec::new())?;
        let counted = Span::begin();
        let samples = time_calls(options.iterations.unwrap_or(PAUSES), |_| {
            std::thread::sleep(PAUSE);
            Ok::<(), BenchError>(())
        })?;
        drop(counted);
        let (samples, check) = setup.collect(Some(samples), Check::default())?;
        report.push(Row::new(&samples).method("idle"), check);
        progress.step();
        Ok(report)
    }
}
