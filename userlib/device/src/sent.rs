//! What the host of this process sends by ports, or in other ways, where `GGAS_TRACE` asks.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use extoll_abi::{Address, Descriptor, Modifier, Request, VeloHeader};
use ggas_members::{Lasting, Trace};

use crate::Device;

/// Bytes of a notification, and of the operands of a lock operation.
const WORD: u64 = 8;

/// Counts what the host of this process sends to others and gets from them. In the process's trace once it goes or ends, or the
/// process ends by `exit`.
pub struct Sent {
    device: Arc<dyn Device>,
    counts: Lasting<Counts>,
}

struct Counts {
    trace: Trace,
    device: Arc<dyn Device>,
    /// To and from ports that nobody had when something was sent there: bytes, and how often.
    unknown: HashMap<Address, [[u64; 2]; 2]>,
}

/// A trace of the process that has a device, if `GGAS_TRACE` asks for it. A process that a rank started, and that is no rank, has none.
pub fn trace_of(device: &dyn Device) -> Option<Trace> {
    let (number, ranks) = (device.process() as usize, device.ranks().map(|ranks| ranks as usize));
    if ranks.is_some_and(|ranks| number >= ranks) {
        return None;
    }
    Trace::asked(None, number, ranks)
}

impl Sent {
    /// Of the process that has a device, if `GGAS_TRACE` asks for it.
    pub fn asked(device: &Arc<dyn Device>) -> Option<Arc<Sent>> {
        let trace = trace_of(&**device)?;
        let counts = Counts { trace, device: device.clone(), unknown: HashMap::new() };
        Some(Arc::new(Sent { device: device.clone(), counts: Lasting::new(counts) }))
    }

    /// Counts a descriptor that was posted: what a put or get moves, and the words of other commands. To a multicast group it counts
    /// nothing.
    pub fn posted(&self, words: &[u64; 3]) {
        let Ok((header, request)) = Descriptor::from(*words).decode() else { return };
        if header.modifier.contains(Modifier::MC) {
            return;
        }
        match request {
            Request::Get { size, .. } => self.moved(header.dst, u64::from(size), true),
            Request::Put { size, .. } => self.moved(header.dst, u64::from(size), false),
            Request::ImmediatePut { count, .. } => self.moved(header.dst, u64::from(count), false),
            Request::NotificationPut { .. } | Request::Lock { .. } => self.moved(header.dst, WORD, false),
        }
    }

    /// Counts a message by its header. To a multicast group it counts nothing.
    pub fn message(&self, header: u64) {
        if let Ok(VeloHeader { destination, multicast: false, length, .. }) = VeloHeader::decode(header) {
            self.moved(destination, length.into(), false);
        }
    }

    /// Counts bytes to or from the process that has a port.
    fn moved(&self, port: Address, bytes: u64, is_got: bool) {
        let process = self.device.process_of(port);
        self.counts.with(|counts| match process {
            Some(process) => counts.add(process, [bytes, 1], is_got),
            None => {
                let sum = &mut counts.unknown.entry(port).or_default()[usize::from(is_got)];
                *sum = [sum[0].saturating_add(bytes), sum[1] + 1];
            }
        });
    }

    /// Counts bytes to a process, which went there in some other way.
    pub fn to(&self, process: u32, bytes: u64) {
        self.counts.with(|counts| counts.add(process, [bytes, 1], false));
    }

    /// Counts bytes from a process.
    pub fn got(&self, process: u32, bytes: u64) {
        self.counts.with(|counts| counts.add(process, [bytes, 1], true));
    }

    /// Nothing is counted any more. Does nothing in a child made by `fork`.
    pub fn end(&self) {
        self.counts.end();
    }
}

impl Counts {
    fn add(&mut self, process: u32, sum: [u64; 2], is_got: bool) {
        match is_got {
            true => self.trace.add_got(process as usize, sum),
            false => self.trace.add(process as usize, sum),
        }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        if !self.trace.is_own() {
            return;
        }
        for (port, sums) in std::mem::take(&mut self.unknown) {
            let Some(process) = self.device.process_of(port) else {
                tracing::warn!("a trace is not complete: whose port {port} is, nobody knows");
                continue;
            };
            for (sum, is_got) in sums.into_iter().zip([false, true]) {
                self.add(process, sum, is_got);
            }
        }
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("device", &self.device).finish_non_exhaustive()
    }
}
