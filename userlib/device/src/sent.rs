//! What the host of this process sends by ports, or in other ways, where `GGAS_TRACE` asks.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak};

use extoll_abi::{Address, Descriptor, Modifier, Request, VeloHeader};
use ggas_clock::Clock;
use ggas_members::Trace;

use crate::Device;

/// Bytes of a notification, and of the operands of a lock operation.
const WORD: u64 = 8;

/// Counts what the host of this process sends to others and gets from them. In the process's trace once it is written, it goes, or the
/// process ends by `exit`.
pub struct Sent {
    device: Arc<dyn Device>,
    counts: Mutex<Counts>,
}

struct Counts {
    trace: Trace,
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

/// Of all that are there, for the end of the process.
static ALL: Mutex<Vec<Weak<Sent>>> = Mutex::new(Vec::new());
/// The process that has them.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Looks at a lock as the process ends.
const TRIES: u32 = 100_000;
static AT_EXIT: Once = Once::new();

impl Sent {
    /// Of the process that has a device, if `GGAS_TRACE` asks for it.
    pub fn asked(device: &Arc<dyn Device>) -> Option<Arc<Sent>> {
        let trace = trace_of(&**device)?;
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        let counts = Mutex::new(Counts { trace, unknown: HashMap::new() });
        let sent = Arc::new(Sent { device: device.clone(), counts });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&sent));
        // SAFETY: the handler needs nothing but statics.
        AT_EXIT.call_once(|| unsafe {
            libc::atexit(write_all);
        });
        Some(sent)
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
        let mut counts = self.counts();
        match process {
            Some(process) => counts.add(process, [bytes, 1], is_got),
            None => {
                let sum = &mut counts.unknown.entry(port).or_default()[usize::from(is_got)];
                *sum = [sum[0].saturating_add(bytes), sum[1] + 1];
            }
        }
    }

    /// Counts bytes to a process, which went there in some other way.
    pub fn to(&self, process: u32, bytes: u64) {
        self.counts().add(process, [bytes, 1], false);
    }

    /// Counts bytes from a process.
    pub fn got(&self, process: u32, bytes: u64) {
        self.counts().add(process, [bytes, 1], true);
    }

    /// Writes the trace as far as it is.
    pub fn write(&self) {
        // In a child made by fork the lock may be a thread's that it has not.
        if is_own() {
            self.write_counts(self.counts());
        }
    }

    fn write_counts(&self, mut counts: MutexGuard<'_, Counts>) {
        let unknown = std::mem::take(&mut counts.unknown);
        for (port, sums) in unknown {
            let Some(process) = self.device.process_of(port) else {
                tracing::warn!("a trace is not complete: whose port {port} is, nobody knows");
                continue;
            };
            for (sum, is_got) in sums.into_iter().zip([false, true]) {
                counts.add(process, sum, is_got);
            }
        }
        counts.trace.write();
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Programs may end without closing what they opened.
extern "C" fn write_all() {
    if !is_own() {
        return;
    }
    let all = soon(&ALL).map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    for sent in all.iter().filter_map(Weak::upgrade) {
        match soon(&sent.counts) {
            Some(counts) => sent.write_counts(counts),
            None => tracing::warn!("a trace is not complete: the process ended while something was posted"),
        }
    }
}

/// Whether the process is the one that has the counts, and not a child of it made by fork.
fn is_own() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// A lock that others have for a moment, or that what `exit` has interrupted has.
fn soon<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let clock = Clock::real();
    (0..TRIES).find_map(|_| match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => {
            clock.yield_now();
            None
        }
    })
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.write();
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("device", &self.device).finish_non_exhaustive()
    }
}
