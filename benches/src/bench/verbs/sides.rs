//! Two adapters with connected queue pairs: what all benchmarks of verbs run on.

use std::sync::Arc;

use ggas::kernels::Processor;
use ggas_clock::Clock;
use ggas_kernels::IdleGuard;
use ggas_members::Job;
use ggas_verbs::{
    Access, Connect, Context, Cq, CqAttributes, Endpoint, Format, HostMemory, Mr, Network, Placement, Qp,
    QpAttributes, Reliability, RemoteRegion, VerbsError, Wire, network_across,
};

use crate::BenchError;
use crate::error::Doing;
use crate::setup::Setup;

/// A queue pair, and the completion queue of its requests.
pub(crate) struct Pair {
    pub qp: Qp,
    pub send: Cq,
}

/// An adapter with what it needs to reach the other one.
pub(crate) struct Side {
    pub pairs: Vec<Pair>,
    pub mr: Mr,
    pub context: Arc<Context>,
    _receive: Cq,
}

/// What sides are made with.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub format: Format,
    pub wire: Wire,
    pub placement: Placement,
    pub pairs: u32,
    /// Most requests of a queue pair that are under way.
    pub depth: u32,
    /// Registered on each side.
    pub bytes: usize,
}

impl Shape {
    /// One queue pair with queues of mlx4 in host memory, packets handed over as they are.
    pub fn new(bytes: usize) -> Shape {
        let (format, wire, placement) = (Format::Mlx4, Wire::Packets, Placement::Host);
        Shape { format, wire, placement, pairs: 1, depth: 64, bytes }
    }

    /// Both sides, on a network of their own.
    pub fn open(self, setup: &Setup) -> Result<[Side; 2], BenchError> {
        if setup.ends().len() != 2 {
            let why = "verbs have both ends in one process: leave --fabric out";
            return Err(BenchError::Unsupported(why.to_owned()));
        }
        self.connected(setup.processor(0)).doing("opening software HCAs")
    }

    /// This process's side of two, which is connected to the other process's; none in a third process. All processes of the job call it.
    pub fn across(self, setup: &Setup, job: &Job) -> Result<Option<(Side, RemoteRegion)>, BenchError> {
        const DOING: &str = "opening software HCAs of two processes";
        let memory = HostMemory::new();
        let network = network_across(job, &memory, Clock::real(), setup.options.timeout).doing(DOING)?;
        let side = match setup.ends().next() {
            Some(node) => Some(self.side(&network, &memory, setup.processor(node)).doing(DOING)?),
            None => None,
        };
        let own = side.iter().map(Side::told).collect();
        let told: Vec<(Vec<u8>, Vec<Vec<u8>>)> = setup.share(own)?;
        let (Some(side), Some(node)) = (side, setup.ends().next()) else {
            setup.share(Vec::<()>::new())?;
            return Ok(None);
        };
        let (region, endpoints) = &told[1 - node as usize];
        // Nobody runs a side's adapter while it measures something else, which is no loss.
        let reliability = Reliability { timeout: 22, ..Reliability::default() };
        for (pair, endpoint) in side.pairs.iter().zip(endpoints) {
            let peer = Endpoint::from_bytes(endpoint).doing(DOING)?;
            pair.qp.connect(&peer, Connect { reliability, ..Connect::default() }).doing(DOING)?;
        }
        let remote = RemoteRegion::from_bytes(region).doing(DOING)?;
        // Who writes first meets a queue pair that is connected.
        setup.share(vec![()])?;
        Ok(Some((side, remote)))
    }

    fn connected(self, processor: &Processor) -> Result<[Side; 2], VerbsError> {
        let memory = HostMemory::new();
        let network = Network::new(memory.clone(), Clock::real(), self.wire);
        let one = || self.side(&network, &memory, processor);
        let sides = [one()?, one()?];
        let [first, second] = &sides;
        for (mine, theirs) in first.pairs.iter().zip(&second.pairs) {
            mine.qp.connect(&theirs.qp.endpoint(), Connect::default())?;
            theirs.qp.connect(&mine.qp.endpoint(), Connect::default())?;
        }
        Ok(sides)
    }

    fn side(
        self,
        network: &Arc<Network>,
        memory: &Arc<HostMemory>,
        processor: &Processor,
    ) -> Result<Side, VerbsError> {
        let Shape { placement, depth, .. } = self;
        let context = Context::open(network, memory, processor, self.format)?;
        let pd = context.pd();
        let queue = CqAttributes { entries: depth, placement };
        let receive = context.cq(queue)?;
        let pair = |_| {
            let send = context.cq(queue)?;
            let attributes = QpAttributes { sends: depth, placement, ..QpAttributes::default() };
            Ok(Pair { qp: pd.qp(attributes, &send, &receive)?, send })
        };
        let pairs = (0..self.pairs).map(pair).collect::<Result<_, VerbsError>>()?;
        let mr = pd.register(processor.alloc(self.bytes)?.into(), Access::ALL)?;
        Ok(Side { pairs, mr, context, _receive: receive })
    }
}

impl Side {
    /// What the other side needs: the region, and each queue pair's endpoint.
    fn told(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let endpoint = |pair: &Pair| pair.qp.endpoint().to_bytes().to_vec();
        (self.mr.remote().to_bytes().to_vec(), self.pairs.iter().map(endpoint).collect())
    }

    /// The network of both sides.
    pub fn network(&self) -> &Arc<Network> {
        self.context.network()
    }

    /// Has the executor run the adapters while its threads have nothing else to do.
    pub fn run_when_idle(&self, processor: &Processor) -> Option<IdleGuard> {
        let network = self.network().clone();
        processor.on_idle(Clock::REAL, move || network.step())
    }
}
