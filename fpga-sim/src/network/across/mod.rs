//! Cards of a job whose processes are on several hosts: packets within a host go by [shared memory](super::shared), those to
//! other hosts [over the wire](super::hosts). A node is of one host, so a packet's destination says which way it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use extoll_abi::Address;

use super::fabric::{Carriage, Fabric, FabricError, First, LinkWork, Pending};
use super::hosts::HostsFabric;
use super::shared::ProcessFabric;
use crate::memory::Lent;
use crate::memory::runs::Runs;
use crate::packet::{Class, Packet};
use crate::short_put::ShortPut;
use crate::wake::Wake;

/// A process's end of the network of its job: see the module's description.
pub struct JobFabric {
    near: Arc<ProcessFabric>,
    hosts: Arc<HostsFabric>,
    /// By node: whether it is on another host.
    far: Box<[bool]>,
    /// Whose packets are looked for first; by turns, so that neither waits for the other.
    turn: AtomicBool,
    /// The process may have another card when this one goes.
    stays: bool,
}

impl JobFabric {
    /// Joins the two ends that a process has. When its card goes, the process leaves the network between hosts unless it `stays`, for
    /// one card after the other.
    pub fn new(near: Arc<ProcessFabric>, hosts: Arc<HostsFabric>, stays: bool) -> Arc<JobFabric> {
        let far = (0..near.nodes().count()).map(|node| near.is_far(node as u16)).collect();
        Arc::new(JobFabric { near, hosts, far, turn: AtomicBool::new(false), stays })
    }

    /// The end on this host.
    pub fn near(&self) -> &Arc<ProcessFabric> {
        &self.near
    }

    /// The end between hosts.
    pub fn hosts(&self) -> &Arc<HostsFabric> {
        &self.hosts
    }

    #[inline]
    fn is_far(&self, node: u16) -> bool {
        self.far.get(usize::from(node)).is_some_and(|far| *far)
    }
}

impl Fabric for JobFabric {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        match self.is_far(packet.destination.node) {
            true => self.hosts.send(from, packet),
            false => self.near.send(from, packet),
        }
    }

    fn send_read(
        &self,
        from: u16,
        packet: Packet,
        read: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), Packet> {
        match self.is_far(packet.destination.node) {
            true => self.hosts.send_read(from, packet, read),
            false => self.near.send_read(from, packet, read),
        }
    }

    fn sends_short(&self, to: Address) -> bool {
        self.is_far(to.node)
    }

    fn send_short(&self, put: &ShortPut, bytes: &[u8]) -> bool {
        self.is_far(put.destination.node) && self.hosts.send_short(put, bytes)
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(!turn, Ordering::Relaxed);
        if turn {
            return self.near.poll(node, class).or_else(|| self.hosts.poll(node, class));
        }
        self.hosts.poll(node, class).or_else(|| self.near.poll(node, class))
    }

    fn process_at(&self, to: Address) -> u32 {
        if self.is_far(to.node) { self.hosts.process_at(to) } else { self.near.process_at(to) }
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        if self.is_far(to.node) { self.hosts.carriage(to, runs) } else { self.near.carriage(to, runs) }
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, node: u16, first: &mut dyn First) -> Pending {
        // Both: each counts who polls.
        match (self.near.pending(node, first), self.hosts.pending(node, first)) {
            (Pending::Nothing, pending) | (pending, Pending::Nothing) => pending,
            _ => Pending::Packets,
        }
    }

    fn rest(&self, node: u16) {
        self.near.rest(node);
        self.hosts.rest(node);
    }

    fn stage(&self, len: usize) -> Option<Lent> {
        self.near.stage(len)
    }

    fn members(&self, from: u16, group: u16) -> Vec<u16> {
        self.near.members(from, group)
    }

    fn step(&self, _node: u16, _now: Instant) -> LinkWork {
        LinkWork::default()
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        self.near.attach(node, wake.clone())?;
        self.hosts.attach(node, wake).inspect_err(|_| self.near.detach(node))
    }

    fn detach(&self, node: u16) {
        match self.stays {
            true => self.hosts.detach_card(),
            false => self.hosts.detach(node),
        }
        self.near.detach(node);
    }

    fn reg_read(&self, node: u16, offset: u64) -> Option<u64> {
        self.near.reg_read(node, offset)
    }

    fn reg_write(&self, node: u16, offset: u64, value: u64) -> bool {
        self.near.reg_write(node, offset, value)
    }
}
