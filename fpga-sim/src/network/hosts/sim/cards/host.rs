//! A host's card, with its fabric, memory and VPIDs: what a driver sets up, and software's side of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use extoll_abi::{
    Access, Address, AtuCommand, BqReadPointer, BqSegment, BqTable, Descriptor, GatRegister, Gate,
    Notification, PageOption, PageSize, SlotSize, WcbState, regs,
};
use ggas_clock::Clock;

use super::super::net::SimWire;
use super::super::world::EVER;
use super::port::{AREA, GIVEN, PAGE, Pages, Port, REUSED, pattern};
use crate::card::{Driver, Nic, NicConfig};
use crate::memory::HostMemory;
use crate::memory::runs::Runs;
use crate::network::fabric::{Carriage, Fabric, FabricError, First, Pending};
use crate::network::hosts::shared::Shared;
use crate::network::hosts::sleep::Watch;
use crate::packet::{Class, Packet};
use crate::short_put::ShortPut;
use crate::wake::Wake;

/// Pages of the translation table that the processes of a network have each, so that an address says whose it is.
const ENTRIES: u32 = 8192;
/// Locks of a VPID.
pub const LOCKS: usize = 256;
/// VPIDs that have some.
const VPIDS: u32 = 16;

/// A process's end of its network, as its card has it.
struct SimFabric {
    node: u16,
    shared: Arc<Shared<SimWire>>,
}

impl Fabric for SimFabric {
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

    fn process_at(&self, to: Address) -> u32 {
        self.shared.process_at(to.node)
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        self.shared.take(class)
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        self.shared.carriage(to.node, runs)
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, _node: u16, first: &mut dyn First) -> Pending {
        self.shared.pending(first)
    }

    fn rest(&self, _node: u16) {
        self.shared.rest_card();
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        assert!(node == self.node && self.shared.attach(wake));
        Ok(())
    }

    fn detach(&self, _node: u16) {
        self.shared.detach();
    }
}

/// What runs a card in the background: the world looks here.
#[derive(Default)]
struct Called(AtomicBool);

impl Driver for Called {
    fn submit(&self, nic: &Arc<Nic>) {
        nic.submitted().store(true, Ordering::Release);
        self.0.store(true, Ordering::Release);
    }
}

/// How a program waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It has the card run now and then.
    Polls,
    /// Without a pause, for a while.
    Spins,
    /// It only looks at memory: others run the card.
    Sleeps,
}

/// A process's card and what belongs to it.
pub struct Host {
    pub nic: Arc<Nic>,
    called: Arc<Called>,
    /// The thread of the wire, and when its turn is; whether it sleeps until something comes.
    pub watch: Watch,
    pub watch_at: Duration,
    pub sleeps: bool,
    /// When the driver looks at the card, and how long it napped.
    pub driver_at: Duration,
    pub nap: u64,
    /// When its program goes on, and how long it waits when it finds nothing to do.
    pub program_at: Duration,
    pub idle: Duration,
    /// What it does while it waits, and when it last found something to do.
    pub waits: Waits,
    pub busy_at: Duration,
    /// Commands that it is to post.
    pub to_post: u32,
    pub ports: Vec<Port>,
    next_page: u32,
    closed: Vec<Port>,
    locks: Pages,
    flushed: Pages,
    table: Pages,
    memory: Arc<HostMemory>,
}

impl Host {
    pub fn new(
        (me, node): (usize, u16),
        shared: &Arc<Shared<SimWire>>,
        clock: &Clock,
        random: &mut fastrand::Rng,
    ) -> Host {
        let (memory, called) = (HostMemory::new(), Arc::<Called>::default());
        let fabric = Arc::new(SimFabric { node, shared: shared.clone() });
        let config = NicConfig {
            driver: Some(called.clone()),
            clock: clock.clone(),
            inline: random.bool(),
            ..NicConfig::new(node, memory.clone(), fabric)
        };
        let nic = Nic::new(config).expect("a card");
        let table = Pages::new(&memory, 2 << 20, 2 << 20);
        let locks = Pages::new(&memory, 16 << 10, PAGE);
        let flushed = Pages::new(&memory, PAGE, PAGE);
        let gat = GatRegister::new(table.address()).expect("aligned");
        for (register, value) in [
            (regs::gat(0), gat.0),
            (regs::EXTOLL_RF_ATU_ENABLE, 1),
            (regs::EXTOLL_RF_RMA_LOCK_BASE, locks.address()),
            (regs::EXTOLL_RF_RMA_LOCK_CONFIG, regs::lock_config(LOCKS as u32, VPIDS)),
            (regs::EXTOLL_RF_RMA_WCB_TIMEOUT, 0),
            (regs::EXTOLL_RF_RMA_BQ_TIMEOUT, 0),
            (regs::EXTOLL_RF_BQ_RMA_GENERAL, 1),
        ] {
            nic.reg_write(register, value);
        }
        Host {
            nic,
            called,
            watch: Watch::new(&**shared),
            watch_at: clock.since(clock.origin()),
            sleeps: false,
            driver_at: EVER,
            nap: 0,
            program_at: EVER,
            idle: Duration::ZERO,
            waits: [Waits::Polls, Waits::Spins, Waits::Sleeps][random.usize(..3)],
            busy_at: Duration::ZERO,
            to_post: 0,
            ports: Vec::new(),
            next_page: me as u32 % 30 * ENTRIES + AREA,
            closed: Vec::new(),
            locks,
            flushed,
            table,
            memory,
        }
    }

    /// Whether the card asked to be run; once.
    pub fn is_called(&self) -> bool {
        self.called.0.swap(false, Ordering::AcqRel)
    }

    /// Opens the lowest free VPID, if there are pages for its memory; these lie as [`Port`] says.
    pub fn open(&mut self, opened: usize, flip: u32, random: &mut fastrand::Rng) -> Option<&Port> {
        let vpid = (0..).find(|vpid| self.ports.iter().all(|port| port.vpid != *vpid)).unwrap_or(0);
        let first = self.next_page;
        if (first + AREA).is_multiple_of(ENTRIES) {
            return None;
        }
        self.next_page += AREA;
        let entries: u32 = [4, 16, 256][random.usize(..3)];
        let area = Pages::new(&self.memory, AREA as usize * PAGE, PAGE);
        for page in 0..AREA {
            let at = area.address() + u64::from(page ^ flip) * PAGE as u64;
            let gate = Gate::new(vpid, Access::READ | Access::WRITE, at, PageSize::K4).expect("a gate");
            self.table.word((first + page) as usize).store(gate.0, Ordering::Release);
        }
        let queue = Pages::new(&self.memory, PAGE, PAGE);
        let table = Pages::new(&self.memory, PAGE, PAGE);
        let segment = BqSegment::new(SlotSize::B16, entries, queue.address()).expect("a segment");
        table.word(0).store(segment.0, Ordering::Release);
        for (register, value) in [
            (regs::bq_ub(vpid), u64::from(entries - 1)),
            (regs::bq_table(vpid), BqTable::new(table.address(), 1).expect("a table").0),
            (regs::bq_current(vpid), segment.with_valid(true).0),
            (regs::bq_next(vpid), segment.with_valid(true).0),
            (regs::bq_wp(vpid), 0),
            (regs::bq_rp(vpid), BqReadPointer::new(0, true).0),
            (regs::wcb_state(vpid), 0),
            (regs::vpid_table(vpid), regs::vpid_entry(0)),
        ] {
            self.nic.reg_write(register, value);
        }
        let mut port = Port {
            vpid,
            opened,
            first: u64::from(first) << 12,
            queue,
            _table: table,
            area,
            entries,
            read: 0,
            flip,
            used: GIVEN,
            late: Duration::ZERO,
        };
        port.write(port.first, &pattern(opened, GIVEN as usize));
        self.ports.push(port);
        self.ports.last()
    }

    /// Closes a VPID, whatever it has under way. What was its memory gets other bytes once the card says that it is not used.
    pub fn close(&mut self, at: usize) -> usize {
        let mut port = self.ports.swap_remove(at);
        self.nic.reg_write(regs::vpid_table(port.vpid), 0);
        self.nic.reg_write(regs::bq_current(port.vpid), 0);
        let first = (port.first >> 12) as u32;
        (0..AREA).for_each(|page| self.table.word((first + page) as usize).store(0, Ordering::Release));
        let place = self.flushed.address() + 8 * port.opened as u64 % PAGE as u64;
        let flush = AtuCommand::FlushPages { page: first, count: AREA };
        for command in [flush, AtuCommand::Notify(place)] {
            self.nic.reg_write(regs::EXTOLL_RF_ATU_COMMAND, command.encode().expect("a command"));
        }
        port.used = 0;
        let opened = port.opened;
        self.closed.push(port);
        opened
    }

    /// Gives other bytes to the memory of closed VPIDs that the card does not use any more.
    pub fn reuse_closed(&mut self) {
        let Host { closed, flushed, .. } = self;
        for port in closed.iter_mut().filter(|port| port.used == 0) {
            if flushed.word(port.opened % (PAGE / 8)).load(Ordering::Acquire) != 0 {
                port.area.bytes(0, AREA as usize * PAGE).fill(REUSED);
                port.used = 1;
            }
        }
    }

    /// Whether the card uses memory of VPIDs that were closed.
    pub fn waits_for_closed(&self) -> bool {
        self.closed.iter().any(|port| port.used == 0)
    }

    /// Stores the words of a command; whether the card took it.
    pub fn post(&mut self, at: usize, descriptor: &Descriptor) -> bool {
        let vpid = self.ports[at].vpid;
        self.nic.requester_line(PageOption::TE.page_offset(vpid), descriptor.word);
        let state = WcbState(self.nic.wcb_state(vpid).load(Ordering::Acquire));
        if state.retry() {
            self.nic.reg_write(regs::wcb_state(vpid), state.acknowledged().0);
        }
        !state.retry()
    }

    /// The next notification of a VPID.
    pub fn next_notification(&mut self, at: usize) -> Option<Notification> {
        let port = &mut self.ports[at];
        let word = |index| port.queue.word(2 * port.read as usize + index);
        let word1 = word(1).load(Ordering::Acquire);
        if word1 == 0 {
            return None;
        }
        let word0 = word(0).load(Ordering::Acquire);
        word(1).store(0, Ordering::Release);
        port.read = (port.read + 1) % port.entries;
        let pointer = BqReadPointer::new(port.read, true).0;
        self.nic.rp_register(port.vpid).store(pointer, Ordering::Release);
        Some(Notification { word0, word1 })
    }

    /// The value of a VPID's lock.
    pub fn lock(&self, vpid: u8, number: u64) -> u32 {
        let at = usize::from(vpid) + VPIDS as usize * number as usize;
        (self.locks.word(at / 2).load(Ordering::Acquire) >> (at % 2 * 32)) as u32
    }

    /// Whether the card has nothing to send.
    pub fn has_sent_all(&self) -> bool {
        self.ports.iter().all(|port| self.nic.requester_idle(port.vpid))
    }
}
