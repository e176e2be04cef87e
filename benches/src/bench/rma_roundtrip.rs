//! `rma-roundtrip`: what asks another node and waits for its answer, driven by the host.

use ggas::{Lock, LockOutcome, Spec};

use super::{iterations_for, methods_by_sizes};
use crate::ends::{HostEnd, host_ends};
use crate::payload::{Layout, MAX_PUT, RoundData};
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

const SIZES: &[u64] = &[8, 512, 4096, 65_536, 1_048_576];
const ITERATIONS: u64 = 20_000;

pub(crate) struct RmaRoundtrip;

impl Bench for RmaRoundtrip {
    fn name(&self) -> &'static str {
        "rma-roundtrip"
    }

    fn about(&self) -> &'static str {
        "a get, or an addition to a lock, of the other node until its answer is consumed, by the host"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["get", "lock"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        self.methods()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(SIZES, 1..=MAX_PUT, 1)?;
        let mut locked = false;
        methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            if method == "get" {
                let (samples, check) = get(task, bytes)?;
                report.push(Row::new(&samples).method(method).bytes(bytes).bandwidth_of(bytes), check);
            } else if !std::mem::replace(&mut locked, true) {
                // A lock has one size.
                let (samples, check) = lock(task)?;
                report.push(Row::new(&samples).method(method), check);
            }
            Ok(())
        })
    }
}

/// Node 0, if it is here.
fn asker(ends: &[HostEnd]) -> Option<&HostEnd> {
    ends.iter().find(|end| end.node == 0)
}

/// Node 0 gets what node 1 has, which differs from round to round.
fn get(task: Task, bytes: u64) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let ends = host_ends(&setup, layout, &data)?;
    let iterations = options.iterations.unwrap_or(iterations_for(ITERATIONS, bytes));
    let (mut samples, mut check) = (None, Check::default());
    if let Some(end) = asker(&ends) {
        samples = Some(time_calls(iterations, |round| {
            end.get(layout, round, Spec::COMPLETER)?;
            end.consume(options)
        })?);
        check = data.check(end.node, &end.payload, layout, calls(iterations))?;
    }
    setup.collect(samples, check)
}

/// Node 0 adds to a lock of node 1; nobody else does, so that every answer is known.
fn lock(task: Task) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(8);
    let ends = host_ends(&setup, layout, &RoundData::new(options.seed, 0, layout.bytes))?;
    let iterations = options.iterations.unwrap_or(ITERATIONS);
    let (mut samples, mut check) = (None, Check::default());
    if let Some(end) = asker(&ends) {
        let (mut wrong, mut first) = (0, String::new());
        samples = Some(time_calls(iterations, |round| {
            end.lock(Lock { number: 0, compare: i32::MAX, add: 1 })?;
            let answer = LockOutcome::of(&end.next(options)?);
            let wanted = LockOutcome { taken: true, value: round as i32 + 1 };
            if answer != Some(wanted) {
                if wrong == 0 {
                    first = format!("round {round}: {answer:?}, not {wanted:?}");
                }
                wrong += 1;
            }
            Ok(())
        })?);
        if wrong > 0 {
            check.wrong(wrong, || first.clone());
        }
    }
    setup.collect(samples, check)
}
