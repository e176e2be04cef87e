//! A guest without a virtual machine: its card, driven through the calls that the protocol's library makes.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use extoll_abi::regs::*;
use extoll_abi::*;
use extoll_sim::Fabric;
use extoll_sim::faults::Faults;
use extoll_sim::network::Network;
use extoll_sim::shared::Nodes;
use extoll_sim::torus::Torus;
use extoll_vm::*;
use nix::sys::memfd::{MFdFlags, memfd_create};
use vfio_user::{DmaMapFlags, ServerBackend};

/// Bound of every wait that is expected to succeed, on a machine that may stall for seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const CONFIG: u32 = 7;
pub const RAM: u64 = 8 << 20;
/// Where the guest's memory lies on its bus, and in its file.
pub const BUS: u64 = 0x1_0000_0000;
pub const FILE_AT: u64 = 1 << 20;

/// A guest: its card, and what it keeps in its memory.
pub struct Guest {
    pub card: Card,
    pub ram: File,
}

pub fn network(nodes: u32) -> Arc<Network> {
    Network::new(Torus::new(nodes, 1, 1).unwrap(), Faults::none()).unwrap()
}

impl Guest {
    pub fn new(network: &Arc<Network>, node: u16, peers: Vec<Arc<PeerBar>>) -> Guest {
        Guest::at(network.clone(), None, node, peers)
    }

    pub fn at(
        network: Arc<dyn Fabric>,
        nodes: Option<Arc<Nodes>>,
        node: u16,
        peers: Vec<Arc<PeerBar>>,
    ) -> Guest {
        let setup = CardSetup {
            node,
            network,
            nodes,
            peers,
            msix: false,
            trouble: false,
            trap: false,
            network_state: 1,
        };
        let ram = File::from(memfd_create("ram", MFdFlags::MFD_CLOEXEC).unwrap());
        ram.set_len(FILE_AT + RAM).unwrap();
        let mut guest = Guest { card: Card::new(setup).unwrap(), ram };
        guest.map();
        guest.master(true);
        guest
    }

    pub fn map(&mut self) {
        let file = self.ram.try_clone().unwrap();
        self.back().dma_map(DmaMapFlags::READ_WRITE, FILE_AT, BUS, RAM, Some(file)).unwrap();
    }

    pub fn back(&mut self) -> Backend<'_, Card> {
        Backend(&mut self.card)
    }

    pub fn master(&mut self, on: bool) {
        let command = if on { 6u16 } else { 2 };
        self.back().region_write(CONFIG, 4, &command.to_le_bytes()).unwrap();
    }

    pub fn write(&mut self, offset: u64, value: u64) {
        self.back().region_write(0, offset, &value.to_le_bytes()).unwrap();
    }

    pub fn read(&mut self, offset: u64) -> u64 {
        let mut word = [0; 8];
        self.back().region_read(0, offset, &mut word).unwrap();
        u64::from_le_bytes(word)
    }

    pub fn store(&self, at: u64, value: u64) {
        self.ram.write_all_at(&value.to_le_bytes(), FILE_AT + at).unwrap();
    }

    pub fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.ram.read_exact_at(&mut word, FILE_AT + at).unwrap();
        u64::from_le_bytes(word)
    }

    pub fn wait(&self, at: u64, what: &str) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.load(at) {
                0 if Instant::now() > deadline => panic!("nothing came: {what}"),
                0 => std::thread::yield_now(),
                word => return word,
            }
        }
    }

    /// Opens a VPID, as a driver does, with a queue of 256 entries at `queue` and its segment table behind it.
    pub fn open(&mut self, vpid: u8, queue: u64) {
        let segment = BqSegment::new(SlotSize::B16, 256, BUS + queue).unwrap();
        self.store(queue + 4096, segment.0);
        for (register, value) in [
            (EXTOLL_RF_BQ_RMA_GENERAL, 1),
            (bq_ub(vpid), 255),
            (bq_table(vpid), BqTable::new(BUS + queue + 4096, 1).unwrap().0),
            (bq_current(vpid), segment.with_valid(true).0),
            (bq_next(vpid), segment.with_valid(true).0),
            (bq_wp(vpid), 0),
            (bq_rp(vpid), BqReadPointer::new(0, true).0),
            (vpid_table(vpid), vpid_entry(0)),
        ] {
            self.write(register, value);
        }
    }

    /// Stores a descriptor, word by word, in the order in which a guest's write-combining may bring them.
    pub fn post(&mut self, option: PageOption, vpid: u8, to: Address, spec: Spec, request: &Request) {
        let descriptor = Descriptor::encode(to, spec, Modifier::NONE, request).unwrap();
        let page = EXTOLL_BAR0_RMA + option.page_offset(vpid);
        for i in [1, 2, 0] {
            self.write(page + 8 * i as u64, descriptor.word[i]);
        }
    }
}

/// A put of physical addresses, with a notification at the target.
pub fn put(read: u64, write: u64, size: u32) -> Request {
    Request::Put { qw: false, read, write, size }
}
