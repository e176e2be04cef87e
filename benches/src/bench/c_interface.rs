//! `c-interface`: a put to its consumed notification by librma2, and in turn by the Rust library below it.

use ggas::{Cluster, Connection, LockedMemory, Port, PortConfig, Spec};

use crate::capi::CEnd;
use crate::error::Doing;
use crate::payload::{Layout, MAX_PUT, Payload, RoundData};
use crate::stats::{calls, time_calls};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Memory, Options, Progress, Report, Row, Samples, Team};

/// Both are measured this often, in turn.
const REPETITIONS: u64 = 21;

pub(crate) struct CInterface;

impl Bench for CInterface {
    fn name(&self) -> &'static str {
        "c-interface"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a put between two ports of a process, in C and in Rust in turn"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() > 1 || options.memory == Memory::Gpu {
            let why = "both interfaces are measured in one process over host memory: leave --fabric and --memory out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = options.sizes_or(&[8], 1..=MAX_PUT, 1)?;
        let mut report = task.report();
        report.nodes = 1;
        report.settings.insert("path", "card".into());
        report.settings.insert("repetitions", REPETITIONS.into());
        report.notes.push(format!("{REPETITIONS} runs of each in turn; two ports of one node, one thread"));
        progress.begin(self.name(), sizes.len() as u64 * REPETITIONS);
        for bytes in sizes {
            measure(options, bytes, &mut report, progress)?;
        }
        Ok(report)
    }
}

/// One end of a ping-pong.
trait End {
    fn put(&self, at: usize, bytes: usize) -> Result<(), BenchError>;
    fn consume(&self, options: &Options) -> Result<(), BenchError>;
    fn arrived(&self, layout: Layout) -> Result<Vec<u8>, BenchError>;
}

impl End for CEnd {
    #[inline]
    fn put(&self, at: usize, bytes: usize) -> Result<(), BenchError> {
        self.put(at, bytes)
    }

    #[inline]
    fn consume(&self, _: &Options) -> Result<(), BenchError> {
        self.consume()
    }

    fn arrived(&self, layout: Layout) -> Result<Vec<u8>, BenchError> {
        Ok(self.read(layout.arrival(), layout.bytes))
    }
}

struct RustEnd {
    port: Port,
    payload: Payload,
    connection: Connection,
    target: u64,
}

impl End for RustEnd {
    #[inline]
    fn put(&self, at: usize, bytes: usize) -> Result<(), BenchError> {
        let posted = self.connection.put(&self.payload.region, at, bytes, self.target, Spec::COMPLETER);
        posted.doing("posting a put")
    }

    #[inline]
    fn consume(&self, options: &Options) -> Result<(), BenchError> {
        let notification = self.port.wait(options.timeout).doing("waiting for a notification")?;
        if notification.error().is_empty() {
            return Ok(());
        }
        Err(BenchError::Refused(format!("{notification:?}")))
    }

    fn arrived(&self, layout: Layout) -> Result<Vec<u8>, BenchError> {
        self.payload.read(layout.arrival(), layout.bytes)
    }
}

/// Two ports of a node as librma2 has one: of the default configuration.
fn rust_ends(layout: Layout, data: &RoundData) -> Result<[RustEnd; 2], BenchError> {
    let cluster = Cluster::builder().nodes(1).locked_memory(LockedMemory::Unlimited).build();
    let node = cluster.and_then(|cluster| cluster.node(0).cloned()).doing("starting a node")?;
    let open = || -> Result<_, BenchError> {
        let port = node.open_port(PortConfig::default()).doing("opening a port")?;
        let payload = Payload::host(&port, layout.len())?;
        data.lay_out(&payload, layout)?;
        Ok((port, payload))
    };
    let (a, b) = (open()?, open()?);
    let targets = [b.1.nla(layout.arrival())?, a.1.nla(layout.arrival())?];
    let connections = [a.0.connect(b.0.address()), b.0.connect(a.0.address())];
    let mut ends = [a, b]
        .into_iter()
        .zip(connections)
        .zip(targets)
        .map(|(((port, payload), connection), target)| RustEnd { port, payload, connection, target });
    let missing = || BenchError::Unsupported("two ports make two ends".to_owned());
    Ok([ends.next().ok_or_else(missing)?, ends.next().ok_or_else(missing)?])
}

fn c_ends(layout: Layout, data: &RoundData) -> Result<[CEnd; 2], BenchError> {
    let [mut a, mut b] = [CEnd::open(layout.len())?, CEnd::open(layout.len())?];
    for end in [&a, &b] {
        for round in 0..2 {
            end.write(layout.source(round), &data.of(round));
        }
        end.write(layout.arrival(), data.poison());
    }
    a.connect(&b, layout.arrival())?;
    b.connect(&a, layout.arrival())?;
    Ok([a, b])
}

/// Round trips; checks what both ends hold after the last.
fn pingpong<E: End>(
    [ping, pong]: &[E; 2],
    layout: Layout,
    data: &RoundData,
    iterations: u64,
    options: &Options,
) -> Result<(Samples, Check), BenchError> {
    let samples = time_calls(iterations, |round| {
        ping.put(layout.source(round), layout.bytes)?;
        pong.consume(options)?;
        pong.put(layout.arrival(), layout.bytes)?;
        ping.consume(options)
    })?;
    let mut check = Check::default();
    for (end, what) in [(ping, "what came back"), (pong, "what arrived")] {
        check.bytes(what, &data.of(calls(iterations) - 1), &end.arrived(layout)?);
    }
    Ok((samples.halved(), check))
}

fn measure(
    options: &Options,
    bytes: u64,
    report: &mut Report,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let iterations = options.iterations.unwrap_or(super::iterations_for(20_000, bytes));
    let (rust_ends, c_ends) = (rust_ends(layout, &data)?, c_ends(layout, &data)?);
    let (mut rust, mut c, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rust_check, mut c_check) = (Check::default(), Check::default());
    for repetition in 1..=REPETITIONS {
        progress.now(format!("{bytes} bytes, {repetition} of {REPETITIONS}"));
        let (below, check) = pingpong(&rust_ends, layout, &data, iterations, options)?;
        rust_check.merge(check);
        let (above, check) = pingpong(&c_ends, layout, &data, iterations, options)?;
        c_check.merge(check);
        ratios.push(above.latency().median / below.latency().median.max(1e-9));
        rust.push(below);
        c.push(above);
        progress.step();
    }
    let ratios = Samples::new(ratios.iter().map(|ratio| ratio * 1e3).collect(), 1).latency();
    report.push(Row::new(&Samples::merged(&rust)).method("rust").bytes(bytes), rust_check);
    let row = Row::new(&Samples::merged(&c)).method("c").bytes(bytes);
    report.push(row.with("ratio", ratios.median), c_check);
    Ok(())
}
