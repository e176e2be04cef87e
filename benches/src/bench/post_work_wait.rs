//! `post-work-wait` (thesis 4.4.3, Fig. 4.10): what a transfer that a host posts takes from the work that it does meanwhile.

use std::hint::black_box;

use ggas::Spec;
use ggas_kernels::Stream;

use super::iterations_for;
use super::litmus::in_one_process;
use crate::error::Doing;
use crate::kernel;
use crate::payload::MAX_PUT;
use crate::setup::{Setup, Worker};
use crate::staging::{Bystander, Direct, Memories, Route, Staged};
use crate::stats::time_calls;
use crate::team::Task;
use crate::{
    Bench, BenchError, Check, Device, Options, Progress, RandomStream, Report, Row, Samples, Team, Via,
};

/// Bytes of a chunk of `staged`, the thesis's choice (4.3.9).
const CHUNK: usize = 256 << 10;
/// Steps by which the length of one is measured.
const TRIAL_STEPS: u64 = 10_000;

pub(crate) struct PostWorkWait;

impl Bench for PostWorkWait {
    fn name(&self) -> &'static str {
        "post-work-wait"
    }

    fn about(&self) -> &'static str {
        "a host posts a transfer, works as long as it takes, and waits: what the transfer costs the host (thesis 4.4.3)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["put", "copy", "staged"]
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let gpu = options.device == Device::Gpu;
        let sizes: &[u64] = if gpu { &[1024, 65_536, 1 << 20, 8 << 20] } else { &[1024, 1 << 20] };
        let sizes = options.sizes_or(sizes, 1..=MAX_PUT, 1)?;
        let mut methods = task.methods();
        if options.via == Via::Nvlink {
            // Peer memory takes no descriptors.
            methods.retain(|method| *method != "put");
        }
        let mut report =
            super::methods_by_sizes(task, &methods, &sizes, progress, |report, method, bytes| {
                let (row, check) = transfers(task, method, bytes)?;
                report.push(row.method(method).bytes(bytes), check);
                Ok(())
            })?;
        report
            .notes
            .push("min, median and p99 are of both at once; overhead: without the work's time".to_owned());
        Ok(report)
    }
}

/// The device's put between memories of the hosts.
struct Put<'a>(&'a Memories<'a>);

impl Route for Put<'_> {
    fn post(&self, round: u64) -> Result<(), BenchError> {
        let layout = self.0.layout;
        self.0.hosts[0].put(layout.source(round), layout.bytes, 0, Spec::COMPLETER)
    }

    fn wait(&self, _: u64) -> Result<(), BenchError> {
        self.0.hosts[1].consume(self.0.options())
    }
}

/// What the host works on.
struct Work {
    word: u64,
    steps: u64,
}

impl Work {
    fn step(word: u64) -> u64 {
        let word = word ^ word << 13;
        let word = word ^ word >> 7;
        word ^ word << 17
    }

    fn go_on(&mut self, steps: u64) {
        for _ in 0..steps {
            self.word = Self::step(black_box(self.word));
        }
        self.steps += steps;
    }

    /// Whether all of the work was done.
    fn check(&self, seed: u64) -> Check {
        let expected = (0..self.steps).fold(seed, |word, _| Self::step(word));
        let mut check = Check::default();
        check.equal("what the host computed", expected, self.word);
        check
    }
}

fn transfers(task: Task, method: &str, bytes: u64) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(task, Worker::KernelsByHost)?;
    // Puts go between memories of the hosts, which no data of this run pass otherwise.
    let by_put = method == "put";
    let memories = Memories::new(&setup, bytes, if by_put { 0 } else { 2 })?;
    let bystanders = [Bystander::new(setup.processor(0))?, Bystander::new(setup.processor(1))?];
    let launches = [0, 1].map(|node| bystanders[node].launch(setup.processor(node as u32)));
    let stream = |node: usize| Stream::new(&launches[node], kernel::limit(task.options.timeout));
    let streams = [stream(0).doing("making a stream")?, stream(1).doing("making a stream")?];
    let put = Put(&memories);
    let direct = Direct { memories: &memories, stream: &streams[0] };
    let staged = Staged::new(&memories, [&streams[0], &streams[1]], CHUNK)?;
    let route: &dyn Route = match method {
        "put" => &put,
        "copy" => &direct,
        _ => &staged,
    };
    let small = if task.options.device == Device::Gpu { 1000 } else { 200 };
    let iterations = task.options.iterations.unwrap_or(iterations_for(small, bytes));
    let seed = RandomStream::new(task.options.seed, 3).word(0);
    let mut work = Work { word: seed, steps: 0 };
    let mut rounds = 0;
    let mut timed = |send: bool, steps: u64| -> Result<Samples, BenchError> {
        time_calls(iterations, |_| {
            if send {
                route.post(rounds)?;
            }
            work.go_on(steps);
            if send {
                route.wait(rounds)?;
                rounds += 1;
            }
            Ok(())
        })
    };
    let median = |samples: &Samples| samples.latency().median;
    let communication = median(&timed(true, 0)?);
    let trial = median(&timed(false, TRIAL_STEPS)?).max(1e-3);
    let steps = (communication / trial * TRIAL_STEPS as f64).round().max(1.0) as u64;
    let computation = median(&timed(false, steps)?);
    let both = timed(true, steps)?;
    let mut check = work.check(seed);
    check.merge(if by_put { memories.check_host(rounds)? } else { memories.check(rounds)? });
    let (both, check) = setup.collect(Some(both), check)?;
    Ok((super::overlap::columns(&both, communication, computation), check))
}
