//! `velo-pingpong`: half a round trip of a VELO message, and of a notification put beside it.

use ggas::velo::{Message, VeloConnection, VeloPort};
use ggas::{Address, Connection, Port, Spec, VeloConfig};

use crate::error::Doing;
use crate::payload::RoundData;
use crate::setup::{Setup, Worker};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples, Team};

/// Round trips of a row.
const ITERATIONS: u64 = 50_000;

pub(crate) struct VeloPingpong;

impl Bench for VeloPingpong {
    fn name(&self) -> &'static str {
        "velo-pingpong"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a message, and of a notification put, by the host"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification-put", "message"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let mut report = task.report();
        let sizes = options.sizes_or(&[8, 64, 120], 1..=120, 1)?;
        let methods = task.methods();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for &bytes in &sizes {
            // Beside each other, so that both meet the same machine.
            let mut notification = None;
            for &method in &methods {
                progress.now(format!("{method}, {bytes} bytes"));
                let (samples, check) = match method {
                    "message" => messages(task, bytes as usize)?,
                    _ => notifications(task)?,
                };
                let row = Row::new(&samples.halved()).method(method);
                let median = row.latency_us.median;
                let row = match (method, notification) {
                    ("message", Some(other)) => row.bytes(bytes).with("of_notification", median / other),
                    ("message", None) => row.bytes(bytes),
                    _ => {
                        notification = Some(median);
                        row.bytes(8)
                    }
                };
                report.push(row, check);
                progress.step();
            }
        }
        Ok(report)
    }
}

/// One end of a ping-pong: sends a round, and takes the other end's.
trait End {
    fn node(&self) -> u32;
    fn send(&self, round: u64) -> Result<(), BenchError>;
    /// Takes the next one and compares it with that of `round`.
    fn take(&mut self, round: u64) -> Result<(), BenchError>;
    fn wrong(&self) -> u64;
}

/// Round trips between the ends here and the others; samples if node 0 is here.
fn pingpong<E: End>(setup: &Setup, mut ends: Vec<E>) -> Result<(Samples, Check), BenchError> {
    let iterations = setup.options.iterations.unwrap_or(ITERATIONS);
    let samples = match &mut ends[..] {
        [ping, pong] => Some(time_calls(iterations, |round| {
            ping.send(round)?;
            pong.take(round)?;
            pong.send(round)?;
            ping.take(round)
        })?),
        [ping] if ping.node() == 0 => Some(time_calls(iterations, |round| {
            ping.send(round)?;
            ping.take(round)
        })?),
        [pong] => {
            for round in 0..calls(iterations) {
                pong.take(round)?;
                pong.send(round)?;
            }
            None
        }
        _ => None,
    };
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.wrong() > 0) {
        check.wrong(end.wrong(), || format!("node {}: what came is not what was sent", end.node()));
    }
    setup.collect(samples, check)
}

/// The other end's port.
fn other(addresses: &[(u16, u8)], node: u32) -> Result<Address, BenchError> {
    let missing = || BenchError::Unsupported("a ping-pong needs two nodes".to_owned());
    addresses.get(1 - node as usize).map(|(node, vpid)| Address::new(*node, *vpid)).ok_or_else(missing)
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

fn messages(task: Task, bytes: usize) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Host)?;
    let data = RoundData::new(options.seed, 0, bytes);
    let config = VeloConfig { send_timeout: options.timeout, ..VeloConfig::default() };
    let open = |node| Ok((node, VeloPort::open(setup.node(node)?.device(), config).doing("opening a port")?));
    let ports = setup.ends().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let addresses = ports.iter().map(|(_, port)| (port.address().node, port.address().vpid)).collect();
    let addresses = setup.share(addresses)?;
    let end = |(node, port): (u32, VeloPort)| {
        let to = port.connect(other(&addresses, node)?);
        Ok(Messages { node, port, to, data: [data.of(0), data.of(1)], options, wrong: 0 })
    };
    let ends = ports.into_iter().map(end).collect::<Result<Vec<_>, BenchError>>()?;
    pingpong(&setup, ends)
}

struct Notifications<'a> {
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

fn notifications(task: Task) -> Result<(Samples, Check), BenchError> {
    let options = task.options;
    let setup = Setup::new(task, Worker::Host)?;
    let open = |node| Ok((node, setup.open_port(node)?));
    let ports = setup.ends().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let addresses = ports.iter().map(|(_, port)| (port.address().node, port.address().vpid)).collect();
    let addresses = setup.share(addresses)?;
    let end = |(node, port): (u32, Port)| {
        let to = port.connect(other(&addresses, node)?);
        Ok(Notifications { node, port, to, options, wrong: 0 })
    };
    let ends = ports.into_iter().map(end).collect::<Result<Vec<_>, BenchError>>()?;
    pingpong(&setup, ends)
}
