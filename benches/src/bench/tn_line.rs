//! `tn-line`: a kernel copies one cache line, which is sent to another node (GPU-TN, section 5.2, Fig. 8).

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ggas::HostBuffer;
use ggas_kernels::{Launch, Stream};

use super::litmus::in_one_process;
use crate::args::bench_tn_line;
use crate::error::Doing;
use crate::hosts::{Outgoing, TwoSided, together, until};
use crate::kernel;
use crate::messages::{How, Message, Parts, Table};
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Device, Options, Progress, Report, Row, Samples, Team};

/// Threads of the kernel that copies: one for each float of the paper's line.
const THREADS: u32 = 32;
/// Rounds that are not counted.
const WARM_UP: u64 = 10;
/// Where the line arrives, behind its counter.
const ARRIVAL: usize = 256;

pub(crate) struct TnLine;

impl Bench for TnLine {
    fn name(&self) -> &'static str {
        "tn-line"
    }

    fn about(&self) -> &'static str {
        "a kernel copies a cache line, which is sent; from the kernel's launch until the other host knows"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        How::NAMES
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        in_one_process(team)?;
        let sizes = options.sizes_or(&[64], 64..=1 << 20, 64)?;
        let hows = How::wanted(&task)?;
        super::methods_by_sizes(task, &hows, &sizes, progress, |report, how, bytes| {
            let setup = Setup::new(task, Worker::Kernels)?;
            let (times, check) = Run::new(&setup, how, bytes as usize)?.measure()?;
            let row = Row::new(&times.whole).method(how.name()).bytes(bytes);
            let row = match how {
                How::Hdn => row.with("kernel_us", times.kernel.latency().median),
                _ => row,
            };
            report.push(row, check);
            Ok(())
        })
    }
}

/// How the initiator's memory is divided.
#[derive(Clone, Copy)]
struct Layout {
    stride: usize,
}

impl Layout {
    fn source(self, round: u64) -> usize {
        (round % 2) as usize * self.stride
    }

    fn buffer(self) -> usize {
        2 * self.stride
    }

    fn value(self) -> usize {
        3 * self.stride
    }
}

struct Run<'a> {
    setup: &'a Setup<'a>,
    how: How,
    bytes: usize,
    rounds: u64,
    layout: Layout,
    parts: Parts<'a>,
    data: RoundData,
}

/// From the launch until the target's host knew, and until the initiator's host knew of the kernel's end.
struct Times {
    whole: Samples,
    kernel: Samples,
}

/// When a line's time began, and when its message was on its way as far as the host knew.
type Begun = Mutex<Vec<[Instant; 2]>>;

/// When the target's host knew of each line, and how many it knew of.
#[derive(Default)]
struct Known {
    at: Mutex<Vec<Instant>>,
    lines: AtomicU64,
}

impl Known {
    fn line(&self, timeout: Duration, what: &str, came: impl FnMut() -> bool) -> Result<(), BenchError> {
        until(what, timeout, came)?;
        let now = Instant::now();
        self.at.lock().unwrap_or_else(PoisonError::into_inner).push(now);
        self.lines.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup<'a>, how: How, bytes: usize) -> Result<Run<'a>, BenchError> {
        let layout = Layout { stride: bytes.next_multiple_of(256) };
        let parts = Parts::new(setup, how, layout.value() + 8, ARRIVAL + bytes)?;
        let data = RoundData::new(setup.options.seed, 0, bytes);
        for round in 0..2 {
            parts.memory(0).write(layout.source(round), &data.of(round)).doing("writing kernel memory")?;
        }
        parts.write(1, ARRIVAL, data.poison())?;
        let default = if setup.options.device == Device::Gpu { 1000 } else { 100 };
        let rounds = setup.options.iterations.unwrap_or(default) + WARM_UP;
        Ok(Run { setup, how, bytes, rounds, layout, parts, data })
    }

    fn timeout(&self) -> Duration {
        self.setup.options.timeout
    }

    fn measure(&self) -> Result<(Times, Check), BenchError> {
        match self.how {
            How::Cpu => self.by_hosts(),
            _ => self.by_kernels(),
        }
    }

    /// Copies by the host, at both ends.
    fn by_hosts(&self) -> Result<(Times, Check), BenchError> {
        let (known, sent) = (Known::default(), AtomicU64::new(0));
        let check = Mutex::new(Check::default());
        let arrival = Mutex::new(self.data.poison().to_vec());
        let begun = Mutex::new(Vec::new());
        together(2, self.timeout(), |node, gate| {
            let sources = [self.data.of(0), self.data.of(1)];
            let mut buffer = vec![0; self.bytes];
            gate.pass()?;
            for round in 0..self.rounds {
                if node == 1 {
                    known.line(self.timeout(), "a line", || sent.load(Ordering::Acquire) > round)?;
                    continue;
                }
                let begin = Instant::now();
                buffer.copy_from_slice(&sources[(round % 2) as usize]);
                // Nobody holds it: the target looks at the word behind.
                arrival.lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(&buffer);
                sent.store(round + 1, Ordering::Release);
                begun.lock().unwrap_or_else(PoisonError::into_inner).push([begin; 2]);
                until("the target", self.timeout(), || known.lines.load(Ordering::Acquire) > round)?;
                let seen = arrival.lock().unwrap_or_else(PoisonError::into_inner);
                self.look(round, &seen, &check);
            }
            Ok(())
        })?;
        Ok((self.times(begun, known), check.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn look(&self, round: u64, seen: &[u8], check: &Mutex<Check>) {
        let mut check = check.lock().unwrap_or_else(PoisonError::into_inner);
        check.bytes(&format!("line {round} at node 1"), &self.data.of(round), seen);
    }

    fn times(&self, begun: Begun, known: Known) -> Times {
        let begun = begun.into_inner().unwrap_or_else(PoisonError::into_inner);
        let known = known.at.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ns = |begin: Instant, end: Instant| end.saturating_duration_since(begin).as_nanos() as f64;
        let counted = || begun.iter().zip(&known).skip(WARM_UP as usize);
        let whole = counted().map(|([begin, _], known)| ns(*begin, *known)).collect();
        let kernel = counted().map(|([begin, sent], _)| ns(*begin, *sent)).collect();
        Times { whole: Samples::new(whole, 1), kernel: Samples::new(kernel, 1) }
    }

    fn message(&self) -> Message {
        let buffer = self.layout.buffer();
        Message {
            tag: 0,
            to: 1,
            local: buffer..buffer + self.bytes,
            at: ARRIVAL,
            counter: 0,
            threshold: 1,
            value: self.layout.value(),
        }
    }

    fn args(&self, node: u32, table: Option<&Table>, round: u64) -> Result<bench_tn_line, BenchError> {
        let at = |offset: usize| self.parts.memory(0).address() + offset as u64;
        Ok(bench_tn_line {
            program: self.parts.program(node, table)?,
            source: at(self.layout.source(round)),
            buffer: at(self.layout.buffer()),
            bytes: self.bytes as u64,
            value: at(self.layout.value()),
            round,
            counter: 0,
            rounds: self.rounds,
            ..bench_tn_line::default()
        })
    }

    fn by_kernels(&self) -> Result<(Times, Check), BenchError> {
        let table = self.how.triggers().then(|| self.parts.table(0, 1, &[self.message()])).transpose()?;
        let launch = |round| {
            let args = self.args(0, table.as_ref(), round)?;
            Ok(kernel::launch(self.setup.processor(0), "bench_tn_line_copy", 1, THREADS, &args))
        };
        let launches = (0..self.rounds).map(launch).collect::<Result<Vec<Launch<'_>>, BenchError>>()?;
        let answers = HostBuffer::zeroed(4096).doing("allocating host memory")?;
        // SAFETY: the buffer outlives the mapping and the kernel, and is accessed by atomics only.
        let mapped = unsafe { self.setup.processor(1).map_host(answers.as_ptr(), 4096) };
        let mapped = mapped.doing("mapping host memory for kernels")?;
        let target = bench_tn_line { seen: mapped.address(), ..self.args(1, None, 0)? };
        let target = kernel::launch(self.setup.processor(1), "bench_tn_line_target", 1, 32, &target);
        let armed = table.as_ref().map(Table::arm);
        // Two-sided, the target's host is told by the initiator's.
        let watching = match self.how {
            How::Hdn => None,
            _ => Some(kernel::begin(&[target])?),
        };
        let stream = Stream::new(&launches, kernel::limit(self.timeout())).doing("making a stream")?;
        let (known, two_sided) = (Known::default(), TwoSided::new(1, self.timeout()));
        let (begun, check) = (Mutex::new(Vec::new()), Mutex::new(Check::default()));
        let run = together(2, self.timeout(), |node, gate| {
            stream.wait().doing("waiting for a stream")?;
            gate.pass()?;
            if node == 0 {
                return self.initiate(&stream, &two_sided, &known, &begun, &check);
            }
            for round in 1..=self.rounds {
                match self.how {
                    How::Hdn => {
                        two_sided.post(0, round);
                        two_sided.receive(0, round)?;
                        known.line(self.timeout(), "a line", || true)?;
                    }
                    _ => known.line(self.timeout(), "a line", || answers.load_u64(0) >= round)?,
                }
            }
            Ok(())
        });
        if let Err(error) = run {
            self.parts.finished("bench_tn_line_copy", table.as_slice())?;
            return Err(error);
        }
        if let Some(watching) = watching {
            kernel::finish(watching, self.setup.options)?;
        }
        drop(armed);
        self.parts.finished("bench_tn_line_copy", table.as_slice())?;
        let mut check = check.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = &table {
            table.check(0, &mut check)?;
        }
        Ok((self.times(begun, known), check))
    }

    /// The initiator's host. What it posts ahead of the time is registered before.
    fn initiate(
        &self,
        stream: &Stream<'_>,
        two_sided: &TwoSided,
        known: &Known,
        begun: &Begun,
        check: &Mutex<Check>,
    ) -> Result<(), BenchError> {
        const SENDING: &str = "sending a line";
        let from = self.parts.memory(0).address() + self.layout.buffer() as u64;
        let address = |offset| match self.how {
            How::Unit => Ok(0),
            _ => self.parts.address(0, 1, offset),
        };
        let (to, counter) = (address(ARRIVAL)?, address(0)?);
        for round in 0..self.rounds {
            let begin = Instant::now();
            let mut sent = begin;
            stream.launch(round as usize).doing(SENDING)?;
            match self.how {
                How::Hdn => {
                    stream.wait().doing(SENDING)?;
                    sent = Instant::now();
                    let line = Outgoing { slot: 0, to, from, bytes: self.bytes };
                    // SAFETY: the line's place, which nobody reads before it is told of the line.
                    unsafe { two_sided.send(stream, &[line], round + 1)? };
                }
                How::Gds => {
                    // SAFETY: as above; counters are accessed by atomics only.
                    unsafe { stream.copy(to, from, self.bytes) }.doing(SENDING)?;
                    // SAFETY: as above.
                    unsafe { stream.store(counter, round + 1) }.doing(SENDING)?;
                }
                _ => {}
            }
            begun.lock().unwrap_or_else(PoisonError::into_inner).push([begin, sent]);
            until("the target", self.timeout(), || known.lines.load(Ordering::Acquire) > round)?;
            stream.wait().doing(SENDING)?;
            let seen = self.parts.read(1, ARRIVAL, self.bytes)?;
            self.look(round, &seen, check);
        }
        Ok(())
    }
}
