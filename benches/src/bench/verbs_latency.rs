//! `verbs-latency`: half a round trip of a write by InfiniBand verbs through the software HCA, and of a notification put through the
//! software card beside it. No HCA has seen this.

use std::cell::Cell;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_verbs::{Operation, RemoteRegion, SendWork, Sges, Status, Wire};

use super::methods_by_sizes;
use super::velo_pingpong::{End, TURNS, notifications, pingpong, wrong};
use super::verbs::{
    self,
    sides::{Pair, Shape, Side},
};
use crate::error::Doing;
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// Every so many writes one asks for a completion.
const SIGNALED: u64 = 16;
/// Where writes of the peer go; its last word counts them.
const INTO: usize = 1 << 16;

pub(crate) struct VerbsLatency;

impl Bench for VerbsLatency {
    fn name(&self) -> &'static str {
        "verbs-latency"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a write by verbs, software HCA; the host's beside that of a notification put, software card"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["gpu-queues", "host-queues", "assisted", "packets", "datagrams"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&[8, 1024], 8..=INTO as u64, 8)?;
        let mut report =
            methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
                if !["packets", "datagrams"].contains(&method) {
                    let (samples, check) = verbs::pingpong(task, method, bytes)?;
                    report.push(Row::new(&samples).method(method).bytes(bytes), check);
                    return Ok(());
                }
                let wire = if method == "datagrams" { Wire::Datagrams } else { Wire::Packets };
                let [puts, writes] = both(task, bytes as usize, wire)?;
                let put = Row::new(&puts.0.halved()).method("notification-put").bytes(8);
                let write = Row::new(&writes.0.halved()).method(method).bytes(bytes);
                let ratio = write.latency_us.median / put.latency_us.median;
                report.push(put, puts.1);
                report.push(write.with("of_notification", ratio), writes.1);
                Ok(())
            })?;
        report.notes.push(verbs::NO_HCA.to_owned());
        Ok(report)
    }
}

/// Notification puts and writes, in turn, so that both meet the same machine.
fn both(task: Task, bytes: usize, wire: Wire) -> Result<[(Samples, Check); 2], BenchError> {
    let setup = Setup::new(task, Worker::Host)?;
    let mut puts = notifications(&setup)?;
    if setup.job().is_some() && wire == Wire::Packets {
        return Err(BenchError::Unsupported(
            "packets are handed over in one process only: choose --method datagrams, or leave --fabric out"
                .into(),
        ));
    }
    let mut writes = writes(&setup, bytes, wire)?;
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        samples[0].extend(pingpong(&setup, &mut puts)?);
        samples[1].extend(pingpong(&setup, &mut writes)?);
    }
    let [first, second] = samples.map(|runs| (!runs.is_empty()).then(|| Samples::merged(&runs)));
    Ok([setup.collect(first, wrong(&puts))?, setup.collect(second, wrong(&writes))?])
}

/// One end: it writes, and looks at its memory for what the other wrote.
struct Writes<'a> {
    node: u32,
    side: Side,
    peer: RemoteRegion,
    bytes: usize,
    /// The peer is another process.
    apart: bool,
    options: &'a Options,
    sent: Cell<u64>,
    taken: u64,
    failed: Cell<u64>,
}

impl End for Writes<'_> {
    fn node(&self) -> u32 {
        self.node
    }

    #[inline]
    fn send(&self, _round: u64) -> Result<(), BenchError> {
        let number = self.sent.get() + 1;
        self.sent.set(number);
        let Side { mr, .. } = &self.side;
        let Pair { qp, send } = &self.side.pairs[0];
        while let Some(done) = send.poll().doing("polling")? {
            self.failed.set(self.failed.get() + u64::from(done.status != Status::Success));
        }
        mr.buffer().store_u64(self.bytes - 8, number).doing("writing the source")?;
        let local = Sges::one(mr.address(), self.bytes as u32, mr.lkey());
        let (address, rkey) = (self.peer.address + INTO as u64, self.peer.rkey);
        let write = Operation::Write { address, rkey, immediate: None };
        let signaled = number.is_multiple_of(SIGNALED);
        qp.post_send(&SendWork { signaled, ..SendWork::new(number, write, local) })
            .doing("posting a write")?;
        if self.apart {
            // Behind the last one of a turn nobody waits, who would run the adapter.
            self.side.network().step();
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, _round: u64) -> Result<(), BenchError> {
        self.taken += 1;
        // The clock is not read where nothing is late.
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, self.options.timeout);
        loop {
            let seen = self.side.mr.buffer().load_u64(INTO + self.bytes - 8).doing("looking")?;
            if seen >= self.taken {
                self.failed.set(self.failed.get() + u64::from(seen != self.taken));
                return Ok(());
            }
            if !self.side.network().step() {
                let late = |_| BenchError::Unsupported(format!("write {} did not come", self.taken));
                backoff.pause().map_err(late)?;
            }
        }
    }

    fn wrong(&self) -> u64 {
        self.failed.get()
    }
}

fn writes<'a>(setup: &Setup<'a>, bytes: usize, wire: Wire) -> Result<Vec<Writes<'a>>, BenchError> {
    let shape = Shape { wire, ..Shape::new(2 * INTO) };
    let sides = match setup.job() {
        Some(job) => shape.across(setup, job)?.into_iter().collect(),
        None => {
            let [first, second] = shape.open(setup)?;
            let told = [second.mr.remote(), first.mr.remote()];
            [first, second].into_iter().zip(told).collect::<Vec<_>>()
        }
    };
    let end = |(node, (side, peer))| Writes {
        node,
        side,
        peer,
        bytes,
        apart: setup.job().is_some(),
        options: setup.options,
        sent: Cell::new(0),
        taken: 0,
        failed: Cell::new(0),
    };
    Ok(setup.ends().zip(sides).map(end).collect())
}
