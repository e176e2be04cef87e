//! A network in which payloads lie on another host.

use std::sync::Arc;

use extoll_abi::Address;
use extoll_sim::fabric::{Carriage, FabricError, Loopback};
use extoll_sim::memory::{Far, FarSource, TAIL};
use extoll_sim::packet::{Class, Packet, Payload};
use extoll_sim::runs::Runs;
use extoll_sim::{Fabric, Wake};

/// What carries a payload of one byte, many times, from a node; by the byte and the node.
type Source = Box<dyn Fn(u8, u16) -> Arc<dyn FarSource> + Send + Sync>;

/// In which payloads of at least so many bytes are those of other hosts.
pub struct FarAway {
    inner: Arc<Loopback>,
    least: usize,
    source: Source,
}

impl FarAway {
    pub fn new(
        least: usize,
        source: impl Fn(u8, u16) -> Arc<dyn FarSource> + Send + Sync + 'static,
    ) -> Arc<FarAway> {
        Arc::new(FarAway { inner: Loopback::new(4096, true), least, source: Box::new(source) })
    }
}

impl Fabric for FarAway {
    fn send(&self, from: u16, mut packet: Packet) -> Result<(), Packet> {
        if let Payload::ByReference(source) = &packet.payload
            && packet.len as usize >= self.least
        {
            // SAFETY: memory of a test, which nobody writes.
            let byte = unsafe { *(source.first.address as *const u8) };
            let far = Far::new((self.source)(byte, from), packet.len, [byte; TAIL]);
            packet.payload = Payload::Far(Box::new(far));
        }
        self.inner.send(from, packet)
    }

    fn poll(&self, node: u16, class: Class) -> Option<Packet> {
        self.inner.poll(node, class)
    }

    fn carriage(&self, to: Address, runs: &Runs) -> Carriage {
        self.inner.carriage(to, runs)
    }

    fn attach(&self, node: u16, wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        self.inner.attach(node, wake)
    }

    fn detach(&self, node: u16) {
        self.inner.detach(node);
    }
}
