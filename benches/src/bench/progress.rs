//! `progress`: puts into private memory of a process that only computes and never calls the library.

use std::time::{Duration, Instant};

use ggas::{Connection, HostBuffer, Port, Region, Spec};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::ends::Place;
use crate::error::Doing;
use crate::payload::{Layout, MAX_PUT, Payload, RoundData};
use crate::setup::{Setup, Worker};
use crate::team::Task;
use crate::{Bench, BenchError, Check, Memory, Options, Progress as Bar, Report, Row, Samples, Team};

/// How far apart puts begin.
const METHODS: &[(&str, Duration)] = &[
    ("every-10ms", Duration::from_millis(10)),
    ("every-1ms", Duration::from_millis(1)),
    ("every-100us", Duration::from_micros(100)),
    ("back-to-back", Duration::ZERO),
];

/// Puts go on for this long.
const TRAFFIC: Duration = Duration::from_secs(2);

/// What computing and waiting without traffic is measured for.
const QUIET: Duration = Duration::from_millis(500);

pub(crate) struct Progress;

impl Bench for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn about(&self) -> &'static str {
        "puts into private memory of a process that only computes, and what they cost it"
    }

    fn is_of_two_nodes(&self) -> bool {
        true
    }

    fn methods(&self) -> &'static [&'static str] {
        &["every-10ms", "every-1ms", "every-100us", "back-to-back"]
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Bar) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        if team.size() < 2 || options.memory == Memory::Gpu {
            let why = "progress needs a process that computes: use --fabric process --memory host";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        let sizes = options.sizes_or(&[8, 65_536], 8..=MAX_PUT, 8)?;
        let mut report = task.report();
        let methods: Vec<_> = METHODS.iter().filter(|(name, _)| options.wants(name)).collect();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for &bytes in &sizes {
            for (method, apart) in &methods {
                progress.now(format!("{method}, {bytes} bytes"));
                let (row, check) = measure(task, *apart, bytes)?;
                report.push(row.method(method).bytes(bytes), check);
                progress.step();
            }
        }
        Ok(report)
    }
}

/// Shares of wall time in the computing process.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Cost {
    /// Processor time of its other threads: while its thread sleeps, computes, computes with traffic.
    helpers: [f64; 3],
    /// Processor time of the thread that computes, with traffic.
    own: f64,
}

fn measure(task: Task, apart: Duration, bytes: u64) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(task, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(task.options.seed, 0, layout.bytes);
    let mut ends =
        setup.ends().map(|node| End::open(&setup, node, layout, &data)).collect::<Result<Vec<_>, _>>()?;
    let places = ends.iter().map(|end| Ok(Place::new(&end.port, end.payload.nla(layout.arrival())?)));
    let places = setup.share(places.collect::<Result<_, BenchError>>()?)?;
    let (mut samples, mut rounds, mut costs) = (None, 0, Vec::new());
    match (ends.pop(), &places[..]) {
        (Some(end), [_, target]) if end.node == 0 => {
            let origin = Origin::new(end, *target, layout)?;
            setup.share::<()>(Vec::new())?;
            spin_for(QUIET);
            setup.share::<()>(Vec::new())?;
            let (taken, sent) = origin.traffic(apart, &data, task.options)?;
            (samples, rounds) = (Some(taken), sent);
            // What arrived stays to be checked until the other process has looked.
            costs = setup.share(costs)?;
        }
        (Some(end), _) => {
            costs.push(end.compute(&setup, task.options.timeout)?);
            costs = setup.share(costs)?;
            ends.push(end);
        }
        _ => {
            setup.share::<()>(Vec::new())?;
            setup.share::<()>(Vec::new())?;
            costs = setup.share(costs)?;
        }
    }
    let rounds = setup.share(vec![rounds])?.into_iter().max().unwrap_or(0);
    let mut check = Check::default();
    for end in ends.iter().filter(|end| end.node == 1) {
        check = data.check(end.node, &end.payload, layout, rounds)?;
    }
    let (samples, check) = setup.collect(samples, check)?;
    let Cost { helpers, own } = costs.first().copied().unwrap_or_default();
    let [asleep, computing, loaded] = helpers.map(|share| 100.0 * share);
    let mut row = Row::new(&samples);
    row.rate_per_s = Some(samples.len() as f64 / TRAFFIC.as_secs_f64());
    let row = row
        .with("helper_cpu_asleep_percent", asleep)
        .with("helper_cpu_computing_percent", computing)
        .with("helper_cpu_loaded_percent", loaded)
        .with("taken_percent", 100.0 * helpers[2] / (helpers[2] + own).max(1e-9));
    Ok((row, check))
}

/// A node's port and buffer in private memory: two sources, a place of arrival, and behind it a word that ends the
/// computing.
struct End {
    node: u32,
    port: Port,
    payload: Payload,
    stop: usize,
}

impl End {
    fn open(setup: &Setup, node: u32, layout: Layout, data: &RoundData) -> Result<Self, BenchError> {
        let port = setup.open_port(node)?;
        let payload = Payload::private(&port, layout.len() + 64)?;
        data.lay_out(&payload, layout)?;
        Ok(Self { node, port, payload, stop: layout.len() })
    }

    /// Computes without traffic, then with it until the other end says stop. Only ordinary loads of this process's
    /// own memory look for that.
    fn compute(&self, setup: &Setup, timeout: Duration) -> Result<Cost, BenchError> {
        let stopped = || self.payload.region.load_u64(self.stop).is_ok_and(|word| word != 0);
        let asleep = shares(|| std::thread::sleep(QUIET))?;
        setup.share::<()>(Vec::new())?;
        let computing = shares(|| work_until(|elapsed| elapsed > QUIET))?;
        setup.share::<()>(Vec::new())?;
        let loaded = shares(|| work_until(|elapsed| stopped() || elapsed > TRAFFIC * 3 + timeout))?;
        let helpers = [asleep, computing, loaded].map(|(helpers, _)| helpers);
        Ok(Cost { helpers, own: loaded.1 })
    }
}

/// Computes until `end`, which gets the time since the beginning.
fn work_until(end: impl Fn(Duration) -> bool) {
    let begun = Instant::now();
    let mut state = 1_u64;
    while !end(begun.elapsed()) {
        for _ in 0..500 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        state = std::hint::black_box(state);
    }
}

/// Processor time that the other threads of this process and this one use during `action`, over its wall time.
fn shares(action: impl FnOnce()) -> Result<(f64, f64), BenchError> {
    let used = || -> Result<[Duration; 2], BenchError> {
        let time = |clock| clock_gettime(clock).map(Duration::from).doing("reading the processor time used");
        let own = time(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        Ok([time(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(own), own])
    };
    let (before, begun) = (used()?, Instant::now());
    action();
    let (after, wall) = (used()?, begun.elapsed().as_secs_f64());
    let share = |i: usize| after[i].saturating_sub(before[i]).as_secs_f64() / wall;
    Ok((share(0), share(1)))
}

/// Keeps a core as busy as the traffic will: cores may share a pipeline.
fn spin_for(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The end that puts.
struct Origin {
    end: End,
    connection: Connection,
    layout: Layout,
    target: u64,
    /// Where a get brings back the last word put.
    back: Region,
}

impl Origin {
    fn new(end: End, target: Place, layout: Layout) -> Result<Self, BenchError> {
        let connection = end.port.connect(target.address());
        let back = HostBuffer::zeroed(64).doing("allocating host memory")?;
        let back = end.port.register(back).doing("registering a word")?;
        Ok(Self { end, connection, layout, target: target.nla, back })
    }

    /// Puts that begin `apart` from each other. A sample ends when a get behind the put brings back its last word.
    fn traffic(
        &self,
        apart: Duration,
        data: &RoundData,
        options: &Options,
    ) -> Result<(Samples, u64), BenchError> {
        let last = self.layout.bytes - 8;
        let words = [0, 1].map(|round| last_word(&data.of(round)));
        let begun = Instant::now();
        let mut samples = Vec::new();
        let mut due = Duration::ZERO;
        while begun.elapsed() < TRAFFIC && options.iterations.is_none_or(|most| (samples.len() as u64) < most)
        {
            spin_for(due.saturating_sub(begun.elapsed()));
            due = begun.elapsed() + apart;
            let round = samples.len() as u64;
            let posted = Instant::now();
            self.put(self.layout.source(round), self.layout.bytes, 0)?;
            while self.get(last as u64, options)? != words[(round % 2) as usize] {
                if posted.elapsed() > options.timeout {
                    return Err(BenchError::Refused(format!("put {round} was not seen to arrive")));
                }
            }
            samples.push(posted.elapsed().as_nanos() as f64);
        }
        // Any source is not zero. The word lies behind the place of arrival.
        self.put(self.layout.source(0), 8, (self.end.stop - self.layout.arrival()) as u64)?;
        let rounds = samples.len() as u64;
        Ok((Samples::new(samples, 1), rounds))
    }

    fn put(&self, at: usize, bytes: usize, to: u64) -> Result<(), BenchError> {
        let posted = self.connection.put(&self.end.payload.region, at, bytes, self.target + to, Spec::NONE);
        posted.doing("posting a put")
    }

    fn get(&self, from: u64, options: &Options) -> Result<u64, BenchError> {
        let posted = self.connection.get(&self.back, 0, 8, self.target + from, Spec::COMPLETER);
        posted.doing("posting a get")?;
        let notification = self.end.port.wait(options.timeout).doing("waiting for a get")?;
        if !notification.error().is_empty() {
            return Err(BenchError::Refused(format!("{notification:?}")));
        }
        self.back.load_u64(0).doing("reading a word")
    }
}

fn last_word(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}
