//! The processes that run a benchmark together.

use std::time::Duration;

use ggas_boot::launch::{Exit, Launch, Signals};
use ggas_boot::{EXCHANGE_MAX, Job};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Doing;
use crate::{Bench, BenchError, Options, Report, cores};

/// Bytes of one exchange, less the byte that says whether more follows.
const PART: usize = EXCHANGE_MAX - 1;

/// How much longer than a wait within a benchmark the processes wait for each other: one may run a whole row while
/// the others have no part in it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who runs a benchmark: this process with all its nodes, or the processes of a job with a node each.
pub struct Team {
    job: Option<Job>,
    cores: Vec<usize>,
}

impl Team {
    /// This process alone.
    pub fn alone() -> Self {
        Self { job: None, cores: Vec::new() }
    }

    /// Whether a launcher started this process as one of several.
    pub fn is_launched() -> bool {
        Job::is_launched()
    }

    /// The processes that were started together with this one. With `pin` each process keeps to cores of its own, as
    /// many as there are for each; `None`: where there is at least one for each.
    ///
    /// # Errors
    /// A process did not come, several are on one node, or cores do not suffice.
    pub fn join(pin: Option<bool>) -> Result<Self, BenchError> {
        let job = Job::join().doing("meeting the other processes")?;
        if job.per_node() > 1 {
            let why = "benchmarks want a node for each process: use --per-node 1";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let cores = cores::pin(job.rank() as usize, job.size() as usize, pin)?;
        Ok(Self { job: Some(job), cores })
    }

    /// What joins the nodes, in words.
    pub fn fabric(&self) -> &'static str {
        if self.job.is_some() { "process" } else { "in process" }
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.job.as_ref().map_or(0, Job::rank)
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.job.as_ref().map_or(1, Job::size)
    }

    /// Whether this process reports for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The job, if there is one.
    pub(crate) fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Cores that this process keeps to; empty if it may use all.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// What every process has, in the order of their ranks. All must call it, and none goes on before all did.
    pub(crate) fn gather<T>(&self, own: &T) -> Result<Vec<T>, BenchError>
    where
        T: Serialize + DeserializeOwned + Clone,
    {
        const DOING: &str = "exchanging with the other processes";
        let Some(job) = &self.job else { return Ok(vec![own.clone()]) };
        let bytes = postcard::to_allocvec(own).doing(DOING)?;
        let all =
            gather_bytes(&bytes, job.size() as usize, |part| job.exchange(part, PATIENCE)).doing(DOING)?;
        all.iter().map(|bytes| postcard::from_bytes(bytes).doing(DOING)).collect()
    }
}

/// Runs this program once more for each process of a team, with the arguments that it was given, and gives the exit
/// status for them all. Each must [join](Team::join), with the same `pin`.
///
/// # Errors
/// Processes cannot be started, or have fewer cores than they shall be kept to.
pub fn launch(processes: u32, pin: Option<bool>) -> Result<i32, BenchError> {
    cores::share_of(0, processes as usize, pin)?;
    let doing = || format!("starting {processes} processes");
    let program = std::env::current_exe().doing_with(doing)?;
    let signals = Signals::catch().doing_with(doing)?;
    let launch = Launch::new(program).args(std::env::args_os().skip(1)).processes(processes);
    let outcome = launch.signals(signals).spawn().doing_with(doing)?.wait();
    if outcome.exits().iter().any(|exit| matches!(exit, Exit::Signal(_))) {
        eprint!("{}", outcome.summary());
    }
    Ok(outcome.code())
}

/// Exchanges messages of any length in parts.
fn gather_bytes<E>(
    own: &[u8],
    size: usize,
    mut exchange: impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>, E>,
) -> Result<Vec<Vec<u8>>, E> {
    let mut all = vec![Vec::new(); size];
    let mut rest = own;
    loop {
        let (part, later) = rest.split_at(rest.len().min(PART));
        rest = later;
        let came = exchange(&[&[u8::from(!rest.is_empty())], part].concat())?;
        let mut more = false;
        for (all, part) in all.iter_mut().zip(came) {
            if let [follows, bytes @ ..] = &part[..] {
                more |= *follows != 0;
                all.extend_from_slice(bytes);
            }
        }
        if !more {
            return Ok(all);
        }
    }
}

/// One benchmark, its options and who runs it.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub bench: &'a dyn Bench,
    pub team: &'a Team,
    pub options: &'a Options,
}

impl<'a> Task<'a> {
    /// Checks the options.
    pub fn new(bench: &'a dyn Bench, team: &'a Team, options: &'a Options) -> Result<Self, BenchError> {
        options.validate(bench)?;
        if team.job.is_some() && options.nodes != team.size() {
            let advice = format!("there are {} processes, with a node each", team.size());
            return Err(BenchError::option("nodes", options.nodes, advice));
        }
        if team.job.is_some() && options.engines(bench) {
            let advice = "engines join GPUs of one process; leave out --fabric process";
            return Err(BenchError::option("via", options.via, advice));
        }
        Ok(Self { bench, team, options })
    }

    /// An empty report.
    pub fn report(&self) -> Report {
        Report::new(self.bench.name(), self.team, self.options)
    }

    /// Methods to run.
    pub fn methods(&self) -> Vec<&'static str> {
        let methods =
            if self.options.engines(self.bench) { self.bench.by_engines() } else { self.bench.methods() };
        methods.iter().copied().filter(|method| self.options.wants(method)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_come_whole() {
        for len in [0, 1, PART, PART + 1, 3 * PART] {
            let own: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut calls = 0;
            // The other process has one byte to say, and then nothing.
            let all = gather_bytes::<()>(&own, 2, |part| {
                calls += 1;
                assert!(part.len() <= EXCHANGE_MAX);
                Ok(vec![part.to_vec(), if calls == 1 { vec![0, 7] } else { vec![0] }])
            })
            .unwrap();
            assert_eq!(all, [own, vec![7]]);
            assert_eq!(calls, len.div_ceil(PART).max(1));
        }
    }
}
