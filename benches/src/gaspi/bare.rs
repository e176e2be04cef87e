//! Our own puts with notifications between two processes, below GASPI and beside it.

use std::time::Duration;

use ggas::{Connection, HostBuffer, Port, PortConfig, Region, Spec};
use ggas_gaspi::Gaspi;

use crate::BenchError;
use crate::error::Doing;

/// Bound of each wait.
const SOON: Duration = Duration::from_secs(60);

/// An end of two, with a source and behind it a place of arrival of the same size.
pub(super) struct Bare {
    pub port: Port,
    memory: Region,
    connection: Connection,
    target: u64,
    bytes: usize,
}

impl Bare {
    /// All processes of the job open one; rank 0 and rank 1 are each other's peers.
    pub(super) fn open(gaspi: &Gaspi, bytes: usize) -> Result<Bare, BenchError> {
        let job = gaspi.job();
        let port = job.node().open_port(PortConfig::default()).doing("opening a port")?;
        let memory = HostBuffer::zeroed(2 * bytes).doing("allocating host memory")?;
        let memory = port.register(memory).doing("registering memory")?;
        let address = port.address();
        let own = (address.node, address.vpid, memory.nla(0).doing("naming memory")?);
        let all = job.exchange_values(&own, SOON).doing("exchanging addresses")?;
        let peer = usize::from(gaspi.rank() == 0).min(all.len() - 1);
        let (node, vpid, nla) = all[peer];
        let connection = port.connect(extoll_abi::Address::new(node, vpid));
        Ok(Bare { port, memory, connection, target: nla + bytes as u64, bytes })
    }

    pub(super) fn fill(&self, data: &[u8]) -> Result<(), BenchError> {
        self.memory.write(0, data).doing("filling the source")?;
        let poison = vec![0xee; self.bytes];
        self.memory.write(self.bytes, &poison).doing("filling the target")
    }

    pub(super) fn arrived(&self, bytes: usize) -> Result<Vec<u8>, BenchError> {
        let mut data = vec![0; bytes];
        self.memory.read(self.bytes, &mut data).doing("reading the target")?;
        Ok(data)
    }

    pub(super) fn put(&self, bytes: usize, spec: Spec) -> Result<(), BenchError> {
        self.connection.put(&self.memory, 0, bytes, self.target, spec).doing("posting a put")
    }

    /// Takes a notification, of what was sent or of what came.
    pub(super) fn consume(&self) -> Result<(), BenchError> {
        let notification = self.port.wait(SOON).doing("waiting for a notification")?;
        if notification.error().is_empty() {
            return Ok(());
        }
        Err(BenchError::Refused(format!("{notification:?}")))
    }
}
