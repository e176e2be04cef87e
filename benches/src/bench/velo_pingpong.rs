//! `velo-pingpong`: half a round trip of a VELO message, and of a notification put beside it.

use ggas::velo::{Message, VeloConnection, VeloPort};
use ggas::{Connection, Port, Spec, VeloConfig};

use super::{methods_by_sizes, velo_kernels};
use crate::error::Doing;
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// Round trips of a row.
const ITERATIONS: u64 = 50_000;
/// Times that each kind is measured, in turn, so that both meet the same machine.
pub(super) const TURNS: u64 = 10;

pub(crate) struct VeloPingpong;

impl Bench for VeloPingpong {
    fn name(&self) -> &'static str {
        "velo-pingpong"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a message, and of a notification put, by hosts and by kernels"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["hosts", "kernels"]
    }

    fn by_cards(&self) -> &'static [&'static str] {
        self.methods()
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes = options.sizes_or(&[8, 64, 120], 1..=120, 1)?;
        methods_by_sizes(task, &task.methods(), &sizes, progress, |report, method, bytes| {
            let (names, [puts, messages]) = match method {
                "hosts" => (["notification-put", "message"], both(task, bytes as usize)?),
                _ => (["kernel-notification-put", "kernel-message"], velo_kernels::both(task, bytes)?),
            };
            let put = Row::new(&puts.0.halved()).method(names[0]).bytes(8);
            let message = Row::new(&messages.0.halved()).method(names[1]).bytes(bytes);
            let ratio = message.latency_us.median / put.latency_us.median;
            report.push(put, puts.1);
            report.push(message.with("of_notification", ratio), messages.1);
            Ok(())
        })
    }
}

/// Notification puts and messages by host threads, in turn.
fn both(task: Task, bytes: usize) -> Result<[(Samples, Check); 2], BenchError> {
    let setup = Setup::new(task, Worker::Host)?;
    let mut puts = notifications(&setup)?;
    let mut messages = messages(&setup, bytes)?;
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        samples[0].extend(pingpong(&setup, &mut puts)?);
        samples[1].extend(pingpong(&setup, &mut messages)?);
    }
    let [first, second] = samples.map(|runs| (!runs.is_empty()).then(|| Samples::merged(&runs)));
    Ok([setup.collect(first, wrong(&puts))?, setup.collect(second, wrong(&messages))?])
}

/// One end of a ping-pong: sends a round, and takes the other end's.
pub(super) trait End {
    fn node(&self) -> u32;
    fn send(&self, round: u64) -> Result<(), BenchError>;
    /// Takes the next one and compares it with that of `round`.
    fn take(&mut self, round: u64) -> Result<(), BenchError>;
    fn wrong(&self) -> u64;
}

/// Round trips between the ends here and the others; samples if node 0 is here.
pub(super) fn pingpong<E: End>(setup: &Setup, ends: &mut [E]) -> Result<Option<Samples>, BenchError> {
    let iterations = (setup.options.iterations.unwrap_or(ITERATIONS) / TURNS).max(1);
    match ends {
        [ping, pong] => time_calls(iterations, |round| {
            ping.send(round)?;
            pong.take(round)?;
            pong.send(round)?;
            ping.take(round)
        })
        .map(Some),
        [ping] if ping.node() == 0 => time_calls(iterations, |round| {
            ping.send(round)?;
            ping.take(round)
        })
        .map(Some),
        [pong] => {
            for round in 0..calls(iterations) {
                pong.take(round)?;
                pong.send(round)?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

pub(super) fn wrong<E: End>(ends: &[E]) -> Check {
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.wrong() > 0) {
        check.wrong(end.wrong(), || format!("node {}: what came is not what was sent", end.node()));
    }
    check
}

struct Messages<'a> {
    node: u32,
    port: VeloPort,
    to: VeloConnection,
    data: [Vec<u8>; 2],
    options: &'a Options,
    wrong: u64,
}

impl Messages<'_> {
    fn is_right(&self, message: &Message, round: u64) -> bool {
        message.bytes() == &self.data[round as usize % 2][..] && message.tag() == round as u8
    }
}

impl End for Messages<'_> {
    fn node(&self) -> u32 {
        self.node
    }

    #[inline]
    fn send(&self, round: u64) -> Result<(), BenchError> {
        self.to.send(&self.data[round as usize % 2], round as u8).doing("sending a message")
    }

    #[inline]
    fn take(&mut self, round: u64) -> Result<(), BenchError> {
        let message = self.port.wait(self.options.timeout).doing("waiting for a message")?;
        self.wrong += u64::from(!self.is_right(&message, round));
        Ok(())
    }

    fn wrong(&self) -> u64 {
        self.wrong
    }
}

fn messages<'a>(setup: &Setup<'a>, bytes: usize) -> Result<Vec<Messages<'a>>, BenchError> {
    let options = setup.options;
    let data = RoundData::new(options.seed, 0, bytes);
    let config = VeloConfig { send_timeout: options.timeout, ..VeloConfig::default() };
    let open = |node| Ok((node, VeloPort::open(setup.node(node)?.device(), config).doing("opening a port")?));
    let ports = setup.ends().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let addresses = ports.iter().map(|(_, port)| (port.address().node, port.address().vpid)).collect();
    let addresses = setup.share(addresses)?;
    let end = |(node, port): (u32, VeloPort)| {
        let to = port.connect(velo_kernels::other(&addresses, node)?);
        Ok(Messages { node, port, to, data: [data.of(0), data.of(1)], options, wrong: 0 })
    };
    ports.into_iter().map(end).collect()
}

pub(super) struct Notifications<'a> {
    node: u32,
    port: Port,
    to: Connection,
    options: &'a Options,
    wrong: u64,
}

impl End for Notifications<'_> {
    fn node(&self) -> u32 {
        self.node
    }

    #[inline]
    fn send(&self, round: u64) -> Result<(), BenchError> {
        self.to.notification_put(round as u8, round, Spec::COMPLETER).doing("posting a notification")
    }

    #[inline]
    fn take(&mut self, round: u64) -> Result<(), BenchError> {
        let notification = self.port.wait(self.options.timeout).doing("waiting for a notification")?;
        self.wrong += u64::from(notification.word0 != round || !notification.error().is_empty());
        Ok(())
    }

    fn wrong(&self) -> u64 {
        self.wrong
    }
}

pub(super) fn notifications<'a>(setup: &Setup<'a>) -> Result<Vec<Notifications<'a>>, BenchError> {
    let options = setup.options;
    let open = |node| Ok((node, setup.open_port(node)?));
    let ports = setup.ends().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let addresses = ports.iter().map(|(_, port)| (port.address().node, port.address().vpid)).collect();
    let addresses = setup.share(addresses)?;
    let end = |(node, port): (u32, Port)| {
        let to = port.connect(velo_kernels::other(&addresses, node)?);
        Ok(Notifications { node, port, to, options, wrong: 0 })
    };
    ports.into_iter().map(end).collect()
}
