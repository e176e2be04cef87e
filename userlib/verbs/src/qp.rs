//! Queue pairs: made, connected, used by the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggas_hca::formats::{Format, mlx4, mlx5};
use ggas_hca::wire::Flow;
use ggas_hca::{
    Access, Attributes, Completion, Connection, Mtu, ReceiveWork, Reliability, Ring, SendWork, State,
};
use ggas_kernels::KernelMem;

use crate::cq::Held;
use crate::memory::Declared;
use crate::{Cq, Endpoint, Pd, Placement, VerbsError};

/// Most entries of a send or receive queue.
const MOST: u32 = 1 << 14;
/// Most pieces of local memory of a request.
const PIECES: u32 = 4;

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct QpAttributes {
    /// Most requests that are under way.
    pub sends: u32,
    /// Most receives that are posted.
    pub receives: u32,
    /// Most pieces of local memory of each, 1 to 4; 1 or 2 with mlx5.
    pub pieces: u32,
    /// Where its queues lie.
    pub placement: Placement,
    /// What the peer may do.
    pub access: Access,
}

impl Default for QpAttributes {
    fn default() -> QpAttributes {
        QpAttributes {
            sends: 64,
            receives: 64,
            pieces: 2,
            placement: Placement::default(),
            access: Access::ALL,
        }
    }
}

/// How queue pairs are connected; the same on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Connect {
    /// Largest payload of a packet; 1024 bytes by default.
    pub mtu: Mtu,
    /// Repetitions, time-outs, reads at a time. `send_psn` is the endpoint's.
    pub reliability: Reliability,
    /// How long the peer waits before it sends again what found no receive here, a code of
    /// [`RNR_NANOS`](ggas_hca::wire::RNR_NANOS): 10 µs (code 1) by default. It sends `Reliability::not_ready_retries` times, so
    /// where that is less than for ever this bounds how late a receive may be.
    pub not_ready: u8,
}

impl Default for Connect {
    fn default() -> Connect {
        Connect { mtu: Mtu::default(), reliability: Reliability::default(), not_ready: 1 }
    }
}

/// A ring as the host fills it.
pub(crate) struct Wq {
    pub ring: Ring,
    pub most: u32,
    pub ids: Vec<u64>,
    pub head: u32,
    pub tail: u32,
}

impl Wq {
    fn place(&self) -> u32 {
        self.head & (self.ring.entries - 1)
    }

    fn take(&mut self, id: u64) -> Result<u32, VerbsError> {
        if self.head.wrapping_sub(self.tail) >= self.most {
            return Err(VerbsError::Full);
        }
        let place = self.place();
        self.ids[place as usize] = id;
        Ok(place)
    }

    /// The poster's number of entry `index`, up to which all is complete.
    fn completed(&mut self, index: u16) -> u64 {
        self.tail = self.tail.wrapping_add(u32::from(index.wrapping_sub(self.tail as u16)));
        let id = self.ids[(self.tail & (self.ring.entries - 1)) as usize];
        self.tail = self.tail.wrapping_add(1);
        id
    }
}

/// What of a queue pair completion queues need.
pub(crate) struct Rings {
    pub memory: Declared,
    pub send: Mutex<Wq>,
    pub receive: Mutex<Wq>,
}

fn lock(queue: &Mutex<Wq>) -> MutexGuard<'_, Wq> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rings {
    /// The completion with the poster's number.
    pub fn completed(&self, done: Completion) -> Completion {
        let queue = if done.kind.is_receive() { &self.receive } else { &self.send };
        Completion { id: lock(queue).completed(done.id as u16), ..done }
    }
}

/// A queue pair.
pub struct Qp {
    pub(crate) pd: Pd,
    pub(crate) number: u32,
    pub(crate) psn: u32,
    pub(crate) pieces: u32,
    pub(crate) rings: Arc<Rings>,
    pub(crate) exported: AtomicBool,
    /// Structures that kernels have of it.
    pub(crate) kernel: Mutex<Option<KernelMem>>,
    /// Where it completes.
    _queues: [Arc<Held>; 2],
}

impl Pd {
    /// Makes a queue pair, whose requests complete in `send` and whose receives in `receive`; connect it before use.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub fn qp(&self, attributes: QpAttributes, send: &Cq, receive: &Cq) -> Result<Qp, VerbsError> {
        let context = &self.context;
        if !Arc::ptr_eq(context, &send.held.context) || !Arc::ptr_eq(context, &receive.held.context) {
            return Err(VerbsError::Context("completion queue"));
        }
        for depth in [attributes.sends, attributes.receives] {
            if !(1..=MOST).contains(&depth) {
                return Err(VerbsError::Depth(depth, MOST));
            }
        }
        let most = if context.format == Format::Mlx5 { 2 } else { PIECES };
        if !(1..=most).contains(&attributes.pieces) {
            return Err(VerbsError::Pieces(attributes.pieces, most));
        }
        let (memory, send_ring, receive_ring) = rings(self, &attributes)?;
        let hca = Attributes {
            domain: self.domain,
            access: attributes.access,
            send_depth: send_ring.entries as usize,
            receive_depth: receive_ring.entries as usize,
            credits: true,
        };
        let number = context.front(|front| -> Result<u32, VerbsError> {
            let number = front.hca.create_qp(hca, send.id(), receive.id())?;
            if let Err(error) = front.attach(number, send_ring, receive_ring) {
                let _ = front.destroy_qp(number);
                return Err(error.into());
            }
            Ok(number)
        })?;
        let queue = |ring: Ring, most| {
            Mutex::new(Wq { ring, most, ids: vec![0; ring.entries as usize], head: 0, tail: 0 })
        };
        let (sends, receives) =
            (queue(send_ring, attributes.sends), queue(receive_ring, attributes.receives));
        let rings = Arc::new(Rings { memory, send: sends, receive: receives });
        context.qps().insert(number, Arc::downgrade(&rings));
        let pd = Pd { context: context.clone(), domain: self.domain };
        // Any number serves; this one has numbers wrap around early.
        let psn = 0xff_ff00u32.wrapping_add(number * 7) & 0xff_ffff;
        let (exported, kernel) = (AtomicBool::new(false), Mutex::new(None));
        let _queues = [send.held.clone(), receive.held.clone()];
        Ok(Qp { pd, number, psn, pieces: attributes.pieces, rings, exported, kernel, _queues })
    }
}

/// Memory for both rings and their records.
fn rings(pd: &Pd, attributes: &QpAttributes) -> Result<(Declared, Ring, Ring), VerbsError> {
    let context = &pd.context;
    // A request of an atomic operation has 48 bytes before local memory; mlx5's blocks have 64.
    let request =
        if context.format == Format::Mlx5 { 64 } else { (48 + 16 * attributes.pieces).next_power_of_two() };
    // Room that an adapter may read ahead: 2,048 bytes and one.
    let spare = 2048 / request + 1;
    let sends = (attributes.sends + spare).next_power_of_two();
    let receives = attributes.receives.next_power_of_two();
    let piece = (16 * attributes.pieces).next_power_of_two();
    let (send_len, receive_len) =
        (u64::from(sends * request), u64::from(receives * piece).next_multiple_of(64));
    let size = (send_len + receive_len + 128) as usize;
    let memory = Declared::alloc(&context.memory, &context.processor, size, attributes.placement)?;
    let at = memory.address();
    let record = at + send_len + receive_len;
    let send = Ring { buffer: at, entries: sends, stride: request, record: record + 64 };
    let receive = Ring { buffer: at + send_len, entries: receives, stride: piece, record };
    Ok((memory, send, receive))
}

impl Qp {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.pd.context.front(|front| front.hca.qp(self.number).map_or(State::Error, |qp| qp.state()))
    }

    /// What the peer needs to connect to it.
    pub fn endpoint(&self) -> Endpoint {
        let address = self.pd.context.network.address(self.pd.context.number);
        Endpoint { address, qp: self.number, psn: self.psn }
    }

    /// Connects it to a peer, which does the same.
    ///
    /// # Errors
    /// [`VerbsError::Hca`].
    pub fn connect(&self, peer: &Endpoint, options: Connect) -> Result<(), VerbsError> {
        let Connect { mtu, reliability, not_ready } = options;
        let connection = Connection {
            flow: Flow::new(self.endpoint().address, peer.address, 0xc000 | (self.number & 0x3fff) as u16),
            peer: peer.qp,
            mtu,
            receive_psn: peer.psn,
            responses: reliability.reads,
            not_ready,
        };
        let reliability = Reliability { send_psn: self.psn, ..reliability };
        self.pd.context.front(|front| -> Result<(), VerbsError> {
            front.hca.init(self.number)?;
            front.hca.ready_to_receive(self.number, connection)?;
            front.hca.ready_to_send(self.number, reliability)?;
            Ok(())
        })
    }

    /// Whoever calls it holds the queue, as an export does.
    fn for_the_host(&self) -> Result<(), VerbsError> {
        if self.exported.load(Ordering::Relaxed) { Err(VerbsError::Exported("queue pair")) } else { Ok(()) }
    }

    /// Posts a request, from the host.
    ///
    /// # Errors
    /// [`VerbsError::Full`], [`VerbsError::Pieces`], [`VerbsError::Exported`]; nothing was posted then.
    pub fn post_send(&self, work: &SendWork) -> Result<(), VerbsError> {
        let pieces = work.local.iter().count() as u32;
        if pieces > self.pieces {
            return Err(VerbsError::Pieces(pieces, self.pieces));
        }
        let mut queue = lock(&self.rings.send);
        self.for_the_host()?;
        let place = queue.take(work.id)?;
        let mut bytes = [0; 128];
        let round = queue.head & queue.ring.entries != 0;
        let format = self.pd.context.format;
        let written = match format {
            Format::Mlx4 => mlx4::write(work, round, &mut bytes),
            Format::Mlx5 => mlx5::write(work, self.number, queue.head as u16, &mut bytes),
        };
        let len = written.ok_or(VerbsError::Pieces(pieces, self.pieces))?;
        let buffer = &self.rings.memory.buffer;
        let at = (place * queue.ring.stride) as usize;
        buffer.write(at + 8, &bytes[8..len])?;
        let first = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[byte]));
        buffer.store_u64(at, first)?;
        queue.head = queue.head.wrapping_add(1);
        if format == Format::Mlx5 {
            let record = (queue.ring.record - buffer.address()) as usize;
            buffer.store_u32(record, (queue.head & 0xffff).to_be())?;
        }
        drop(queue);
        self.pd.context.network.ring(self.pd.context.number, self.number);
        Ok(())
    }

    /// Posts a receive, from the host.
    ///
    /// # Errors
    /// As [`post_send`](Qp::post_send).
    pub fn post_receive(&self, work: &ReceiveWork) -> Result<(), VerbsError> {
        let pieces = work.local.iter().count() as u32;
        if pieces > self.pieces {
            return Err(VerbsError::Pieces(pieces, self.pieces));
        }
        let mut queue = lock(&self.rings.receive);
        self.for_the_host()?;
        let place = queue.take(work.id)?;
        let mut bytes = Vec::with_capacity(64);
        for sge in work.local.iter() {
            bytes.extend_from_slice(&sge.len.to_be_bytes());
            bytes.extend_from_slice(&sge.lkey.to_be_bytes());
            bytes.extend_from_slice(&sge.address.to_be_bytes());
        }
        if bytes.len() < queue.ring.stride as usize {
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&mlx4::INVALID_LKEY.to_be_bytes());
            bytes.extend_from_slice(&[0; 8]);
        }
        let buffer = &self.rings.memory.buffer;
        let start = (queue.ring.buffer - buffer.address()) as usize;
        buffer.write(start + (place * queue.ring.stride) as usize, &bytes)?;
        queue.head = queue.head.wrapping_add(1);
        let record = (queue.ring.record - buffer.address()) as usize;
        buffer.store_u32(record, (queue.head & 0xffff).to_be())?;
        Ok(())
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        let context = &self.pd.context;
        context.qps().remove(&self.number);
        let kernel = self.kernel.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernel {
            let _ = context.leave(self.number, kernel.address());
            context.doorbells.leave(self.number);
        }
        let _ = context.front(|front| front.destroy_qp(self.number));
    }
}
