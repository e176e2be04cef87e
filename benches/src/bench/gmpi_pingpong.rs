//! `gmpi-pingpong` (GMPI paper, Fig. 6): messages between two kernels that go on, from one to the other or by the daemons, between
//! kernels that end for each, and between hosts; by our own messages, or by the MPI library that started the processes.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ggas_gmpi::carrier::{Carrier, Operation, Type};
use ggas_gmpi::layout::GMPI_UNSIGNED_LONG;
use ggas_gmpi::{Comm, Span};
use ggas_kernels::{KernelMem, Processor};

use crate::args::{bench_gmpi_pingpong, bench_host_sync};
use crate::error::Doing;
use crate::gmpi::{ByKernels, Ranks, config, finish, is_by_mpi, plain, span};
use crate::kernel::{self, Probe};
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Pattern, Progress, Report, Row, Samples, Team};

const KERNEL: &str = "bench_gmpi_pingpong_rounds";
/// By Send and Recv.
const BLOCKING: &str = "bench_gmpi_pingpong_blocking";
/// A kernel that does nothing.
const EMPTY: &str = "bench_host_sync_round";
const MOST: u64 = 16 << 20;
const SIZES: [u64; 7] = [8, 512, 4096, 65_536, 262_144, 1 << 20, 4 << 20];

/// From kernel to kernel; received into the window of the mailboxes, or into other memory.
const DIRECT: [&str; 3] = ["direct", "direct-send", "direct-slots"];
const METHODS: [&str; 8] =
    ["direct", "direct-send", "direct-slots", "kernels", "kernels-send", "kernel-ends", "hosts", "library"];

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
        &METHODS
    }

    fn on_one_host(&self) -> &'static [&'static str] {
        &DIRECT
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&SIZES, 8..=MOST, 8)?;
        let by_mpi = team.size() > 1 && is_by_mpi();
        let methods: Vec<_> =
            task.methods().into_iter().filter(|method| by_mpi || *method != "library").collect();
        if methods.is_empty() {
            let why =
                "an MPI library's own ping-pong takes its launcher: mpirun -n 2 ggas bench gmpi-pingpong";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let setup = Setup::new(task, Worker::Kernels)?;
        let longest = sizes.iter().copied().max().unwrap_or(8);
        let direct = methods.iter().any(|method| DIRECT.contains(method));
        let pair = Pair::new(&setup, longest, (by_mpi, direct))?;
        let mut report = task.report();
        report.notes.push(format!(
            "carrier: {}, but of direct, direct-send and direct-slots, which have none; direct-slots: what is received lies outside of \
             the window",
            pair.ranks.carrier()
        ));
        report.notes.push(match by_mpi {
            true => "library: its own blocking send and receive of host memory, without kernels".to_owned(),
            false => "MPI libraries: not run; they take a process for each end: mpirun -n 2 ggas bench gmpi-pingpong".to_owned(),
        });
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for &bytes in &sizes {
            for &method in &methods {
                progress.now(format!("{method}, {bytes} bytes"));
                let (samples, check, threads) = pair.measure(method, bytes)?;
                let mut row = Row::new(&samples.halved()).method(method).bytes(bytes).bandwidth_of(bytes);
                row.threads = threads;
                report.push(row, check);
                progress.step();
            }
        }
        setup.share::<()>(Vec::new())?;
        pair.ranks.close()?;
        Ok(report)
    }
}

/// The ends that this process has, both or one.
struct Pair<'a> {
    setup: &'a Setup<'a>,
    ranks: Ranks,
    direct: Option<ByKernels>,
    /// What is sent, and behind it what comes: half of the memory each.
    memory: Vec<Arc<KernelMem>>,
    attached: usize,
    /// Measurements by kernels, alike at both ends.
    measured: Cell<u64>,
}

impl<'a> Pair<'a> {
    fn new(
        setup: &'a Setup<'a>,
        longest: u64,
        (by_mpi, direct): (bool, bool),
    ) -> Result<Pair<'a>, BenchError> {
        let config = config(setup.options);
        let ranks = if by_mpi { Ranks::mpi(setup, &config) } else { Ranks::own(setup, &config) }?;
        let alloc = |node: u32| -> Result<_, BenchError> {
            let memory =
                setup.processor(node).alloc(2 * longest as usize).doing("allocating kernel memory")?;
            Ok(Arc::new(memory))
        };
        let memory = setup.ends().map(alloc).collect::<Result<Vec<_>, _>>()?;
        let attached = ranks.attach(memory.iter())?;
        let direct = direct.then(|| ranks.direct(setup, 1, longest as usize)).transpose()?;
        Ok(Pair { setup, ranks, direct, memory, attached, measured: Cell::new(0) })
    }

    /// Round trips, what was wrong, and threads of the block at each end.
    fn measure(&self, method: &str, bytes: u64) -> Result<(Samples, Check, Option<u32>), BenchError> {
        let iterations = self.setup.options.iterations.unwrap_or(super::iterations_for(1000, bytes));
        let comm = match method {
            _ if DIRECT.contains(&method) => self.direct.as_ref().map(|direct| direct.comm),
            "kernels" | "kernels-send" => Some(Comm::WORLD),
            _ => None,
        };
        // Those that copy, where kernels do.
        let threads = comm.map(|comm| match comm {
            Comm::WORLD => 32,
            _ => (bytes as u32 / 16).next_multiple_of(32).clamp(32, 1024),
        });
        let (samples, check) = match (comm, threads) {
            (Some(comm), Some(threads)) => self.by_kernels(method, (comm, threads), bytes, iterations)?,
            _ => self.by_hosts(method, bytes as usize, iterations)?,
        };
        let is_first = self.setup.local().start == 0;
        let (samples, check) = self.setup.collect(samples.filter(|_| is_first), check)?;
        Ok((samples, check, threads))
    }

    fn by_kernels(
        &self,
        method: &str,
        (comm, threads): (Comm, u32),
        bytes: u64,
        iterations: u64,
    ) -> Result<(Option<Samples>, Check), BenchError> {
        let (options, mut probes, mut words, mut launches) =
            (self.setup.options, Vec::new(), Vec::new(), Vec::new());
        let kernel = if method.ends_with("-send") { BLOCKING } else { KERNEL };
        self.measured.set(self.measured.get() + 1);
        for ((node, gmpi), memory) in self.setup.ends().zip(&self.ranks.gmpis).zip(&self.memory) {
            let to = match &self.direct {
                Some(direct) if comm == direct.comm && method != "direct-slots" => direct.place(node)?,
                _ => memory.address() + self.half(memory),
            };
            let processor = self.setup.processor(node);
            let probe = Probe::with_warm_up(processor, iterations)?;
            let word = processor.alloc(24).doing("allocating kernel memory")?;
            word.write(0, &[0; 24]).doing("writing kernel memory")?;
            let args = bench_gmpi_pingpong {
                timing: probe.args(),
                buf: gmpi.address(),
                comm: comm.0,
                from: memory.address(),
                to,
                requests: word.address(),
                wrong: word.address() + 16,
                count: bytes / 8,
                // What another measurement left there is wrong in this one.
                seed: options.seed.wrapping_add(self.measured.get() << 32),
            };
            launches.push(kernel::launch(processor, kernel, 1, threads, &args));
            probes.push(probe);
            words.push(word);
        }
        kernel::run(&launches, options)?;
        self.ranks.check()?;
        let mut check = Check::default();
        for ((node, probe), word) in self.setup.ends().zip(&probes).zip(&words) {
            probe.finished(kernel, None)?;
            let wrong = word.load_u64(16).doing("reading kernel memory")?;
            check.wrong(wrong, || format!("rank {node}: {wrong} words that came"));
        }
        Ok((probes.first().map(Probe::samples).transpose()?, check))
    }

    fn half(&self, memory: &KernelMem) -> u64 {
        memory.len() as u64 / 2
    }

    /// Hosts send and receive: between kernels that end, from kernels' memory, or by the library's own calls.
    fn by_hosts(
        &self,
        method: &str,
        bytes: usize,
        iterations: u64,
    ) -> Result<(Option<Samples>, Check), BenchError> {
        let pattern = |end: u32| Pattern::new(self.setup.options.seed, end.into());
        let mut ends = Vec::new();
        for (node, memory) in self.setup.ends().zip(&self.memory) {
            let half = self.half(memory) as usize;
            let (data, poison) = (pattern(node).bytes(bytes), pattern(1 - node).poison(bytes));
            memory.write(0, &data).doing("writing kernel memory")?;
            memory.write(half, &poison).doing("writing kernel memory")?;
            let at = |offset| span(self.attached, memory, offset, bytes);
            let processor = self.setup.processor(node).clone();
            let counts = match method == "kernel-ends" {
                true => Some(End::counts(&processor)?),
                false => None,
            };
            let plain = (method == "library").then_some((data, poison));
            let (options, iterations) = (self.setup.options.clone(), iterations);
            ends.push(End {
                rank: node,
                processor,
                options,
                iterations,
                from: at(0),
                to: at(half),
                counts,
                plain,
            });
        }
        self.setup.share::<()>(Vec::new())?;
        // Each message within its time-out, and the first may need some time to find the other end.
        let bound = self.ranks.timeout().saturating_mul(12).max(Duration::from_secs(600));
        let works = ends.into_iter().map(|end| move |carrier: &mut dyn Carrier| end.rounds(carrier));
        let ended = self.ranks.by_carriers(bound, works)?;
        let mut check = Check::default();
        let mut first = None;
        for ((node, memory), (samples, came)) in self.setup.ends().zip(&self.memory).zip(ended) {
            let came = match came {
                Some(came) => came,
                None => {
                    let mut came = vec![0; bytes];
                    memory.read(self.half(memory) as usize, &mut came).doing("reading kernel memory")?;
                    came
                }
            };
            check.bytes("what came", &pattern(1 - node).bytes(bytes), &came);
            first = first.or(samples);
        }
        Ok((first, check))
    }
}

/// One end, by the host: in the thread that calls the carrier.
struct End {
    rank: u32,
    processor: Processor,
    options: Options,
    iterations: u64,
    from: Span,
    to: Span,
    /// What a kernel counts that ends for each message.
    counts: Option<KernelMem>,
    /// Memory of the host, of the library's own calls.
    plain: Option<(Vec<u8>, Vec<u8>)>,
}

impl End {
    fn counts(processor: &Processor) -> Result<KernelMem, BenchError> {
        let memory = processor.alloc(16).doing("allocating kernel memory")?;
        memory.write(0, &[0; 16]).doing("writing kernel memory")?;
        Ok(memory)
    }

    /// Rank 0 begins, and measures; what came by the library's own calls.
    fn rounds(mut self, carrier: &mut dyn Carrier) -> Result<(Option<Samples>, Option<Vec<u8>>), BenchError> {
        let iterations = self.iterations;
        let samples = match self.rank {
            0 => {
                let round = |_| self.send(carrier).and_then(|()| self.receive(carrier));
                Some(time_calls(iterations, round)?)
            }
            _ => {
                for _ in 0..calls(iterations) {
                    self.receive(carrier).and_then(|()| self.send(carrier))?;
                }
                None
            }
        };
        Ok((samples, self.plain.map(|(_, came)| came)))
    }

    /// The kernel that wrote the data has ended.
    fn send(&mut self, carrier: &mut dyn Carrier) -> Result<(), BenchError> {
        let to = 1 - self.rank;
        if let Some((from, _)) = &self.plain {
            return plain(carrier.send_plain(from, to));
        }
        self.launch()?;
        let (at, of) = (self.from.clone(), Type(GMPI_UNSIGNED_LONG));
        finish(carrier, &[Operation::Send { at, of, to, tag: 0, comm: 0 }], self.options.timeout)
    }

    /// The kernel that reads them begins with the next one that writes.
    fn receive(&mut self, carrier: &mut dyn Carrier) -> Result<(), BenchError> {
        let from = 1 - self.rank;
        if let Some((_, to)) = &mut self.plain {
            return plain(carrier.receive_plain(to, from));
        }
        let (at, of, from) = (self.to.clone(), Type(GMPI_UNSIGNED_LONG), Some(from));
        finish(carrier, &[Operation::Recv { at, of, from, tag: Some(0), comm: 0 }], self.options.timeout)
    }

    fn launch(&self) -> Result<(), BenchError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        let (rounds, finished) = (counts.address(), counts.address() + 8);
        let args = bench_host_sync { rounds, finished, word: 0, ns: 0 };
        kernel::run(&[kernel::launch(&self.processor, EMPTY, 1, 32, &args)], &self.options)
    }
}
