//! The two ends of a transfer: nodes 0 and 1. This process holds both or one of them, or neither.

use crate::args::bench_peer;
use ggas::{Address, Connection, KernelPort, Lock, Notification, Port, PortBase, Spec};
use serde::{Deserialize, Serialize};

use crate::error::Doing;
use crate::kernel::{self, Probe};
use crate::payload::{Layout, Payload, RoundData};
use crate::setup::Setup;
use crate::{BenchError, Options};

/// Memory of a port, as other nodes name it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Place {
    node: u16,
    vpid: u8,
    pub nla: u64,
}

impl Place {
    /// Registered memory of `port` at `nla`.
    pub fn new(port: &PortBase, nla: u64) -> Self {
        let Address { node, vpid } = port.address();
        Self { node, vpid, nla }
    }

    /// Its port.
    pub fn address(&self) -> Address {
        Address { node: self.node, vpid: self.vpid }
    }

    /// How kernels address it.
    pub fn peer(&self) -> bench_peer {
        bench_peer { target: self.nla, node: self.node.into(), vpid: self.vpid.into() }
    }
}

/// The place of the other end.
fn other(places: &[Place], node: u32) -> Result<Place, BenchError> {
    let missing = || BenchError::Unsupported("a transfer needs two nodes".to_owned());
    places.get(1 - node as usize).copied().ok_or_else(missing)
}

/// An end driven by the host.
pub(crate) struct HostEnd {
    pub node: u32,
    pub port: Port,
    pub payload: Payload,
    connection: Connection,
    /// NLA of the place of arrival at the other end.
    target: u64,
}

/// Opens ports on nodes 0 and 1, registers their buffers and connects them.
pub(crate) fn host_ends(setup: &Setup, layout: Layout, data: &RoundData) -> Result<Vec<HostEnd>, BenchError> {
    host_ends_with(setup, layout, data, |node, port| Payload::new(setup, node, port, layout.len()))
}

/// The same with buffers made by `payload` for a node and its port.
pub(crate) fn host_ends_with(
    setup: &Setup,
    layout: Layout,
    data: &RoundData,
    payload: impl Fn(u32, &PortBase) -> Result<Payload, BenchError>,
) -> Result<Vec<HostEnd>, BenchError> {
    let mut open = Vec::new();
    let mut places = Vec::new();
    for node in setup.ends() {
        let port = setup.open_port(node)?;
        let payload = payload(node, &port)?;
        data.lay_out(&payload, layout)?;
        places.push(Place::new(&port, payload.nla(layout.arrival())?));
        open.push((node, port, payload));
    }
    let places = setup.share(places)?;
    let connect = |(node, port, payload): (u32, Port, Payload)| {
        let place = other(&places, node)?;
        let connection = port.connect(place.address());
        Ok(HostEnd { node, port, payload, connection, target: place.nla })
    };
    open.into_iter().map(connect).collect()
}

impl HostEnd {
    /// Posts a put of the `bytes` at offset `at` to byte `to` of where data arrive at the other end.
    #[inline]
    pub fn put(&self, at: usize, bytes: usize, to: u64, spec: Spec) -> Result<(), BenchError> {
        let posted = self.connection.put(&self.payload.region, at, bytes, self.target + to, spec);
        posted.doing("posting a put")
    }

    /// Posts a get of what the other end sends in round `round`, to where data arrive here.
    #[inline]
    pub fn get(&self, layout: Layout, round: u64, spec: Spec) -> Result<(), BenchError> {
        let remote = self.target - layout.arrival() as u64 + layout.source(round) as u64;
        let (region, at) = (&self.payload.region, layout.arrival());
        self.connection.get(region, at, layout.bytes, remote, spec).doing("posting a get")
    }

    /// Posts a lock operation at the other end's port.
    #[inline]
    pub fn lock(&self, lock: Lock) -> Result<(), BenchError> {
        self.connection.lock(lock, Spec::COMPLETER).doing("posting a lock operation")
    }

    /// Tells the other end that something is done.
    #[inline]
    pub fn tell(&self) -> Result<(), BenchError> {
        self.connection.notification_put(0, 0, Spec::COMPLETER).doing("posting a notification")
    }

    /// Consumes the next notification; one with an error bit is an error.
    #[inline]
    pub fn consume(&self, options: &Options) -> Result<(), BenchError> {
        self.next(options).map(drop)
    }

    /// The same, and gives it.
    #[inline]
    pub fn next(&self, options: &Options) -> Result<Notification, BenchError> {
        let notification = self.port.wait(options.timeout).doing("waiting for a notification")?;
        if notification.error().is_empty() { Ok(notification) } else { Err(refused(notification)) }
    }
}

#[cold]
fn refused(notification: Notification) -> BenchError {
    BenchError::Refused(format!("{notification:?}"))
}

/// An end driven by kernels.
pub(crate) struct KernelEnd {
    pub node: u32,
    pub payload: Payload,
    pub port: KernelPort,
    pub probe: Probe,
    /// The other end, and where data arrive there.
    pub peer: bench_peer,
    layout: Layout,
}

/// Opens ports on nodes 0 and 1 for kernels, with buffers and samples.
pub(crate) fn kernel_ends(
    setup: &Setup,
    layout: Layout,
    data: &RoundData,
    samples: u64,
) -> Result<Vec<KernelEnd>, BenchError> {
    let open = |node| KernelEnd::open(setup, node, layout, data, samples);
    let mut ends = setup.ends().map(open).collect::<Result<Vec<_>, _>>()?;
    let places = ends.iter().map(|end| Ok(Place::new(&end.port, end.arrival()?)));
    let places = setup.share(places.collect::<Result<_, BenchError>>()?)?;
    for end in &mut ends {
        end.peer = other(&places, end.node)?.peer();
    }
    Ok(ends)
}

impl KernelEnd {
    fn open(
        setup: &Setup,
        node: u32,
        layout: Layout,
        data: &RoundData,
        samples: u64,
    ) -> Result<Self, BenchError> {
        let processor = setup.processor(node);
        let port = setup.open_kernel_port(node)?;
        let payload = Payload::new(setup, node, &port, layout.len())?.for_kernels(processor)?;
        data.lay_out(&payload, layout)?;
        let probe = Probe::with_warm_up(processor, samples)?;
        Ok(Self { node, payload, port, probe, peer: bench_peer::default(), layout })
    }

    /// NLAs of what is sent in even and odd rounds.
    pub fn sources(&self) -> Result<[u64; 2], BenchError> {
        Ok([self.payload.nla(self.layout.source(0))?, self.payload.nla(self.layout.source(1))?])
    }

    /// NLA of where data arrive.
    pub fn arrival(&self) -> Result<u64, BenchError> {
        self.payload.nla(self.layout.arrival())
    }

    /// Where kernels see what arrives.
    pub fn arrival_address(&self) -> u64 {
        self.payload.address() + self.layout.arrival() as u64
    }
}

/// What an end runs.
pub(crate) struct Program<'a, T> {
    pub kernel: &'a str,
    pub blocks: u32,
    pub threads: u32,
    pub args: T,
}

/// Runs the programs of the ends here until all have come to their last round.
pub(crate) fn run<'a, T: Copy>(
    setup: &Setup,
    ends: &[KernelEnd],
    program: impl Fn(&KernelEnd) -> Result<Program<'a, T>, BenchError>,
) -> Result<(), BenchError> {
    let programs = ends.iter().map(program).collect::<Result<Vec<_>, _>>()?;
    let both = || ends.iter().zip(&programs);
    let launch = |(end, program): (&KernelEnd, &Program<'a, T>)| {
        let Program { kernel, blocks, threads, args } = program;
        kernel::launch(setup.processor(end.node), kernel, *blocks, *threads, args)
    };
    let launches: Vec<_> = both().map(launch).collect();
    let armed: Vec<_> = ends.iter().map(|end| end.port.arm()).collect();
    kernel::run(&launches, setup.options)?;
    drop(armed);
    both().try_for_each(|(end, program)| end.probe.finished(program.kernel, end.port.report()))
}
