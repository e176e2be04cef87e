//! What joins cards: the [`Fabric`] trait, and [`Loopback`], the smallest fabric that works.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use extoll_abi::Address;

use crate::memory::Lent;
use crate::memory::runs::Runs;
use crate::packet::{ANYONE, Class, Packet, Payload};
use crate::short_put::ShortPut;
use crate::wake::Wake;

/// When the link layer of a node wants to be called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkWork {
    /// Something moved in this call.
    pub worked: bool,
    /// Call [`Fabric::step`] again at this time at the latest; `None`: only after the next wake.
    pub again: Option<Instant>,
}

/// How a payload travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// As a reference to the sender's memory ([`crate::packet::Payload::ByReference`]), in one packet.
    Reference,
    /// As bytes, at most `most` in a packet; 0: a fragment in each.
    Bytes {
        /// Bytes of a packet.
        most: u32,
    },
    /// From `least` bytes on, where it is at most `runs` stretches of host memory that is [lent](crate::memory::Memory::lend), as
    /// [`Carriage::Reference`]; else as [`Carriage::Bytes`]. From `devices` bytes on the same of memory of devices.
    Granted {
        /// Bytes of a command.
        least: u32,
        /// Bytes of a command from a device's memory; none is so long where the fabric does not reach such.
        devices: u32,
        /// Stretches of memory.
        runs: usize,
        /// Bytes of a packet.
        most: u32,
    },
    /// As [`Carriage::Bytes`], in buffers that the fabric lends ([`Fabric::stage`]).
    Staged {
        /// Bytes of a packet.
        most: u32,
    },
}

/// What waits for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Nothing, as far as the fabric knows.
    Nothing,
    /// Requests came at once in this call, and nothing else waits. Of those that the card keeps, later calls say nothing.
    First,
    /// [`Fabric::poll`] says.
    Packets,
}

/// Where a card has its next requests at once, while the fabric still has them.
pub trait First {
    /// Whether it can have one.
    fn is_free(&self) -> bool;
    /// Takes a request, or what it has; [`is_free`](Self::is_free) said so.
    fn take(&mut self, packet: &mut Packet);
    /// Deals with a put that is no packet yet, as [`settle`](Self::settle) with a request.
    fn put(&mut self, _put: &ShortPut, _bytes: &[u8]) -> bool {
        false
    }
    /// Deals with a request, of which nothing is left to do then; whether it did. `bytes`, which stay the fabric's, are its payload where it has
    /// none itself.
    fn settle(&mut self, _packet: &mut Packet, _bytes: &[u8]) -> bool {
        false
    }
}

/// A place for a packet and its payload.
impl First for Option<Packet> {
    fn is_free(&self) -> bool {
        self.is_none()
    }

    fn take(&mut self, packet: &mut Packet) {
        *self = Some(packet.take());
    }
}

/// Why a node could not be attached.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FabricError {
    /// The node id is outside the network.
    #[error("node {node} does not exist in this network of {nodes} nodes; use an id below {nodes}")]
    NoSuchNode {
        /// The id asked for.
        node: u16,
        /// Nodes of the network.
        nodes: usize,
    },
    /// Another card uses the node id.
    #[error("node {node} is attached already; detach it first or choose another id")]
    Taken {
        /// The id asked for.
        node: u16,
    },
}

/// A network between cards.
///
/// Order: packets of one (sender, receiver, class) arrive in the order in which `send` accepted them. Nothing is
/// lost silently: a packet is delivered, or dropped and counted because its receiver is dead or its route is
/// illegal. A fabric may be called from any thread, with the sending card's lock held; it never calls a card's
/// units, only [`Wake::wake`].
pub trait Fabric: Send + Sync {
    /// Sends a packet from node `from`. `Err` gives it back: no credit now, keep it and try again; `from` is
    /// woken when it is worth trying.
    #[allow(clippy::result_large_err, reason = "the packet itself comes back, without an allocation")]
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet>;
    /// Sends a packet still without its payload, of `packet.len` bytes, which `read` writes to where the fabric has room for it, or says that
    /// it cannot. `Err` gives the packet back, with the payload where that was read.
    #[allow(clippy::result_large_err, reason = "as above")]
    fn send_read(
        &self,
        from: u16,
        mut packet: Packet,
        read: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), Packet> {
        let mut bytes = vec![0; packet.len as usize].into_boxed_slice();
        if !read(&mut bytes) {
            return Err(packet);
        }
        packet.payload = Payload::Bytes(bytes);
        self.send(from, packet)
    }
    /// Whether packets to there may go by [`send_short`](Self::send_short).
    fn sends_short(&self, _to: Address) -> bool {
        false
    }
    /// Sends a put of at most [`INLINE_MAX`](crate::packet::INLINE_MAX) bytes, if nothing is in its way. `false`: nothing was done, and [`send`](Self::send) sees to
    /// it.
    fn send_short(&self, _put: &ShortPut, _bytes: &[u8]) -> bool {
        false
    }
    /// Takes the next packet of `class` that arrived for `node`.
    fn poll(&self, node: u16, class: Class) -> Option<Packet>;
    /// The process that has an address now, or had it last, as [`Packet::process`] says it.
    fn process_at(&self, _to: Address) -> u32 {
        ANYONE
    }
    /// How a payload of this memory travels to `to`.
    fn carriage(&self, to: Address, runs: &Runs) -> Carriage;
    /// Whether packets arrive without a [`Wake::wake`] in this process, so that cards must ask [`Fabric::pending`].
    fn polled(&self) -> bool {
        false
    }
    /// What waits for `node` that it was not woken for. Cheap: asked all the time. The next requests may come at once, to `first`, while
    /// that is free; of the card's units that alone may be called.
    fn pending(&self, _node: u16, _first: &mut dyn First) -> Pending {
        Pending::Nothing
    }
    /// Whoever asked [`Fabric::pending`] for `node` stops asking for a while.
    fn rest(&self, _node: u16) {}
    /// A buffer for `len` bytes of a payload, at most what [`Carriage::Staged`] said; `None`: not now, `node` is
    /// woken when it is worth trying again.
    fn stage(&self, _len: usize) -> Option<Lent> {
        None
    }
    /// Nodes that a multicast of `from` to `group` goes to; the card sends to each of them. By default there are no
    /// groups.
    fn members(&self, _from: u16, _group: u16) -> Vec<u16> {
        Vec::new()
    }
    /// Link-layer work of this node: forwarding, retransmission timers. Fabrics without links do nothing.
    fn step(&self, _node: u16, _now: Instant) -> LinkWork {
        LinkWork::default()
    }
    /// Whether [`Fabric::step`] ever has work to do; cards skip it (and reading the clock) where not.
    fn has_links(&self) -> bool {
        false
    }
    /// Joins a card to the network.
    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError>;
    /// Removes a card. Packets that wait for it are dropped.
    fn detach(&self, node: u16);
    /// A link register of the register file (spec 8.2: crossbar, link ports), or `None` where the fabric has none.
    fn reg_read(&self, _node: u16, _offset: u64) -> Option<u64> {
        None
    }
    /// Writes a link register; `false` where the fabric has none at `offset`.
    fn reg_write(&self, _node: u16, _offset: u64, _value: u64) -> bool {
        false
    }
}

/// Every node one hop from every other, in one process, with bounded inboxes and direct memory (optional).
pub struct Loopback {
    nodes: RwLock<HashMap<u16, Arc<Inbox>>>,
    capacity: usize,
    direct: bool,
}

struct Inbox {
    wake: Arc<dyn Wake>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    request: VecDeque<Packet>,
    response: VecDeque<Packet>,
    /// Senders that were refused and want a wake when there is room.
    refused: Vec<u16>,
}

impl Queues {
    fn of(&mut self, class: Class) -> &mut VecDeque<Packet> {
        match class {
            Class::Request => &mut self.request,
            Class::Response => &mut self.response,
        }
    }
}

impl Loopback {
    /// A fabric whose inboxes hold `capacity` packets of each class.
    pub fn new(capacity: usize, direct: bool) -> Arc<Loopback> {
        Arc::new(Loopback { nodes: RwLock::default(), capacity: capacity.max(1), direct })
    }

    fn inbox(&self, node: u16) -> Option<Arc<Inbox>> {
        self.nodes.read().unwrap_or_else(|e| e.into_inner()).get(&node).cloned()
    }
}

impl Fabric for Loopback {
    fn send(&self, from: u16, packet: Packet) -> Result<(), Packet> {
        let Some(inbox) = self.inbox(packet.destination.node) else {
            return Ok(()); // no such node: the network discards it
        };
        let mut queues = inbox.queues.lock().unwrap_or_else(|e| e.into_inner());
        let queue = queues.of(packet.class());
        if queue.len() >= self.capacity {
            if !queues.refused.contains(&from) {
                queues.refused.push(from);
            }
            return Err(packet);
        }
        queue.push_back(packet);
        drop(queues);
        inbox.wake.wake();
        Ok(())
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        let inbox = self.inbox(node)?;
        let (packet, refused) = {
            let mut queues = inbox.queues.lock().unwrap_or_else(|e| e.into_inner());
            let packet = queues.of(class).pop_front()?;
            (packet, std::mem::take(&mut queues.refused))
        };
        for sender in refused {
            if let Some(inbox) = self.inbox(sender) {
                inbox.wake.wake();
            }
        }
        Some(packet)
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        if self.direct { Carriage::Reference } else { Carriage::Bytes { most: 0 } }
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        let mut nodes = self.nodes.write().unwrap_or_else(|e| e.into_inner());
        if nodes.contains_key(&node) {
            return Err(FabricError::Taken { node });
        }
        nodes.insert(node, Arc::new(Inbox { wake, queues: Mutex::default() }));
        Ok(())
    }

    fn detach(&self, node: u16) {
        // Taken out of the lock: dropping the packets wakes their senders.
        let inbox = self.nodes.write().unwrap_or_else(|e| e.into_inner()).remove(&node);
        drop(inbox);
    }
}
