//! Adapters of one process and the wire between them; who runs them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use extoll_sim::memory::Memory;
use ggas_clock::{Backoff, Clock, Ladder};

use crate::adapter::Hca;
use crate::formats::Format;
use crate::queues::Front;
use crate::transport::Nanos;
use crate::wire::{Flow, Packet, decode, encode};

/// How packets of a process go from one of its adapters to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As they are.
    #[default]
    Packets,
    /// As datagrams, with their ICRC: as between hosts.
    Datagrams,
}

/// Adapters of this process. Whoever calls [`step`](Network::step) runs them: a thread of the network's own, or whoever waits.
pub struct Network {
    state: Mutex<State>,
    doorbells: Mutex<Vec<(usize, u32)>>,
    rung: AtomicBool,
    memory: Arc<dyn Memory>,
    clock: Clock,
}

struct State {
    fronts: Vec<Front>,
    wire: Wire,
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
        let state = State {
            fronts: Vec::new(),
            wire,
            doorbells: Vec::new(),
            bytes: Vec::new(),
            busy: VecDeque::new(),
        };
        Arc::new(Network {
            state: Mutex::new(state),
            doorbells: Mutex::default(),
            rung: AtomicBool::new(false),
            memory,
            clock,
        })
    }

    /// A new adapter; returns its number.
    pub fn add(&self, format: Format) -> usize {
        let mut state = self.lock();
        let hca = Hca::new(self.memory.clone());
        state.fronts.push(Front::new(hca, format));
        state.fronts.len() - 1
    }

    /// The address of an adapter.
    pub fn address(number: usize) -> IpAddr {
        let [.., high, middle, low] = (number as u32 + 1).to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(10, high, middle, low))
    }

    /// The way between two adapters.
    pub fn flow(from: usize, to: usize) -> Flow {
        Flow::new(Network::address(from), Network::address(to), 0xc000)
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
        let Ok(mut state) = self.state.try_lock() else { return false };
        let rung = self.rung.swap(false, Ordering::Acquire);
        let due = || state.fronts.iter().any(|front| front.hca.next_deadline().is_some());
        if !rung && state.busy.is_empty() && !due() {
            return false;
        }
        let mut moved = false;
        // One look at what memory there is serves all of the step's accesses.
        self.memory.session(&mut || {
            if rung {
                moved = self.take_doorbells(&mut state);
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
    fn run(&mut self, now: Nanos) -> bool {
        let mut moved = false;
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
        moved
    }

    /// Hands a packet of adapter `from` to whom it is for.
    fn deliver(&mut self, from: usize, flow: &Flow, packet: Packet, now: Nanos) {
        match self.wire {
            Wire::Packets => self.hand_over(flow, &packet, now),
            Wire::Datagrams => {
                self.bytes.clear();
                let sent = encode(flow, &packet, &mut self.bytes).is_ok();
                if let (true, Ok((flow, received))) = (sent, decode(&self.bytes)) {
                    self.hand_over(&flow, &received, now);
                }
            }
        }
        if let Some(front) = self.fronts.get_mut(from) {
            front.hca.reuse(packet);
        }
    }

    fn hand_over(&mut self, flow: &Flow, packet: &Packet, now: Nanos) {
        let to = match flow.destination {
            IpAddr::V4(address) => (u32::from(address) & 0xff_ffff).wrapping_sub(1) as usize,
            IpAddr::V6(_) => return,
        };
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
