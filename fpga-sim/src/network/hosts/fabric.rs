//! The fabric of a process that is a node of a network of hosts.

use std::net::{IpAddr, TcpListener};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use extoll_abi::Address;
use ggas_clock::{Backoff, Clock};
use ggas_members::{HostsOfJob, quiet};
use ggas_wire::choose;
use nix::sys::resource::{Resource, getrlimit};

use super::complaints::Complaints;
use super::core::{Core, Counts};
use super::error::HostsError;
use super::events::{Bounds, End};
use super::file::{HostsFile, SILENCE};
use super::known::Known;
use super::lines::Lines;
use super::lobby;
use super::meeting::{Meetings, UNKNOWN_MAX};
use super::message::payload_of;
use super::places::Places;
use super::seen::Seen;
use super::shared::Shared;
use super::sleep;
use super::wire::Wire;
use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, Fabric, FabricError, First, Pending};
use crate::packet::{Class, Packet};
use crate::short_put::ShortPut;
use crate::wake::Wake;
use ggas_members::meeting::random;

/// How long leaving may take where others do not answer.
const LEAVE: Duration = Duration::from_secs(1);

/// Strangers that may keep a connection while they say nothing, and callers with a pass that have not said who they are: they
/// leave most descriptors to others.
fn unknown_max() -> usize {
    let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(most, _)| most);
    usize::try_from(most / 8).unwrap_or(UNKNOWN_MAX).clamp(1, UNKNOWN_MAX)
}

/// A process's end of a network of hosts: its one node.
pub struct HostsFabric {
    shared: Arc<Shared>,
    places: Places,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A fork's copy stops nothing.
    process: u32,
}

impl HostsFabric {
    /// Takes part as `node` of the network that a file describes, over the wire that
    /// [`choose`] says. Waits for nobody: a node is
    /// met when a packet first goes there.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn join(file: &HostsFile, node: u16) -> Result<Arc<HostsFabric>, HostsError> {
        let nodes = file.nodes.len();
        let Some(place) = file.nodes.get(usize::from(node)) else {
            return Err(HostsError::NoSuchNode { path: file.path.clone(), node, last: nodes - 1 });
        };
        let listen = |source| HostsError::Listen { node, place: place.clone(), source };
        let listener = TcpListener::bind(place.as_str()).map_err(listen)?;
        // The others reach this host there; of a host with several networks the library might take another.
        let host = listener.local_addr().ok().map(|at| at.ip()).filter(|host| !host.is_unspecified());
        let places = Places::alone(nodes);
        let met_at = ("node", file.nodes.clone());
        HostsFabric::start((node, places), met_at, (file.secret, Vec::new()), listener, host, file.silence)
    }

    /// Takes part in a job over hosts.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn of_job(hosts: HostsOfJob) -> Result<Arc<HostsFabric>, HostsError> {
        let HostsOfJob { rank, shape, listener, places, address, secret, processes, hub } = hosts;
        let me = (rank as u16, Places::of_job(shape));
        let fabric =
            HostsFabric::start(me, ("rank", places), (secret, processes), listener, Some(address), SILENCE)?;
        let hears = Arc::downgrade(&fabric.shared);
        hub.listen(move |news| {
            if let Some(shared) = hears.upgrade() {
                shared.with_core(|core| core.hear_hub(news));
                shared.lobby.tell(); // something may be due
            }
        });
        // Where rank 0 is gone, that is heard, too.
        if let Err(error) = hub.publish(&fabric.shared.with_core(|core| core.papers())) {
            tracing::debug!("the others do not hear how this rank is reached: {error}");
        }
        Ok(fabric)
    }

    fn start(
        (me, places): (u16, Places),
        (who, met_at): (&'static str, Vec<String>),
        (secret, known): ([u8; 16], Vec<u64>),
        listener: TcpListener,
        host: Option<IpAddr>,
        silence: Duration,
    ) -> Result<Arc<HostsFabric>, HostsError> {
        let (choice, processes) = (choose()?, places.processes());
        listener.set_nonblocking(true)?;
        let complaints = Arc::<Complaints>::default();
        let endpoint = Lines::open(&choice, host, &complaints)?;
        let (seen, bounds, clock) = (Seen::new(processes), Bounds::of(silence), Clock::real());
        let wire = (choice.speaks(), endpoint.address()?);
        let most = payload_of(endpoint.message_max()) as u32;
        let process = known.get(usize::from(me)).copied().map_or_else(random, Ok)?;
        let mut meetings =
            Meetings::new((me, processes), process, wire, bounds, Box::new(random), clock.now());
        meetings.job = who == "rank";
        meetings.known = meetings.job.then(|| Known::new(secret, me, known));
        meetings.unknown_max = unknown_max();
        let core = Core::new(endpoint, meetings, places, clock, &seen);
        let (me, own) = ((me, who), (core, seen));
        let carries = ((choice.speaks(), choice.library.ports()), choice.gpu.is_direct(), most);
        let shared = Arc::new(Shared::new(me, (secret, met_at), bounds, carries, complaints, own)?);
        let fabric = HostsFabric { shared, places, threads: Mutex::default(), process: std::process::id() };
        let (attends, sleeps) = (fabric.shared.clone(), fabric.shared.clone());
        let threads = [
            quiet::spawn("ggas-lobby", move || lobby::attend(&attends, &listener))?,
            quiet::spawn("ggas-wire", move || sleep::serve(&sleeps))?,
        ];
        fabric.threads.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        Ok(Arc::new(fabric))
    }

    /// Ends the threads. Once: later there are none.
    fn leave(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() || self.process != std::process::id() {
            std::mem::forget(threads);
            return;
        }
        // What was posted last may wait for the wire to move, and others have to say that they have it.
        self.shared.with_core(Core::leave);
        let mut backoff = Backoff::new(Clock::REAL, LEAVE);
        while !self.shared.with_core(|core| core.has_left()) {
            self.shared.pump();
            if backoff.pause().is_err() {
                break;
            }
        }
        self.shared.stop();
        // The last handle of a card may go on such a thread.
        for thread in threads.into_iter().filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.shared.with_core(Core::close);
    }

    /// This process's node.
    pub fn node(&self) -> u16 {
        self.places.node(self.shared.me)
    }

    /// Nodes of the network.
    pub fn nodes(&self) -> usize {
        usize::from(self.places.node(self.places.processes() as u16 - 1)) + 1
    }

    /// Packets that were thrown away, for nobody was at their node, or that a process had not said to have taken when it went; messages that came from nobody who was met; messages of
    /// peers that broke the rules.
    pub fn counts(&self) -> (u64, u64, u64) {
        let Counts { thrown_away, foreign, malformed } = self.shared.with_core(|core| core.counts);
        (thrown_away, foreign, malformed)
    }
}

impl HostsFabric {
    /// Moves whenever a process that was met is found to have left or to be lost, so that whoever depends on one need not
    /// look at states while nothing happens.
    pub fn departures(&self) -> &Arc<AtomicU32> {
        self.shared.seen.departures()
    }

    /// The process that serves an address, if there is one.
    pub fn process_of(&self, at: Address) -> Option<u16> {
        Some(self.places.process(at)).filter(|process| usize::from(*process) < self.places.processes())
    }

    /// How the last process ended that was met where this VPID of a node is served, or anywhere on the node, and its number; `None`
    /// while it, or one of them, lives, or where none was. Who comes there next is looked for.
    pub fn end_of(&self, node: u16, vpid: Option<u8>) -> Option<(u16, End)> {
        let end_of = |process: u16| Some((process, self.shared.seen.end(process)?));
        let on = self.places.on(node);
        let (first, end) = match vpid {
            Some(vpid) => end_of(self.places.process(Address::new(node, vpid)))?,
            None => {
                let ends = on.map(end_of).collect::<Option<Vec<_>>>()?;
                // A death explains more.
                ends.iter().copied().find(|(_, end)| *end == End::Lost).or_else(|| ends.first().copied())?
            }
        };
        self.shared.with_core(|core| core.expect(first));
        Some((first, end))
    }

    /// Has `told` called on a thread of the network, once for each process that was met and is found to be lost. It must not wait.
    /// The first call counts.
    pub fn on_loss(&self, told: impl Fn(u16) + Send + Sync + 'static) {
        self.shared.on_loss(Box::new(told));
    }

    /// The card goes, and what has come for it is dropped. The process stays, and may have another card: others hear nothing.
    pub fn detach_card(&self) {
        self.shared.detach();
        self.shared.with_core(Core::clear_own);
        while [Class::Request, Class::Response].into_iter().any(|class| self.shared.take(class).is_some()) {}
    }

    /// Whether the card has taken all packets that have come.
    pub fn drained(&self) -> bool {
        !self.shared.seen.has_arrivals()
    }
}

impl Fabric for HostsFabric {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        self.shared.send(packet)
    }

    fn send_read(
        &self,
        _from: u16,
        packet: Packet,
        read: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), Packet> {
        self.shared.send_read(packet, read)
    }

    fn sends_short(&self, _to: Address) -> bool {
        true
    }

    fn send_short(&self, put: &ShortPut, bytes: &[u8]) -> bool {
        self.shared.send_short(put, bytes)
    }

    #[inline]
    fn process_at(&self, to: Address) -> u32 {
        self.shared.process_at(self.places.process(to))
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        self.shared.take(class)
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        self.shared.carriage(self.places.process(to), runs)
    }

    fn polled(&self) -> bool {
        true
    }

    fn rest(&self, _node: u16) {
        self.shared.rest_card();
    }

    fn pending(&self, _node: u16, first: &mut dyn First) -> Pending {
        self.shared.pending(first)
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        if node != self.node() {
            return Err(FabricError::NoSuchNode { node, nodes: self.nodes() });
        }
        if !self.shared.attach(wake) {
            return Err(FabricError::Taken { node });
        }
        Ok(())
    }

    /// The process leaves: its place is free when this returns.
    fn detach(&self, _node: u16) {
        self.shared.detach();
        self.leave();
        self.shared.with_core(Core::clear_own);
    }
}

impl Drop for HostsFabric {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
