//! What a process of these jobs does. Rank 0 prints the figures.

use std::time::{Duration, Instant};

use ggas::Spec;
use ggas_gaspi::{Config, Datatype, GROUP_ALL, Gaspi, Notice, Operation, Part, Timeout};

use super::bare::Bare;
use super::{GpuWrite, Job, Line};
use crate::error::Doing;
use crate::stats::Samples;
use crate::{BenchError, cores};

const WITHIN: Timeout = Timeout::Within(Duration::from_secs(60));
/// Transfers of `gaspi-bandwidth` that are under way at a time, as of Open MPI's side.
const WINDOW: u32 = 8;
/// Notifications of `gaspi-rate` at a time.
const BURST: u32 = 256;

type Outcome = Result<(), BenchError>;
type Timed = Result<Duration, BenchError>;

/// Is a process of a job.
pub(crate) fn part(job: &Job) -> Outcome {
    let gaspi = Gaspi::init(Config::default(), WITHIN).doing("beginning GASPI")?;
    cores::pin(gaspi.rank().into(), gaspi.ranks().into(), None)?;
    if let Some(way) = job.bench.strip_prefix(super::GPU_WRITE) {
        let way = GpuWrite::of(way.trim());
        return super::gpu::part(&gaspi, job, way.ok_or_else(|| none(&job.bench))?);
    }
    if job.bench == super::HIMENO {
        return super::himeno::part(&gaspi, job);
    }
    let most = job.sizes.iter().copied().max().unwrap_or(8).max(8);
    gaspi.segment_create(0, 2 * most, GROUP_ALL, WITHIN).doing("creating a segment")?;
    let side = Side { gaspi: &gaspi, bare: Bare::open(&gaspi, most as usize)?, job, most };
    for &size in &job.sizes {
        match job.bench.as_str() {
            "gaspi-pingpong" => side.pingpong(size)?,
            "gaspi-bandwidth" => side.bandwidth(size)?,
            "gaspi-rate" => side.rate(size)?,
            "gaspi-post" => side.post(size)?,
            "gaspi-post-work-wait" => side.post_work_wait(size)?,
            "gaspi-passive" => side.passive(size)?,
            "gaspi-allreduce" => side.allreduce(size)?,
            "gaspi-barrier" => side.barrier()?,
            other => return Err(none(other)),
        }
    }
    side.meet()
}

fn none(bench: &str) -> BenchError {
    BenchError::Unsupported(format!("{bench} is none of GASPI's benchmarks"))
}

struct Side<'a> {
    gaspi: &'a Gaspi,
    bare: Bare,
    job: &'a Job,
    /// Bytes of the source, behind which the target lies.
    most: u64,
}

fn elapsed(trips: u32, mut work: impl FnMut() -> Outcome) -> Timed {
    let began = Instant::now();
    (0..trips).try_for_each(|_| work())?;
    Ok(began.elapsed())
}

impl Side<'_> {
    fn meet(&self) -> Outcome {
        self.gaspi.barrier(GROUP_ALL, WITHIN).doing("meeting the other processes")
    }

    /// Nanoseconds of an operation by round; `work` makes as many times `per` as it is told.
    fn rounds(&self, per: u32, work: impl FnMut(u32) -> Timed) -> Result<Vec<f64>, BenchError> {
        self.rounds_of(self.job.trips, per, work)
    }

    fn rounds_of(
        &self,
        trips: u32,
        per: u32,
        mut work: impl FnMut(u32) -> Timed,
    ) -> Result<Vec<f64>, BenchError> {
        work((trips / 4).max(1))?;
        let mut times = Vec::new();
        for _ in 0..self.job.rounds {
            self.meet()?;
            let time = work(trips)?;
            times.push(time.as_nanos() as f64 / f64::from(trips) / f64::from(per));
        }
        self.meet()?;
        Ok(times)
    }

    fn say(&self, method: &str, bytes: Option<u64>, times: Vec<f64>, errors: u64) {
        self.say_all(method, (bytes, None), times, errors, None);
    }

    fn say_all(
        &self,
        method: &str,
        (bytes, elements): (Option<u64>, Option<u64>),
        times: Vec<f64>,
        errors: u64,
        alone: Option<f64>,
    ) {
        if self.gaspi.rank() > 0 {
            return;
        }
        let latency = Samples::new(times, 1).latency();
        let line = Line {
            peer: method.to_owned(),
            bench: self.job.bench.clone(),
            nodes: self.gaspi.ranks().into(),
            bytes,
            elements,
            value: latency.median,
            min: latency.min,
            alone,
            copies: None,
            runs: None,
            errors,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            println!("{text}");
        }
    }

    /// Fills sources with the data of this rank, targets with poison.
    fn fill(&self, bytes: u64) -> Outcome {
        let data = self.data(self.gaspi.rank(), bytes);
        self.bare.fill(&data)?;
        self.gaspi.store(0, 0, &data).doing("filling a segment")?;
        let poison = vec![0xee; self.most as usize];
        self.gaspi.store(0, self.most, &poison).doing("filling a segment")?;
        self.meet()
    }

    fn data(&self, rank: u16, bytes: u64) -> Vec<u8> {
        let mut data = vec![0; bytes as usize];
        fastrand::Rng::with_seed(self.job.seed ^ u64::from(rank) << 32).fill(&mut data);
        data
    }

    /// Bytes of the target of rank 1 that are not those of rank 0, which rank 0 gets to know.
    fn wrong(&self, got: Result<Vec<u8>, BenchError>, bytes: u64) -> Result<u64, BenchError> {
        let mine = match self.gaspi.rank() {
            1 => got?.iter().zip(self.data(0, bytes)).filter(|(got, sent)| **got != *sent).count() as u64,
            _ => 0,
        };
        self.sum(mine)
    }

    fn sum(&self, mine: u64) -> Result<u64, BenchError> {
        let word = mine.to_ne_bytes();
        let sum = self.gaspi.allreduce(GROUP_ALL, &word, Operation::Sum, Datatype::Ulong, WITHIN);
        let sum = sum.doing("adding up errors")?;
        Ok(sum.try_into().map_or(u64::MAX, u64::from_ne_bytes))
    }

    fn wrong_in_segment(&self, bytes: u64) -> Result<u64, BenchError> {
        let mut got = vec![0; bytes as usize];
        let loaded = self.gaspi.load(0, self.most, &mut got).doing("reading a segment");
        self.wrong(loaded.map(|()| got), bytes)
    }

    fn wrong_in_bare(&self, bytes: u64) -> Result<u64, BenchError> {
        self.wrong(self.bare.arrived(bytes as usize), bytes)
    }

    fn part(&self, bytes: u64) -> Part {
        Part { local: 0, local_offset: 0, remote: 0, remote_offset: self.most, bytes }
    }

    fn other(&self) -> u16 {
        1 - self.gaspi.rank().min(1)
    }

    fn write_notify(&self, bytes: u64) -> Outcome {
        let notice = Notice { segment: 0, id: 0, value: 1 };
        self.gaspi.write_notify(&[self.part(bytes)], &notice, self.other(), 0).doing("posting a write")
    }

    fn write(&self, bytes: u64) -> Outcome {
        self.gaspi.write(&self.part(bytes), self.other(), 0).doing("posting a write")
    }

    fn wait(&self) -> Outcome {
        self.gaspi.wait(0, WITHIN).doing("waiting on a queue")
    }

    fn send(&self, bytes: u64) -> Outcome {
        self.write_notify(bytes)?;
        self.wait()
    }

    fn receive(&self) -> Outcome {
        self.gaspi.notify_waitsome(0, 0, 1, WITHIN).doing("waiting for a notification")?;
        self.gaspi.notify_reset(0, 0).map(drop).doing("resetting a notification")
    }

    /// Both ends of a round trip, by rank.
    fn trip(&self, send: impl Fn() -> Outcome, receive: impl Fn() -> Outcome) -> Outcome {
        match self.gaspi.rank() {
            0 => send().and_then(|()| receive()),
            1 => receive().and_then(|()| send()),
            _ => Ok(()),
        }
    }

    fn bare_send(&self, bytes: u64) -> Outcome {
        self.bare.put(bytes as usize, Spec::COMPLETER)
    }

    fn pingpong(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let times =
            self.rounds(2, |trips| elapsed(trips, || self.trip(|| self.send(bytes), || self.receive())))?;
        self.say("write-notify", Some(bytes), times, self.wrong_in_segment(bytes)?);
        let times = self.rounds(2, |trips| {
            elapsed(trips, || self.trip(|| self.bare_send(bytes), || self.bare.consume()))
        })?;
        self.say("own put", Some(bytes), times, self.wrong_in_bare(bytes)?);
        Ok(())
    }

    /// A window of transfers, until all are at the other side and it has said so.
    fn bandwidth(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let ours = || -> Outcome {
            if self.gaspi.rank() == 0 {
                (1..WINDOW).try_for_each(|_| self.write(bytes))?;
            }
            self.trip(|| self.send(if self.gaspi.rank() == 0 { bytes } else { 8 }), || self.receive())
        };
        let times = self.rounds(WINDOW, |trips| elapsed(trips, ours))?;
        self.say("write", Some(bytes), times, self.wrong_in_segment(bytes)?);
        let bare = || match self.gaspi.rank() {
            0 => {
                (1..WINDOW).try_for_each(|_| self.bare.put(bytes as usize, Spec::NONE))?;
                self.bare_send(bytes)?;
                self.bare.consume()
            }
            1 => {
                self.bare.consume()?;
                self.bare_send(8)
            }
            _ => Ok(()),
        };
        let times = self.rounds(WINDOW, |trips| elapsed(trips, bare))?;
        self.say("own put", Some(bytes), times, self.wrong_in_bare(bytes)?);
        let (from, mut to) = (self.data(0, bytes), vec![0; bytes as usize]);
        let copy = || {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            Ok(())
        };
        let mut copy = copy;
        let times = self.rounds(1, |trips| match self.gaspi.rank() {
            0 => elapsed(trips, &mut copy),
            _ => Ok(Duration::ZERO),
        })?;
        self.say("memcpy", Some(bytes), times, 0);
        Ok(())
    }

    /// Notifications, each with so many bytes (8: none but itself), all of which the other side takes.
    fn rate(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let notices = || -> Outcome {
            match self.gaspi.rank() {
                0 => {
                    for id in 0..BURST {
                        let notice = Notice { segment: 0, id, value: 1 };
                        self.gaspi.notify(&notice, 1, 0).doing("posting a notification")?;
                    }
                    self.receive()?;
                    self.wait()
                }
                1 => {
                    for id in 0..BURST {
                        let got = self.gaspi.notify_waitsome(0, id, 1, WITHIN);
                        got.doing("waiting for a notification")?;
                        self.gaspi.notify_reset(0, id).doing("resetting a notification")?;
                    }
                    self.send(8)
                }
                _ => Ok(()),
            }
        };
        let bursts = (self.job.trips / BURST).max(4);
        let times = self.rounds_of(bursts, BURST, |trips| elapsed(trips, notices))?;
        self.say("notify", Some(bytes), times, 0);
        let puts = || -> Outcome {
            match self.gaspi.rank() {
                0 => {
                    (0..BURST).try_for_each(|_| self.bare_send(8))?;
                    self.bare.consume()
                }
                1 => {
                    (0..BURST).try_for_each(|_| self.bare.consume())?;
                    self.bare_send(8)
                }
                _ => Ok(()),
            }
        };
        let times = self.rounds_of(bursts, BURST, |trips| elapsed(trips, puts))?;
        self.say("own put", Some(bytes), times, self.wrong_in_bare(8)?);
        Ok(())
    }

    /// The post alone; what completes it is not timed.
    fn posts(&self, trips: u32, post: impl Fn() -> Outcome, complete: impl Fn() -> Outcome) -> Timed {
        let mut sum = Duration::ZERO;
        if self.gaspi.rank() == 0 {
            for _ in 0..trips.div_ceil(WINDOW) {
                sum += elapsed(WINDOW, &post)?;
                complete()?;
            }
        }
        Ok(sum * trips / (trips.div_ceil(WINDOW) * WINDOW))
    }

    fn post(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let times = self.rounds(1, |trips| self.posts(trips, || self.write(bytes), || self.wait()))?;
        self.say("write", Some(bytes), times, self.wrong_in_segment(bytes)?);
        let times = self.rounds(1, |trips| self.posts(trips, || self.write_notify(bytes), || self.wait()))?;
        self.gaspi.notify_reset(0, 0).doing("resetting a notification")?;
        self.say("write-notify", Some(bytes), times, self.wrong_in_segment(bytes)?);
        let put = || self.bare.put(bytes as usize, Spec::REQUESTER);
        let done = || (0..WINDOW).try_for_each(|_| self.bare.consume());
        let times = self.rounds(1, |trips| self.posts(trips, put, done))?;
        self.say("own put", Some(bytes), times, self.wrong_in_bare(bytes)?);
        Ok(())
    }

    /// A write whose time passes while the program works: as long as one takes alone.
    fn post_work_wait(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let exchange = |work: Duration| -> Outcome {
            match self.gaspi.rank() {
                0 => {
                    self.write(bytes)?;
                    let began = Instant::now();
                    while began.elapsed() < work {
                        std::hint::spin_loop();
                    }
                    self.wait()
                }
                _ => Ok(()),
            }
        };
        let alone = self.rounds(1, |trips| elapsed(trips, || exchange(Duration::ZERO)))?;
        let alone = Samples::new(alone, 1).latency().median;
        let work = Duration::from_nanos((alone * 1e3) as u64);
        let times = self.rounds(1, |trips| elapsed(trips, || exchange(work)))?;
        let errors = self.wrong_in_segment(bytes)?;
        self.say_all("write", (Some(bytes), None), times, errors, Some(alone));
        Ok(())
    }

    fn passive(&self, bytes: u64) -> Outcome {
        self.fill(bytes)?;
        let send = || self.gaspi.passive_send(0, 0, self.other(), bytes, WITHIN).doing("sending");
        let receive = || self.gaspi.passive_receive(0, self.most, bytes, WITHIN).map(drop).doing("receiving");
        let times = self.rounds(2, |trips| elapsed(trips, || self.trip(send, receive)))?;
        self.say("passive", Some(bytes), times, self.wrong_in_segment(bytes)?);
        Ok(())
    }

    fn allreduce(&self, elements: u64) -> Outcome {
        let value = |rank: u16| (0..elements).map(move |at| (u64::from(rank) + at) as f64);
        let own: Vec<u8> = value(self.gaspi.rank()).flat_map(f64::to_ne_bytes).collect();
        let reduce = || {
            self.gaspi.allreduce(GROUP_ALL, &own, Operation::Sum, Datatype::Double, WITHIN).doing("reducing")
        };
        let times = self.rounds(1, |trips| elapsed(trips, || reduce().map(drop)))?;
        let (got, ranks) = (reduce()?, u64::from(self.gaspi.ranks()));
        let expected = (0..elements).map(|at| (ranks * at + ranks * (ranks - 1) / 2) as f64);
        let wrong = got
            .as_chunks::<8>()
            .0
            .iter()
            .zip(expected)
            .filter(|(got, sum)| f64::from_ne_bytes(**got) != *sum);
        let errors = self.sum(wrong.count() as u64)?;
        self.say_all("allreduce", (None, Some(elements)), times, errors, None);
        Ok(())
    }

    fn barrier(&self) -> Outcome {
        let times = self.rounds(1, |trips| elapsed(trips, || self.meet()))?;
        self.say("barrier", None, times, 0);
        Ok(())
    }
}
