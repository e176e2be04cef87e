//! Adapters of a process, the wire between them and to those of other processes; who runs them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use extoll_sim::memory::Memory;
use ggas_clock::{Backoff, Clock, Ladder};

use crate::adapter::{Hca, HcaError};
use crate::formats::Format;
use crate::links::{ADAPTERS, Links, Seat};
use crate::queues::Front;
use crate::transport::Nanos;
use crate::wire::{Flow, Packet, decode, encode};

/// How packets go from one adapter of a process to another of the same process. To those of other processes datagrams go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As they are.
    #[default]
    Packets,
    /// As datagrams, with their ICRC: as between hosts.
    Datagrams,
}

/// Adapters of this process. Whoever calls [`step`](Network::step) runs them: a thread of the network's own, or whoever waits. Where
/// other processes reach them and nobody calls it, nobody answers: [`start`](Network::start) a thread.
pub struct Network {
    /// Number of the process.
    process: u32,
    state: Mutex<State>,
    doorbells: Mutex<Vec<(usize, u32)>>,
    rung: AtomicBool,
    memory: Arc<dyn Memory>,
    clock: Clock,
}

struct State {
    fronts: Vec<Front>,
    wire: Wire,
    process: u32,
    links: Option<Links>,
    /// What has come from other processes.
    arrived: Vec<(Seat, Flow, Packet)>,
    doorbells: Vec<(usize, u32)>,
    bytes: Vec<u8>,
    /// Adapters with something to send.
    busy: VecDeque<usize>,
}

/// Packets that are moved before others get a turn.
const BURST: usize = 256;

impl Network {
    /// No adapters yet. They reach `memory` and go by `clock`.
    pub fn new(memory: Arc<dyn Memory>, clock: Clock, wire: Wire) -> Arc<Network> {
        Network::with_links(memory, clock, wire, None)
    }

    /// As [`new`](Network::new), with ways to adapters of other processes, whose networks have other numbers.
    pub fn across(memory: Arc<dyn Memory>, clock: Clock, wire: Wire, links: Links) -> Arc<Network> {
        Network::with_links(memory, clock, wire, Some(links))
    }

    fn with_links(memory: Arc<dyn Memory>, clock: Clock, wire: Wire, links: Option<Links>) -> Arc<Network> {
        let process = links.as_ref().map_or(0, Links::process);
        let state = State {
            fronts: Vec::new(),
            wire,
            process,
            links,
            arrived: Vec::new(),
            doorbells: Vec::new(),
            bytes: Vec::new(),
            busy: VecDeque::new(),
        };
        Arc::new(Network {
            process,
            state: Mutex::new(state),
            doorbells: Mutex::default(),
            rung: AtomicBool::new(false),
            memory,
            clock,
        })
    }

    /// A new adapter; returns its number.
    ///
    /// # Errors
    /// [`HcaError::Adapters`] where the process has as many as there are addresses.
    pub fn add(&self, format: Format) -> Result<usize, HcaError> {
        let mut state = self.lock();
        let number = state.fronts.len();
        if number >= ADAPTERS {
            return Err(HcaError::Adapters(ADAPTERS));
        }
        let hca = Hca::new(self.memory.clone());
        state.fronts.push(Front::new(hca, format));
        Ok(number)
    }

    /// The address of an adapter of this process, which tells its process too.
    pub fn address(&self, number: usize) -> IpAddr {
        Seat { process: self.process, number }.address()
    }

    /// The way between two adapters of this process.
    pub fn flow(&self, from: usize, to: usize) -> Flow {
        Flow::new(self.address(from), self.address(to), 0xc000)
    }

    /// Calls an adapter; `None`: there is no such one.
    pub fn with<R>(&self, number: usize, work: impl FnOnce(&mut Front) -> R) -> Option<R> {
        let mut state = self.lock();
        let result = state.fronts.get_mut(number).map(work);
        if !state.busy.contains(&number) {
            state.busy.push_back(number);
        }
        self.rung.store(true, Ordering::Release);
        result
    }

    /// The doorbell of a queue pair rings. Does not wait for what adapters do.
    pub fn ring(&self, number: usize, qp: u32) {
        self.doorbells.lock().unwrap_or_else(PoisonError::into_inner).push((number, qp));
        self.rung.store(true, Ordering::Release);
    }

    /// Nanoseconds of the network's clock.
    fn now(&self) -> Nanos {
        self.clock.since(self.clock.origin()).as_nanos() as Nanos
    }

    /// Runs the adapters until nothing moves, or for a while. Whether anything did. Returns at once where another thread does.
    pub fn step(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            // Who called an adapter has panicked: the others go on.
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut moved = state.exchange();
        let rung = self.rung.swap(false, Ordering::Acquire);
        let due =
            || state.fronts.iter().any(|front| front.hca.next_deadline().is_some() || front.has_failed());
        if !rung && !moved && state.busy.is_empty() && !due() {
            return false;
        }
        // One look at what memory there is serves all of the step's accesses.
        self.memory.session(&mut || {
            if rung {
                moved |= self.take_doorbells(&mut state);
            }
            moved |= state.run(self.now());
        });
        moved
    }

    /// Has adapters fetch the requests behind doorbells that rang. Whether there were any.
    fn take_doorbells(&self, state: &mut State) -> bool {
        let State { doorbells, fronts, busy, .. } = state;
        std::mem::swap(doorbells, &mut *self.doorbells.lock().unwrap_or_else(PoisonError::into_inner));
        let mut fetched = false;
        for (number, qp) in doorbells.drain(..) {
            if let Some(front) = fronts.get_mut(number) {
                front.ring(qp);
                fetched |= front.fetch();
                busy.push_back(number);
            }
        }
        fetched
    }

    /// A thread that runs the adapters until the guard is dropped: it spins, then yields, then sleeps.
    ///
    /// # Errors
    /// The system's, where it gives no thread.
    pub fn start(self: &Arc<Network>) -> std::io::Result<Driver> {
        let over = Arc::new(AtomicBool::new(false));
        let (network, stop) = (self.clone(), over.clone());
        let run = move || {
            let new = || Backoff::endless(Ladder::DEVICE, Clock::REAL);
            let mut backoff = new();
            while !stop.load(Ordering::Acquire) {
                if network.step() {
                    backoff = new();
                } else {
                    // Endless: it has no end to report.
                    let _ = backoff.pause();
                }
            }
        };
        let thread = std::thread::Builder::new().name("hca".to_owned()).spawn(run)?;
        Ok(Driver { over, thread: Some(thread) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks at the ways to other processes. Whether anything moved there.
    fn exchange(&mut self) -> bool {
        self.links.as_mut().is_some_and(|links| links.exchange(&mut self.arrived))
    }

    fn run(&mut self, now: Nanos) -> bool {
        let mut moved = false;
        let mut arrived = std::mem::take(&mut self.arrived);
        for (to, flow, packet) in arrived.drain(..) {
            self.hand_over(to.number, &flow, &packet, now);
        }
        self.arrived = arrived;
        for (number, front) in self.fronts.iter_mut().enumerate() {
            if front.hca.next_deadline().is_some_and(|at| at <= now) {
                front.hca.timers(now);
                self.busy.push_back(number);
            }
        }
        let mut left = BURST;
        while let Some(number) = self.busy.pop_front() {
            while left > 0
                && let Some(front) = self.fronts.get_mut(number)
                && front.hca.has_to_send()
                && let Some((flow, packet)) = front.hca.transmit(now)
            {
                moved = true;
                left -= 1;
                self.deliver(number, &flow, packet, now);
            }
            if left == 0 {
                self.busy.push_front(number);
                break;
            }
        }
        for front in &mut self.fronts {
            moved |= front.flush_receives();
        }
        moved
    }

    /// Hands a packet of adapter `from` to whom it is for.
    fn deliver(&mut self, from: usize, flow: &Flow, packet: Packet, now: Nanos) {
        match Seat::of(flow.destination) {
            Some(to) if to.process == self.process => match self.wire {
                Wire::Packets => self.hand_over(to.number, flow, &packet, now),
                Wire::Datagrams => {
                    if self.encode(flow, &packet)
                        && let Ok((flow, received)) = decode(&self.bytes)
                    {
                        self.hand_over(to.number, &flow, &received, now);
                    }
                }
            },
            Some(to) => {
                if self.encode(flow, &packet)
                    && let Some(links) = &mut self.links
                {
                    links.send(to.process, &self.bytes);
                }
            }
            None => {}
        }
        if let Some(front) = self.fronts.get_mut(from) {
            front.hca.reuse(packet);
        }
    }

    /// Makes a packet the datagram in `bytes`; whether it can be one.
    fn encode(&mut self, flow: &Flow, packet: &Packet) -> bool {
        self.bytes.clear();
        encode(flow, packet, &mut self.bytes).is_ok()
    }

    fn hand_over(&mut self, to: usize, flow: &Flow, packet: &Packet, now: Nanos) {
        let Some(front) = self.fronts.get_mut(to) else { return };
        let opcode = packet.bth.opcode;
        if opcode.is_send() || opcode.has_immediate() {
            front.fetch_receives(packet.bth.destination);
        }
        front.hca.receive(flow, packet, now);
        if front.hca.has_to_send() && self.busy.back() != Some(&to) {
            self.busy.push_back(to);
        }
    }
}

/// Runs a network's adapters; ends with the guard.
pub struct Driver {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
