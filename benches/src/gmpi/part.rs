//! What a process of these jobs does. Rank 0 prints the figures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggas_gmpi::carrier::{Carrier, Operation, Type};
use ggas_gmpi::layout::GMPI_UNSIGNED_LONG;
use ggas_gmpi::{Comm, Config, Gmpi, GmpiError, Joined, Placement, Polling, Span};
use ggas_kernels::{KernelMem, Processor};

use crate::args::{bench_gmpi_pingpong, bench_host_sync};
use crate::error::Doing;
use crate::gaspi::{Job, Line};
use crate::kernel::{self, Probe};
use crate::stats::{calls, time_calls};
use crate::{BenchError, Options, Pattern, Samples};

const KERNEL: &str = "bench_gmpi_pingpong_rounds";
/// A kernel that does nothing.
const EMPTY: &str = "bench_host_sync_round";

/// Bound of a call, and of all of a size.
const WITHIN: Duration = Duration::from_secs(60);

/// Is one of two processes that `run` has had started.
///
/// # Errors
/// What failed.
pub fn part(job: &Job) -> Result<(), BenchError> {
    let config = Config {
        placement: Placement::Tagged,
        polling: Polling::Yield,
        timeout: WITHIN,
        ..Config::default()
    };
    ggas_kernels::add(&crate::image::KERNELS).doing("adding the kernels of the benchmarks")?;
    let Joined { gmpi, processor, .. } = Gmpi::join(&config).doing("beginning GMPI")?;
    if gmpi.size() != 2 {
        return Err(BenchError::Unsupported(format!("{} processes: it takes two", gmpi.size())));
    }
    let most = job.sizes.iter().copied().max().unwrap_or(8) as usize;
    let memory = Arc::new(processor.alloc(2 * most).doing("allocating kernel memory")?);
    gmpi.attach(&memory).doing("attaching memory")?;
    let options = Options { timeout: WITHIN, ..Options::default() };
    let side = Side { gmpi: &gmpi, processor: &processor, memory, options, job };
    for &bytes in &job.sizes {
        let (samples, wrong) = match job.bench.as_str() {
            "kernels" => side.by_kernels(bytes as usize)?,
            "kernel-ends" => side.by_host(bytes as usize, true)?,
            "hosts" => side.plain(bytes as usize)?,
            other => return Err(BenchError::Unsupported(format!("{other} is none of GMPI's measurements"))),
        };
        side.print(bytes, &samples.halved(), wrong)?;
    }
    gmpi.close().doing("closing GMPI")
}

struct Side<'a> {
    gmpi: &'a Gmpi,
    processor: &'a Processor,
    memory: Arc<KernelMem>,
    options: Options,
    job: &'a Job,
}

type Measured = Result<(Samples, u64), BenchError>;

impl Side<'_> {
    fn iterations(&self, bytes: usize) -> u64 {
        crate::bench::iterations_for(self.job.trips.into(), bytes as u64)
    }

    /// One block at each end, that goes on.
    fn by_kernels(&self, bytes: usize) -> Measured {
        let probe = Probe::with_warm_up(self.processor, self.iterations(bytes))?;
        let words = self.processor.alloc(24).doing("allocating kernel memory")?;
        words.write(0, &[0; 24]).doing("writing kernel memory")?;
        let args = bench_gmpi_pingpong {
            timing: probe.args(),
            buf: self.gmpi.address(),
            comm: Comm::WORLD.0,
            from: self.memory.address(),
            to: self.memory.address() + bytes as u64,
            requests: words.address(),
            wrong: words.address() + 16,
            count: bytes as u64 / 8,
            seed: self.job.seed,
        };
        kernel::run(&[kernel::launch(self.processor, KERNEL, 1, 32, &args)], &self.options)?;
        self.gmpi.check().doing("making calls")?;
        probe.finished(KERNEL, None)?;
        let wrong = words.load_u64(16).doing("reading kernel memory")?;
        Ok((probe.samples()?, wrong))
    }

    /// The library's own messages of kernels' memory; with `ends` behind a kernel that ends.
    fn by_host(&self, bytes: usize, ends: bool) -> Measured {
        let rank = self.gmpi.rank();
        let pattern = |rank: u32| Pattern::new(self.job.seed, rank.into());
        self.memory.write(0, &pattern(rank).bytes(bytes)).doing("writing kernel memory")?;
        self.memory.write(bytes, &pattern(1 - rank).poison(bytes)).doing("writing kernel memory")?;
        let counts = self.processor.alloc(16).doing("allocating kernel memory")?;
        counts.write(0, &[0; 16]).doing("writing kernel memory")?;
        let end = End {
            processor: self.processor.clone(),
            counts: ends.then_some(counts),
            memory: self.memory.clone(),
            bytes,
            rank,
            options: self.options.clone(),
        };
        let samples = self.measured(
            bytes,
            move |carrier, sends| if sends { end.send(carrier) } else { end.receive(carrier) },
        )?;
        let mut came = vec![0; bytes];
        self.memory.read(bytes, &mut came).doing("reading kernel memory")?;
        let wrong =
            came.iter().zip(&pattern(1 - rank).bytes(bytes)).filter(|(came, sent)| came != sent).count();
        Ok((samples, wrong as u64))
    }

    /// The library's blocking send and receive of memory of the host.
    fn plain(&self, bytes: usize) -> Measured {
        let rank = self.gmpi.rank();
        let pattern = |rank: u32| Pattern::new(self.job.seed, rank.into()).bytes(bytes);
        let (sent, wanted) = (pattern(rank), pattern(1 - rank));
        let mut came = vec![0; bytes];
        let samples = self.measured(bytes, move |carrier, sends| {
            let done = match sends {
                true => carrier.send_plain(&sent, 1 - rank),
                false => carrier.receive_plain(&mut came, 1 - rank),
            };
            done.map_err(|class| BenchError::Refused(class.to_string()))?;
            if !sends && came != wanted {
                return Err(BenchError::Refused("wrong bytes came".to_owned()));
            }
            Ok(())
        })?;
        Ok((samples, 0))
    }

    /// On the daemon's thread, the only one that may call the library. `one(carrier, sends)`: a message.
    fn measured(
        &self,
        bytes: usize,
        mut one: impl FnMut(&mut dyn Carrier, bool) -> Result<(), BenchError> + Send + 'static,
    ) -> Result<Samples, BenchError> {
        let (rank, iterations) = (self.gmpi.rank(), self.iterations(bytes));
        let work = move |carrier: &mut dyn Carrier| {
            let trip =
                |carrier: &mut dyn Carrier,
                 one: &mut dyn FnMut(&mut dyn Carrier, bool) -> Result<(), BenchError>| {
                    one(carrier, rank == 0)?;
                    one(carrier, rank != 0)
                };
            let samples = match rank {
                0 => time_calls(iterations, |_| trip(carrier, &mut one)),
                _ => (0..calls(iterations))
                    .try_for_each(|_| trip(carrier, &mut one))
                    .map(|()| Samples::new(Vec::new(), 1)),
            };
            samples.map_err(|error| GmpiError::Mpi(error.to_string()))
        };
        self.gmpi.by_carrier("a ping-pong", WITHIN, work).doing("sending messages by the library")
    }

    fn print(&self, bytes: u64, samples: &Samples, errors: u64) -> Result<(), BenchError> {
        if self.gmpi.rank() != 0 {
            return Ok(());
        }
        let times = samples.latency();
        let line = Line {
            peer: self.gmpi.carrier().to_owned(),
            bench: self.job.bench.clone(),
            nodes: 2,
            bytes: Some(bytes),
            elements: None,
            value: times.median,
            min: times.min,
            alone: None,
            errors,
        };
        println!(
            "{}",
            serde_json::to_string(&line).map_err(|error| BenchError::Unsupported(error.to_string()))?
        );
        Ok(())
    }
}

/// One end of messages by the library, of kernels' memory.
struct End {
    processor: Processor,
    /// What a kernel counts that ends for each message.
    counts: Option<KernelMem>,
    memory: Arc<KernelMem>,
    bytes: usize,
    rank: u32,
    options: Options,
}

impl End {
    fn span(&self, offset: usize) -> Span {
        Span { index: 0, memory: self.memory.clone(), offset, len: self.bytes }
    }

    fn send(&self, carrier: &mut dyn Carrier) -> Result<(), BenchError> {
        self.launch()?;
        let (at, of) = (self.span(0), Type(GMPI_UNSIGNED_LONG));
        finish(carrier, &Operation::Send { at, of, to: 1 - self.rank, tag: 0, comm: 0 })
    }

    fn receive(&self, carrier: &mut dyn Carrier) -> Result<(), BenchError> {
        let (at, of) = (self.span(self.bytes), Type(GMPI_UNSIGNED_LONG));
        finish(carrier, &Operation::Recv { at, of, from: Some(1 - self.rank), tag: Some(0), comm: 0 })
    }

    fn launch(&self) -> Result<(), BenchError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        let (rounds, finished) = (counts.address(), counts.address() + 8);
        let args = bench_host_sync { rounds, finished, word: 0, ns: 0 };
        kernel::run(&[kernel::launch(&self.processor, EMPTY, 1, 32, &args)], &self.options)
    }
}

fn finish(carrier: &mut dyn Carrier, operation: &Operation) -> Result<(), BenchError> {
    let failed = |class: ggas_gmpi::Class| BenchError::Refused(class.to_string());
    let token = carrier.start(operation).map_err(failed)?;
    let began = Instant::now();
    loop {
        if let Some(ended) = carrier.test(token) {
            return ended.map(drop).map_err(failed);
        }
        if !carrier.progress() {
            if began.elapsed() > WITHIN {
                return Err(BenchError::Refused(format!("no end of a message within {WITHIN:?}")));
            }
            std::thread::yield_now();
        }
    }
}
