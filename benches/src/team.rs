//! The processes that run a benchmark together.

use std::time::Duration;

use ggas_device::sim::Ends;
use ggas_members::launch::{Exit, Launch, Signals};
use ggas_members::{EXCHANGE_MAX, Job, JobError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cards::Machine;
use crate::error::Doing;
use crate::{Bench, BenchError, Options, Report, Via, cores};

/// Bytes of one exchange, less the byte that says whether more follows. A card's notification queue holds two of them.
const PART: usize = (16 << 10) - 1;
const _: () = assert!(PART < EXCHANGE_MAX);

/// Time to write a result, after the last wait has ended.
const GRACE: Duration = Duration::from_secs(10);

/// What fails when processes do not hear each other.
const DOING: &str = "exchanging with the other processes";

/// Who runs a benchmark: this process with all its nodes, the processes of a job with a node each, or this process
/// and another machine's, joined by their cards.
pub struct Team {
    others: Others,
    cores: Vec<usize>,
}

enum Others {
    None,
    Job(Box<Job>, Ends),
    Machine(Box<Machine>),
}

impl Team {
    /// This process alone.
    pub fn alone() -> Self {
        Self { others: Others::None, cores: Vec::new() }
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
        let ends = Ends::join(job.member().clone()).doing("joining the other processes")?;
        Ok(Self { others: Others::Job(Box::new(job), ends), cores })
    }

    /// This process and one on the machine whose card is node `peer`, which does the same with this card's node id.
    /// They find each other by the first port that is opened on either card.
    ///
    /// # Errors
    /// No card, or the other one does not answer within a minute.
    pub fn across_cards(peer: u16) -> Result<Self, BenchError> {
        let machine = Machine::meet(peer)?;
        Ok(Self { others: Others::Machine(Box::new(machine)), cores: Vec::new() })
    }

    /// What joins the nodes, in words.
    pub fn fabric(&self) -> &'static str {
        match &self.others {
            Others::None => "in process",
            Others::Job(..) if self.spans_hosts() => "hosts",
            Others::Job(..) => "process",
            Others::Machine(_) => "machine",
        }
    }

    /// Whether the nodes are on several hosts.
    pub(crate) fn spans_hosts(&self) -> bool {
        matches!(&self.others, Others::Job(_, ends) if ends.over_hosts())
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        match &self.others {
            Others::None => 0,
            Others::Job(job, _) => job.rank(),
            Others::Machine(machine) => machine.rank(),
        }
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        match &self.others {
            Others::None => 1,
            Others::Job(job, _) => job.size(),
            Others::Machine(_) => 2,
        }
    }

    /// Whether this process reports for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// This process's ends of the network of its job, if there is one.
    pub(crate) fn ends(&self) -> Option<&Ends> {
        match &self.others {
            Others::Job(_, ends) => Some(ends),
            _ => None,
        }
    }

    /// The job, if there is one.
    pub(crate) fn job(&self) -> Option<&Job> {
        match &self.others {
            Others::Job(job, _) => Some(job),
            _ => None,
        }
    }

    /// The only node of this process; `None` if it has them all.
    pub(crate) fn own_node(&self) -> Option<u32> {
        match &self.others {
            Others::None => None,
            Others::Job(job, _) => Some(job.node().into()),
            Others::Machine(machine) => Some(machine.rank()),
        }
    }

    /// This process's turn among the GPUs of its host; `None` if it may have all of them.
    pub(crate) fn turn(&self) -> Option<u32> {
        match &self.others {
            Others::Job(job, _) => Some(job.rank_on_host()),
            _ => self.own_node(),
        }
    }

    /// Cores that this process keeps to; empty if it may use all.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// What every process has, in the order of their ranks. All must call it, and none goes on before all did.
    ///
    /// # Errors
    /// [`BenchError::Absent`]: some did not call it within [`Options::patience`]; or one is gone.
    pub(crate) fn gather<T>(&self, own: &T, options: &Options) -> Result<Vec<T>, BenchError>
    where
        T: Serialize + DeserializeOwned + Clone,
    {
        let bytes = postcard::to_allocvec(own).doing(DOING)?;
        let size = self.size() as usize;
        let patience = options.patience();
        let all = match &self.others {
            Others::None => return Ok(vec![own.clone()]),
            Others::Job(job, _) => {
                gather_bytes(&bytes, size, |part| job.exchange(part, patience)).map_err(absent)?
            }
            Others::Machine(machine) => {
                gather_bytes(&bytes, size, |part| machine.exchange(part, patience)).doing(DOING)?
            }
        };
        all.iter().map(|bytes| postcard::from_bytes(bytes).doing(DOING)).collect()
    }
}

/// What failed between the processes, as the user of a command line needs it.
fn absent(error: JobError) -> BenchError {
    match error {
        JobError::Timeout { waiting_for, waited } => BenchError::Absent { ranks: waiting_for, waited },
        error => BenchError::Library { doing: DOING.to_owned(), source: Box::new(error) },
    }
}

/// Runs this program once more for each process of a team, with the arguments that it was given, and gives the exit
/// status for them all. Each must [join](Team::join), with the same `pin`. When one has died, kernels of the others may wait for
/// it until their `timeout`: so long, and some seconds more, the others have to say what they know and to write their results.
///
/// # Errors
/// Processes cannot be started, or have fewer cores than they shall be kept to.
pub fn launch(processes: u32, pin: Option<bool>, timeout: Duration) -> Result<i32, BenchError> {
    cores::share_of(0, processes as usize, pin)?;
    let doing = || format!("starting {processes} processes");
    let program = std::env::current_exe().doing_with(doing)?;
    let signals = Signals::catch().doing_with(doing)?;
    let launch = Launch::new(program).args(std::env::args_os().skip(1)).processes(processes);
    let launch = launch.grace(timeout.saturating_mul(2).saturating_add(GRACE));
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
        if team.own_node().is_some() && options.nodes != team.size() {
            let advice = format!("there are {} processes, with a node each", team.size());
            return Err(BenchError::option("nodes", options.nodes, advice));
        }
        if let Some(method) = options
            .method
            .as_deref()
            .filter(|method| team.spans_hosts() && bench.on_one_host().contains(method))
        {
            let advice =
                "its stores go to memory that both ends map, and hosts share none; run it on one host";
            return Err(BenchError::option("method", method, advice));
        }
        let advice = match &team.others {
            Others::Job(..) if options.via == Via::Hw => {
                "a card is for the processes of its machine alone; use --machine for another one"
            }
            Others::Machine(_) if options.via != Via::Hw => "other machines are reached by cards; use hw",
            _ => return Ok(Self { bench, team, options }),
        };
        Err(BenchError::option("via", options.via, advice))
    }

    /// An empty report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.bench.name(), self.team, self.options);
        if self.bench.is_of_two_nodes() && self.options.nodes > 2 {
            let note =
                format!("nodes 0 and 1 of {} do all of it, the others only stand by", self.options.nodes);
            report.notes.push(note);
        }
        report
    }

    /// Methods to run.
    pub fn methods(&self) -> Vec<&'static str> {
        let methods = match self.options.via {
            Via::Hw => self.bench.by_cards(),
            _ if self.options.engines(self.bench) => self.bench.by_engines(),
            _ => self.bench.methods(),
        };
        let here = |method: &&str| !(self.team.spans_hosts() && self.bench.on_one_host().contains(method));
        methods.iter().copied().filter(here).filter(|method| self.options.wants(method)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn processes_wait_for_each_other_as_long_as_the_time_out_says() {
        let patience = |secs| Options { timeout: Duration::from_secs(secs), ..Options::default() }.patience();
        assert_eq!([1, 2, 10, 100].map(patience), [20, 24, 120, 1200].map(Duration::from_secs));
        let error = absent(JobError::Timeout { waiting_for: vec![1], waited: patience(2) }).to_string();
        assert!(error.contains("ranks [1] did not come in 24s") && error.contains("--timeout"), "{error}");
    }

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
