//! Our adapter on the host at the other end of the wire: what both do while somebody waits for something.

use crate::host::{ADDRESS, Host};
use anyhow::{Context, Result, bail};
use extoll_sim::memory::{HostMemory, Memory, RangeKind};
use ggas_hca::wire::{Flow, encode};
use ggas_hca::{
    Access, Attributes, Completion, Connection, CqId, Domain, Hca, Mtu, Queue, Reliability, SendWork, Status,
};
use smoltcp::iface::SocketHandle;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// How long the guest may do nothing of what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// UDP source port of our packets.
const SOURCE: u16 = 0xc001;
const QUEUE: usize = 1024;

/// What a queue pair's peer has to know, or has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: Ipv4Addr,
    pub qpn: u32,
    pub psn: u32,
}

/// A queue pair of ours with its memory.
pub struct End {
    pub qp: u32,
    pub cq: CqId,
    /// First byte of its memory, which keys call by the same address.
    pub at: u64,
    domain: Domain,
    keys: Vec<u32>,
    memory: Box<[u64]>,
}

/// The host and its adapter.
pub struct World {
    pub host: Host,
    pub hca: Hca,
    memory: Arc<HostMemory>,
    /// The end that is through and still answers.
    retired: Option<End>,
}

impl World {
    pub fn new(host: Host) -> World {
        let memory = HostMemory::new();
        World { host, hca: Hca::new(memory.clone()), memory, retired: None }
    }

    /// Everything that can be done now, and a wait until something more can.
    pub fn step(&mut self) -> Result<()> {
        self.work()?;
        let now = self.host.now();
        let deadline = self.hca.next_deadline().unwrap_or(u64::MAX).min(now + 100_000_000);
        self.host.poll(deadline)?;
        while let Some(packet) = self.host.packet() {
            // What it throws away is lost, as on any wire: it is for the guest to send it again.
            if let Err(error) = self.hca.receive_datagram(&packet, self.host.now()) {
                eprintln!("a packet of {} bytes: {error}", packet.len());
            }
        }
        self.work()
    }

    fn work(&mut self) -> Result<()> {
        self.hca.timers(self.host.now());
        while let Some((flow, packet)) = self.hca.transmit(self.host.now()) {
            let mut bytes = Vec::new();
            encode(&flow, &packet, &mut bytes)?;
            self.host.send(&bytes)?;
        }
        Ok(())
    }

    /// Steps until `done` has something.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut World) -> Result<Option<T>>,
    ) -> Result<T> {
        let end = self.host.now() + PATIENCE.as_nanos() as u64;
        loop {
            if let Some(value) = done(self)? {
                return Ok(value);
            }
            if self.host.gone() {
                bail!("the guest has gone before {what}");
            }
            if self.host.now() > end {
                bail!("{PATIENCE:?} and no {what}; {}", self.state());
            }
            self.step()?;
        }
    }

    fn state(&self) -> String {
        let (seen, lost) = self.host.traffic();
        format!("{seen} packets, {lost} of them lost")
    }

    /// The next completion, which has to be a success.
    pub fn completion(&mut self, cq: CqId) -> Result<Completion> {
        let completion = self.until("completion", |world| Ok(world.hca.poll(cq)))?;
        if completion.status != Status::Success {
            bail!("completion {completion:?}");
        }
        Ok(completion)
    }

    /// Hears exactly `n` bytes.
    pub fn bytes(&mut self, line: SocketHandle, n: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(n);
        while bytes.len() < n {
            bytes.push(self.until("byte from the guest", |world| world.host.hear(line))?);
        }
        Ok(bytes)
    }

    /// Hears a line, without its end.
    pub fn line(&mut self, line: SocketHandle) -> Result<String> {
        let mut text = Vec::new();
        loop {
            match self.bytes(line, 1)?[0] {
                b'\n' => return Ok(String::from_utf8(text)?),
                byte if text.len() < 256 => text.push(byte),
                _ => bail!("the guest says more than it may"),
            }
        }
    }

    /// A queue pair with `len` bytes of memory; it takes receives.
    pub fn open(&mut self, len: usize, depth: usize) -> Result<End> {
        let mut memory = vec![0; len.div_ceil(8)].into_boxed_slice();
        let at = memory.as_mut_ptr() as u64;
        // SAFETY: the end keeps it until `close` has taken the range back; nobody but the adapter and this crate's
        // `read` and `write`, all through the memory that the range is declared to, touches it.
        unsafe { self.memory.add_range(RangeKind::Host, at, memory.len() * 8)? };
        let domain = self.hca.domain();
        let cq = self.hca.create_cq(Box::new(Queue::new(QUEUE)));
        let attributes = Attributes {
            domain,
            access: Access::ALL,
            send_depth: depth,
            receive_depth: depth,
            credits: true,
        };
        let qp = self.hca.create_qp(attributes, cq, cq)?;
        self.hca.init(qp)?;
        Ok(End { qp, cq, at, domain, keys: Vec::new(), memory })
    }

    /// A key for the first `len` bytes of an end's memory.
    pub fn key(&mut self, end: &mut End, len: usize, access: Access) -> Result<u32> {
        let key = self.hca.register(end.domain, end.at, end.at, len as u64, access)?;
        end.keys.push(key);
        Ok(key)
    }

    /// Connects an end, whose first sequence number is `psn`.
    pub fn connect(&mut self, end: &End, peer: &Peer, psn: u32) -> Result<()> {
        let connection = Connection {
            flow: Flow::new(IpAddr::V4(ADDRESS), IpAddr::V4(peer.address), SOURCE),
            peer: peer.qpn,
            mtu: Mtu::B1024,
            receive_psn: peer.psn,
            responses: 16,
            not_ready: 12,
        };
        self.hca.ready_to_receive(end.qp, connection)?;
        self.hca.ready_to_send(end.qp, Reliability { send_psn: psn, ..Reliability::default() })?;
        Ok(())
    }

    pub fn post(&mut self, end: &End, work: SendWork) -> Result<()> {
        self.hca.post_send(end.qp, work).context("a request is refused")
    }

    /// Bytes of an end's memory.
    pub fn read(&self, end: &End, from: u32, len: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.memory.read(end.at + u64::from(from), &mut bytes)?;
        Ok(bytes)
    }

    pub fn write(&self, end: &End, at: u32, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.memory.write(end.at + u64::from(at), bytes)?;
        }
        Ok(())
    }

    /// Takes an end back when the next one retires: the guest may miss an acknowledge until then, and ask again.
    pub fn retire(&mut self, end: End) -> Result<()> {
        match self.retired.replace(end) {
            Some(last) => self.close(last),
            None => Ok(()),
        }
    }

    /// Takes an end back.
    pub fn close(&mut self, end: End) -> Result<()> {
        self.hca.destroy_qp(end.qp)?;
        self.hca.destroy_cq(end.cq)?;
        for key in end.keys {
            self.hca.deregister(key)?;
        }
        self.memory.remove_range(end.at, end.memory.len() * 8)?;
        Ok(())
    }
}
