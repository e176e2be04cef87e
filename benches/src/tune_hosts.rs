//! What `ggas tune --shared-gpu --between-hosts` does, in each process of a job on several hosts: measures collectives by each way that
//! there is between hosts, and keeps the quickest.

use std::collections::BTreeMap;
use std::time::Duration;

use ggas::Job as OverHosts;
use ggas_coll::{Tuning, device_of};
use ggas_kernels::Processor;
use ggas_shared_gpu::{
    Collective, Config, Hierarchy, HierarchyConfig, HostChoice, HostChoices, Table, Through,
};

use crate::error::Doing;
use crate::job::{Job, Line};
use crate::shared_gpu::{Shared, Side, WITHIN, bench};
use crate::shared_methods::{ACROSS, across};
use crate::tune_shared::{CELL_RUNS, SIZES, TRIPS, quickest, versions};
use crate::{BenchError, Device, Options, cores};

/// So many runs of a cell have so long, without its checks.
const CELL: Duration = Duration::from_millis(300);

/// What a job of processes on several hosts has measured.
#[derive(Debug)]
pub struct HostsTuned {
    /// For [`ggas_coll::Tuning::between_hosts`]: a collective each. Alike on all ranks.
    pub choices: Vec<HostChoices>,
    /// At rank 0: by collective, bytes and method the median of a call in µs, and how many were timed.
    pub rows: Vec<(Collective, u64, String, f64, u64)>,
    /// This process is the first of its host, which is to keep the choices.
    pub keeps: bool,
    /// It is rank 0, which is to say them.
    pub tells: bool,
}

/// Measures with so many runs of each size and way; where they take too long, fewer, but 30; where they take clearly longer than another
/// way's, 20. Collective over a job's processes, which are started on several hosts.
///
/// # Errors
/// [`BenchError::Unsupported`]: this is no such job; [`BenchError::WrongData`]; what fails in the job.
pub fn tune_hosts(options: &Options, runs: u32) -> Result<HostsTuned, BenchError> {
    let job = OverHosts::join().doing("joining the job")?;
    let ranks = job.membership();
    if !(0..ranks.size()).any(|rank| ranks.is_far(rank)) {
        return Err(BenchError::Unsupported(
            "all processes are on one host: start them on several, such as by `ggas run --host h1:4,h2:4 -- ggas tune --shared-gpu \
             --between-hosts`"
                .to_owned(),
        ));
    }
    let processor = match options.device {
        Device::Cpu => Processor::cpu(),
        Device::Gpu => job.processor().doing("opening the GPU")?.0,
    };
    let beside: Vec<u32> = (0..ranks.size()).filter(|rank| !ranks.is_far(*rank)).collect();
    let place = beside.iter().position(|rank| *rank == ranks.rank()).unwrap_or_default();
    cores::pin(place, beside.len(), None)?;
    let sizes = options.sizes_or(&SIZES, 4..=1 << 30, 4)?;
    let mut tuned =
        HostsTuned { choices: Vec::new(), rows: Vec::new(), keeps: place == 0, tells: ranks.rank() == 0 };
    for collective in Collective::TUNED {
        let Measured { lines, hosts, put } =
            measure(&job, &processor, collective, options.seed, runs, &sizes)?;
        let errors = lines.iter().map(|line| line.errors).sum::<u64>();
        // Only rank 0 has the figures.
        let choice = |(from_bytes, across)| HostChoice { from_bytes, across };
        let own = HostChoices {
            device: device_of(&processor),
            collective,
            hosts,
            by_size: quickest(&sizes, &lines, across).into_iter().map(choice).collect(),
            measured_by: format!("{}, {} processes", versions(options.device), ranks.size()),
        };
        let said = serde_json::to_vec(&(errors, put, own)).doing("saying what was chosen")?;
        let all = ranks.exchange(&said, WITHIN).doing("telling what was chosen")?;
        let heard = all.iter().map(|said| serde_json::from_slice(said));
        let mut all: Vec<(u64, Vec<Put>, HostChoices)> =
            heard.collect::<Result<_, _>>().doing("hearing what was chosen")?;
        let bench = || bench(collective).to_owned();
        let puts: Vec<&[Put]> = all.iter().map(|(_, put, _)| &put[..]).collect();
        if let Some((errors, first)) = strayed(methods(collective), &puts) {
            return Err(BenchError::WrongData { bench: bench(), errors, first });
        }
        let (errors, _, own) = all.swap_remove(0);
        if errors > 0 {
            let first = "see the collective's vectors".to_owned();
            return Err(BenchError::WrongData { bench: bench(), errors, first });
        }
        tuned.choices.push(own);
        let row =
            |line: Line| (collective, line.bytes.unwrap_or(0), line.peer, line.value, line.runs.unwrap_or(0));
        tuned.rows.extend(lines.into_iter().map(row));
    }
    Ok(tuned)
}

/// Bytes that a process has put to other hosts by a way: through the memory that it names, and through the other one.
type Put = [u64; 2];

/// Of a collective.
struct Measured {
    /// At rank 0.
    lines: Vec<Line>,
    hosts: usize,
    /// By way, in the order of [`methods`].
    put: Vec<Put>,
}

/// A way that was not taken when it was asked for, by what all ranks have put by each: a figure of it would be one of another. How many
/// bytes went wrong, and where; 1 where none went right.
fn strayed(methods: &[&str], all: &[&[Put]]) -> Option<(u64, String)> {
    methods.iter().enumerate().find_map(|(at, method)| {
        let sum = |which: usize| all.iter().filter_map(|put| put.get(at)).map(|put| put[which]).sum::<u64>();
        match [sum(0), sum(1)] {
            [right, 0] if right > 0 => None,
            [right, wrong] => {
                let what =
                    format!("`{method}` put {right} bytes through its memory, and {wrong} through the other");
                Some((wrong.max(1), what))
            }
        }
    })
}

/// What this process has put by a way.
fn put(shared: &Shared, method: &str) -> Put {
    let (Shared::Several(all), Some(across)) = (shared, across(method)) else { return [0; 2] };
    let other = if across.through == Through::Host { Through::Gpu } else { Through::Host };
    [across.through, other].map(|memory| all.put_bytes(memory))
}

/// The figures of a collective.
fn measure(
    job: &OverHosts,
    processor: &Processor,
    collective: Collective,
    seed: u64,
    runs: u32,
    sizes: &[u64],
) -> Result<Measured, BenchError> {
    let ranks = job.membership();
    let most = sizes.iter().copied().max().unwrap_or(0) as usize;
    // A part of a vector is a float at least.
    let alloc = || processor.alloc(most.max(4 * ranks.size() as usize)).doing("taking memory for vectors");
    let (input, output) = (alloc()?, alloc()?);
    let cells = Job {
        bench: bench(collective).to_owned(),
        rounds: runs.div_ceil(TRIPS),
        trips: TRIPS,
        seed,
        sizes: sizes.to_vec(),
    };
    let within = Some(CELL * runs / CELL_RUNS);
    let (mut lines, mut best, mut hosts, mut puts) = (Vec::new(), BTreeMap::new(), 0, Vec::new());
    for method in methods(collective) {
        let of = |table| Config { table, timeout: WITHIN, ..Config::default() };
        let config = HierarchyConfig {
            inside: of(Tuning::of_host().shared_gpu),
            between: of(Table::default()),
            across: across(method),
            ..HierarchyConfig::default()
        };
        let all = Hierarchy::new(ranks, Some(job.node()), processor, &config)
            .doing("setting up collectives over hosts")?;
        hosts = all.hosts().len();
        let shared = Shared::Several(Box::new(all));
        let mut side =
            Side { ranks, job: &cells, within, collective, shared, input: &input, output: &output, best };
        for bytes in sizes {
            lines.extend(side.measure(method, *bytes)?);
        }
        puts.push(put(&side.shared, method));
        best = side.best;
        ranks.barrier(WITHIN).doing("meeting the other processes")?;
    }
    Ok(Measured { lines, hosts, put: puts })
}

/// What has parts for each rank goes one way through each memory.
fn methods(collective: Collective) -> &'static [&'static str] {
    use Collective::{Allreduce, Broadcast, Reduce};
    if matches!(collective, Allreduce | Reduce | Broadcast) { &ACROSS } else { &ACROSS[..2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_names_and_what_has_parts_has_half_of_them() {
        let all: Vec<_> = methods(Collective::Reduce).iter().map(|method| across(method)).collect();
        assert!(all.iter().all(Option::is_some), "{all:?}");
        assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)), "{all:?}");
        let parts = methods(Collective::Alltoall).iter().filter_map(|method| across(method));
        assert_eq!(parts.filter(|across| !across.whole).count(), 2);
    }

    #[test]
    fn a_way_that_was_not_taken_is_named() {
        let methods = ["host", "gpu"];
        // Only the first of each host puts.
        let (leader, other) = ([[8, 0], [16, 0]], [[0, 0]; 2]);
        assert_eq!(strayed(&methods, &[&leader, &other, &leader]), None);
        let (bytes, what) =
            strayed(&methods, &[&leader, &[[8, 0], [0, 16]]]).expect("the second one went astray");
        assert!(
            bytes == 16 && what.contains("`gpu` put 16 bytes through its memory, and 16 through"),
            "{what}"
        );
        let (bytes, what) = strayed(&methods, &[&[[0, 0], [16, 0]]]).expect("nothing was put");
        assert!(bytes == 1 && what.contains("`host` put 0"), "{what}");
    }
}
