//! `gmpi-pingpong` (GMPI paper, Fig. 6): messages between two kernels that go on, from one to the other or by our own messages of the
//! daemons, between kernels that end for each, and between hosts.

use std::sync::Arc;
use std::time::Instant;

use ggas::Node;
use ggas_gmpi::carrier::own::Own;
use ggas_gmpi::carrier::{Carrier, Operation, Type};
use ggas_gmpi::layout::GMPI_UNSIGNED_LONG;
use ggas_gmpi::{Comm, Config, Direct, Gmpi, GmpiError, Placement, Polling, Span};
use ggas_kernels::KernelMem;

use crate::args::{bench_gmpi_pingpong, bench_host_sync};
use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::space::window;
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Pattern, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_gmpi_pingpong_rounds";
/// A kernel that does nothing.
const EMPTY: &str = "bench_host_sync_round";
const MOST: u64 = 1 << 20;
const SIZES: [u64; 6] = [8, 512, 4096, 65_536, 262_144, MOST];

pub(crate) struct GmpiPingpong;

impl Bench for GmpiPingpong {
    fn name(&self) -> &'static str {
        "gmpi-pingpong"
    }

    fn about(&self) -> &'static str {
        "half a round trip of messages by MPI calls of kernels, beside kernels that end for each and hosts (GMPI paper, Fig. 6)"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["direct", "kernels", "kernel-ends", "hosts"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 {
            let why = "both ends are measured in one process: leave --fabric out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = options.sizes_or(&SIZES, 8..=MOST, 8)?;
        let methods = task.methods();
        let mut report = task.report();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                progress.now(format!("{method}, {bytes} bytes"));
                let setup = Setup::new(task, Worker::Kernels)?;
                let ends = Ends::new(&setup, bytes)?;
                let (samples, check) = match method {
                    "direct" | "kernels" => ends.by_kernels(method == "direct")?,
                    _ => ends.by_hosts(method == "kernel-ends")?,
                };
                let mut row = Row::new(&samples.halved()).method(method).bytes(bytes).bandwidth_of(bytes);
                if matches!(method, "direct" | "kernels") {
                    row.threads = Some(ends.threads(method == "direct"));
                }
                report.push(row, check);
                progress.step();
            }
        }
        report.notes.push(
            "carrier: our own messages, but of direct, which has none; MPI libraries: not run, they take a process for each end"
                .to_owned(),
        );
        Ok(report)
    }
}

/// Memory of both ends: what is sent, and behind it what comes.
struct Ends<'a> {
    setup: &'a Setup<'a>,
    bytes: usize,
    iterations: u64,
    memory: [Arc<KernelMem>; 2],
}

impl<'a> Ends<'a> {
    fn new(setup: &'a Setup<'a>, bytes: u64) -> Result<Ends<'a>, BenchError> {
        let alloc = |node: u32| -> Result<_, BenchError> {
            let memory = setup.processor(node).alloc(2 * bytes as usize).doing("allocating kernel memory")?;
            Ok(Arc::new(memory))
        };
        let iterations = setup.options.iterations.unwrap_or(super::iterations_for(1000, bytes));
        Ok(Ends { setup, bytes: bytes as usize, iterations, memory: [alloc(0)?, alloc(1)?] })
    }

    fn carriers(&self) -> Result<[Own; 2], BenchError> {
        let nodes: Vec<Node> = [self.setup.node(0)?.clone(), self.setup.node(1)?.clone()].into();
        let own = Own::local(&nodes).doing("opening carriers")?;
        let own: Result<[Own; 2], _> = own.try_into();
        own.map_err(|_| BenchError::Unsupported("two nodes make two ends".to_owned()))
    }

    /// A communicator whose messages go from kernel to kernel, as both name it.
    fn direct(&self, gmpis: &[Gmpi]) -> Result<Comm, BenchError> {
        let mailboxes = Direct::default();
        let bytes =
            mailboxes.end(1, gmpis.len()).ok_or_else(|| BenchError::Unsupported("no room".to_owned()))?;
        let (window, mailboxes) = (&window(self.setup, bytes)?, &mailboxes);
        std::thread::scope(|scope| {
            let call = |gmpi: &Gmpi| gmpi.direct(Comm::WORLD, window, mailboxes);
            let all: Vec<_> = gmpis.iter().map(|gmpi| scope.spawn(move || call(gmpi))).collect();
            let comms: Result<Vec<Comm>, GmpiError> = all
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            Ok(comms.doing("making a direct communicator")?[0])
        })
    }

    /// Of the block at each end: those that copy, where kernels do.
    fn threads(&self, direct: bool) -> u32 {
        if direct { (self.bytes as u32 / 16).next_multiple_of(32).clamp(32, 1024) } else { 32 }
    }

    fn by_kernels(&self, direct: bool) -> Result<(Samples, Check), BenchError> {
        let options = self.setup.options;
        let config = Config {
            placement: Placement::Tagged,
            polling: Polling::Yield,
            timeout: options.timeout,
            ..Config::default()
        };
        let (mut gmpis, mut probes, mut words) = (Vec::new(), Vec::new(), Vec::new());
        for (node, own) in (0..).zip(self.carriers()?) {
            let processor = self.setup.processor(node);
            let gmpi = Gmpi::with(processor, &config, move || Ok(Box::new(own))).doing("opening GMPI")?;
            gmpi.attach(&self.memory[node as usize]).doing("attaching memory")?;
            gmpis.push(gmpi);
            probes.push(Probe::with_warm_up(processor, self.iterations)?);
            let word = processor.alloc(24).doing("allocating kernel memory")?;
            word.write(0, &[0; 24]).doing("writing kernel memory")?;
            words.push(word);
        }
        let comm = if direct { self.direct(&gmpis)? } else { Comm::WORLD };
        let launch = |end: usize| {
            let at = self.memory[end].address();
            let args = bench_gmpi_pingpong {
                timing: probes[end].args(),
                buf: gmpis[end].address(),
                comm: comm.0,
                from: at,
                to: at + self.bytes as u64,
                requests: words[end].address(),
                wrong: words[end].address() + 16,
                count: self.bytes as u64 / 8,
                seed: options.seed,
            };
            kernel::launch(self.setup.processor(end as u32), KERNEL, 1, self.threads(direct), &args)
        };
        kernel::run(&[launch(0), launch(1)], options)?;
        let mut check = Check::default();
        for end in 0..2 {
            gmpis[end].check().doing("making calls")?;
            probes[end].finished(KERNEL, None)?;
            let wrong = words[end].load_u64(16).doing("reading kernel memory")?;
            check.wrong(wrong, || format!("rank {end}: {wrong} words that came"));
        }
        Ok((probes[0].samples()?, check))
    }

    /// Hosts send and receive; with `ends` between kernels that end: the one that wrote the data, and the one that reads them.
    fn by_hosts(&self, ends: bool) -> Result<(Samples, Check), BenchError> {
        let pattern = |end: u64| Pattern::new(self.setup.options.seed, end);
        for (end, memory) in (0..).zip(&self.memory) {
            let (data, poison) = (pattern(end).bytes(self.bytes), pattern(1 - end).poison(self.bytes));
            memory.write(0, &data).doing("writing kernel memory")?;
            memory.write(self.bytes, &poison).doing("writing kernel memory")?;
        }
        let [mut ping, mut pong] = self.carriers()?;
        let samples = std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Result<(), BenchError> {
                let mut end = End::new(self, &mut pong, 1, ends)?;
                (0..calls(self.iterations)).try_for_each(|_| end.receive().and_then(|()| end.send()))
            });
            let ours = End::new(self, &mut ping, 0, ends)
                .and_then(|mut end| time_calls(self.iterations, |_| end.send().and_then(|()| end.receive())));
            let theirs = other.join().map_err(|_| BenchError::Unsupported("a thread panicked".to_owned()))?;
            theirs.and(ours)
        })?;
        let mut check = Check::default();
        for (end, memory) in (0..).zip(&self.memory) {
            let mut came = vec![0; self.bytes];
            memory.read(self.bytes, &mut came).doing("reading kernel memory")?;
            check.bytes("what came", &pattern(1 - end).bytes(self.bytes), &came);
        }
        Ok((samples, check))
    }
}

/// One end, by the host.
struct End<'a> {
    ends: &'a Ends<'a>,
    carrier: &'a mut Own,
    rank: u32,
    /// What a kernel counts that ends for each message.
    counts: Option<KernelMem>,
}

impl<'a> End<'a> {
    fn new(
        ends: &'a Ends<'a>,
        carrier: &'a mut Own,
        rank: u32,
        launches: bool,
    ) -> Result<End<'a>, BenchError> {
        carrier.attach(0, ends.memory[rank as usize].clone()).doing("attaching memory")?;
        let alloc = || -> Result<KernelMem, BenchError> {
            let memory = ends.setup.processor(rank).alloc(16).doing("allocating kernel memory")?;
            memory.write(0, &[0; 16]).doing("writing kernel memory")?;
            Ok(memory)
        };
        Ok(End { ends, carrier, rank, counts: if launches { Some(alloc()?) } else { None } })
    }

    fn span(&self, offset: usize) -> Span {
        let memory = self.ends.memory[self.rank as usize].clone();
        Span { index: 0, memory, offset, len: self.ends.bytes }
    }

    fn send(&mut self) -> Result<(), BenchError> {
        self.launch()?;
        let (at, of) = (self.span(0), Type(GMPI_UNSIGNED_LONG));
        self.finish(&Operation::Send { at, of, to: 1 - self.rank, tag: 0, comm: 0 })
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        let (at, of) = (self.span(self.ends.bytes), Type(GMPI_UNSIGNED_LONG));
        self.finish(&Operation::Recv { at, of, from: Some(1 - self.rank), tag: Some(0), comm: 0 })
    }

    fn launch(&self) -> Result<(), BenchError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        let (rounds, finished) = (counts.address(), counts.address() + 8);
        let args = bench_host_sync { rounds, finished, word: 0, ns: 0 };
        let processor = self.ends.setup.processor(self.rank);
        kernel::run(&[kernel::launch(processor, EMPTY, 1, 32, &args)], self.ends.setup.options)
    }

    fn finish(&mut self, operation: &Operation) -> Result<(), BenchError> {
        let failed = |class: ggas_gmpi::Class| BenchError::Refused(class.to_string());
        let token = self.carrier.start(operation).map_err(failed)?;
        let (began, timeout) = (Instant::now(), self.ends.setup.options.timeout);
        loop {
            if let Some(ended) = self.carrier.test(token) {
                return ended.map(drop).map_err(failed);
            }
            if !self.carrier.progress() {
                if began.elapsed() > timeout {
                    let what = format!("rank {}: no end of a message within {timeout:?}", self.rank);
                    return Err(BenchError::Refused(what));
                }
                std::thread::yield_now();
            }
        }
    }
}
