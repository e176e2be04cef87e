//! Writes between segments in GPU memory, by one of the ways that a process may choose.

use std::time::{Duration, Instant};

use ggas_gaspi::{GROUP_ALL, Gaspi, GpuConfig, GpuCopies, GpuWay, Notice, Part, Policy, Timeout};

use super::{Job, Line};
use crate::BenchError;
use crate::error::Doing;
use crate::stats::Samples;

const WITHIN: Timeout = Timeout::Within(Duration::from_secs(60));
/// Bytes of a trip's work: longer writes are made less often.
const WORK: u64 = 16 << 20;

/// A way to write between segments in GPU memory, with what it needs to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuWrite {
    /// A kernel on standby.
    Standby,
    /// A kernel for each write.
    Stores,
    /// A copy engine.
    Engine,
    /// Pieces of so many bytes by two streams.
    Hybrid { piece: u64 },
    /// The network device reads GPU memory.
    Card,
    /// Pieces of so many bytes through host memory and the network device.
    Staged { piece: u64 },
}

/// Name of the benchmark, before the way.
pub(crate) const NAME: &str = "gaspi-gpu-write";

impl GpuWrite {
    /// As a job names it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Standby => "standby".to_owned(),
            Self::Stores => "stores".to_owned(),
            Self::Engine => "engine".to_owned(),
            Self::Hybrid { piece } => format!("hybrid {piece}"),
            Self::Card => "card".to_owned(),
            Self::Staged { piece } => format!("staged {piece}"),
        }
    }

    /// From such a name.
    pub(crate) fn of(name: &str) -> Option<GpuWrite> {
        let (way, piece) = name.split_once(' ').map_or((name, None), |(way, piece)| (way, Some(piece)));
        let piece = || piece?.parse().ok();
        Some(match way {
            "standby" => Self::Standby,
            "stores" => Self::Stores,
            "engine" => Self::Engine,
            "hybrid" => Self::Hybrid { piece: piece()? },
            "card" => Self::Card,
            "staged" => Self::Staged { piece: piece()? },
            _ => return None,
        })
    }

    fn config(self) -> GpuConfig {
        // The executor in place of GPUs takes the same calls.
        let direct = GpuConfig { way: GpuWay::Direct, ..GpuConfig::default() };
        let card = GpuConfig { way: GpuWay::Card, ..GpuConfig::default() };
        match self {
            Self::Standby => GpuConfig { standby_max: 1 << 20, ..direct },
            Self::Stores => GpuConfig { copies: GpuCopies::Stores, ..direct },
            Self::Engine => GpuConfig { copies: GpuCopies::Engine, ..direct },
            Self::Hybrid { piece } => GpuConfig { copies: GpuCopies::Hybrid, piece, ..direct },
            Self::Card => GpuConfig { staged_min: u64::MAX, ..card },
            Self::Staged { piece } => GpuConfig { staged_min: 0, staged_piece: piece, ..card },
        }
    }
}

/// Half a round trip of a write and its notification, both ends of which write the same bytes.
pub(super) fn part(gaspi: &Gaspi, job: &Job, way: GpuWrite) -> Result<(), BenchError> {
    gaspi.gpu_init(way.config()).doing("beginning with GPUs")?;
    let most = job.sizes.iter().copied().max().unwrap_or(8);
    let made = gaspi.segment_create_on(0, 2 * most, GROUP_ALL, WITHIN, Policy::Gpu);
    made.doing("creating a segment in GPU memory")?;
    job.sizes.iter().try_for_each(|bytes| Trips { gaspi, job, most, bytes: *bytes }.measure(way))
}

struct Trips<'a> {
    gaspi: &'a Gaspi,
    job: &'a Job,
    /// Bytes of the source, behind which the target lies.
    most: u64,
    bytes: u64,
}

impl Trips<'_> {
    fn measure(&self, way: GpuWrite) -> Result<(), BenchError> {
        let (gaspi, me) = (self.gaspi, self.gaspi.rank());
        gaspi.store(0, 0, &self.data(me)).doing("filling a segment")?;
        let trips = u64::from(self.job.trips).min(WORK / self.bytes).max(1);
        self.round(trips.div_ceil(4))?;
        let mut times = Vec::new();
        for _ in 0..self.job.rounds {
            gaspi.barrier(GROUP_ALL, WITHIN).doing("meeting the other process")?;
            let began = Instant::now();
            self.round(trips)?;
            times.push(began.elapsed().as_nanos() as f64 / trips as f64 / 2.0);
        }
        let mut got = vec![0; self.bytes as usize];
        gaspi.load(0, self.most, &mut got).doing("reading a segment")?;
        let errors = got.iter().zip(self.data(1 - me)).filter(|(got, sent)| **got != *sent).count() as u64;
        gaspi.barrier(GROUP_ALL, WITHIN).doing("meeting the other process")?;
        let latency = Samples::new(times, 1).latency();
        let line = Line {
            peer: way.name(),
            bench: NAME.to_owned(),
            nodes: 2,
            bytes: Some(self.bytes),
            elements: None,
            value: latency.median,
            min: latency.min,
            alone: None,
            copies: None,
            runs: None,
            errors,
        };
        match serde_json::to_string(&line) {
            Ok(text) if me == 0 => println!("{text}"),
            // What the other process found wrong ends the job.
            _ if errors > 0 => return Err(BenchError::Unsupported(format!("{errors} bytes are wrong"))),
            _ => {}
        }
        Ok(())
    }

    fn data(&self, rank: u16) -> Vec<u8> {
        let mut data = vec![0; self.bytes as usize];
        fastrand::Rng::with_seed(self.job.seed ^ self.bytes ^ u64::from(rank) << 32).fill(&mut data);
        data
    }

    fn round(&self, trips: u64) -> Result<(), BenchError> {
        (0..trips).try_for_each(|_| match self.gaspi.rank() {
            0 => self.send().and_then(|()| self.receive()),
            _ => self.receive().and_then(|()| self.send()),
        })
    }

    fn send(&self) -> Result<(), BenchError> {
        let (other, notice) = (1 - self.gaspi.rank(), Notice { segment: 0, id: 0, value: 1 });
        let part = Part { local: 0, local_offset: 0, remote: 0, remote_offset: self.most, bytes: self.bytes };
        self.gaspi.gpu_write_notify(&part, &notice, other, 0, WITHIN).doing("posting a write")?;
        self.gaspi.wait(0, WITHIN).doing("waiting on a queue")
    }

    fn receive(&self) -> Result<(), BenchError> {
        self.gaspi.notify_waitsome(0, 0, 1, WITHIN).doing("waiting for a notification")?;
        self.gaspi.notify_reset(0, 0).map(drop).doing("resetting a notification")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_what_their_names_say() {
        use GpuWrite::{Card, Engine, Hybrid, Staged, Standby, Stores};
        for way in [Standby, Stores, Engine, Hybrid { piece: 7 }, Card, Staged { piece: 1 << 20 }] {
            assert_eq!(GpuWrite::of(&way.name()), Some(way));
        }
        assert_eq!(["", "hybrid", "hybrid x", "card-"].map(GpuWrite::of), [None; 4]);
    }
}
