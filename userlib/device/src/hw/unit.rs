//! What a port of RMA and one of VELO have in common: a file, registers, a queue, and sleeping for it.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use extoll_abi::bindings::{EXTOLL_WAIT_TIMER, extoll_port_open, extoll_wait};
use extoll_abi::{Address, BqReadPointer};
use ggas_clock::Clock;
use nix::errno::Errno;

use super::file::{CardFile, failed};
use super::map::Mapping;
use crate::{DeviceError, PAGE, RegisterMap, UnitDevice};

/// The driver sleeps this long at most before the caller's own condition is looked at again.
const SLICE: Duration = Duration::from_millis(50);
/// Between two looks while the queue holds something that the caller does not want.
const NAP: Duration = Duration::from_millis(1);

/// Posts between two looks at the WCB state: each is a load over the bus.
const WCB_BATCH: u8 = 64;

/// Where the parts of a unit are mapped from, and which words of the queue say that a slot is filled.
pub(super) struct Layout {
    pub(super) unit: u64,
    pub(super) requester: u64,
    pub(super) wcb: u64,
    pub(super) rp: u64,
    pub(super) queue: u64,
}

/// An open port of one unit.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) address: Address,
    pub(super) requester: Mapping,
    wcb: Mapping,
    rp: Mapping,
    pub(super) queue: Mapping,
    pub(super) slots: u32,
    slot_bytes: usize,
    unit: u32,
    /// What the read-pointer register was last written with.
    index: AtomicU32,
    /// `None` once closed. Those who sleep in the driver hold it a little longer.
    file: Mutex<Option<Arc<CardFile>>>,
}

impl Unit {
    /// Maps what `open` says.
    pub(super) fn new(
        file: CardFile,
        open: &extoll_port_open,
        layout: &Layout,
        pages: u32,
        queue_bytes: u32,
        slot_bytes: u32,
    ) -> Result<Unit, DeviceError> {
        Ok(Unit {
            address: Address::new(open.node as u16, open.vpid as u8),
            requester: Mapping::requester(&file, layout.requester, pages)?,
            wcb: Mapping::new(&file, layout.wcb, PAGE, "the WCB state register")?,
            rp: Mapping::new(&file, layout.rp, PAGE, "the read-pointer register")?,
            queue: Mapping::new(&file, layout.queue, queue_bytes as usize, "a queue")?,
            slots: queue_bytes / slot_bytes,
            slot_bytes: slot_bytes as usize,
            unit: layout.unit as u32,
            index: AtomicU32::new(0),
            file: Mutex::new(Some(Arc::new(file))),
        })
    }

    /// The file of an open port.
    pub(super) fn file(&self) -> Result<Arc<CardFile>, DeviceError> {
        self.lock().clone().ok_or(DeviceError::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<CardFile>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn registers(&self) -> RegisterMap {
        RegisterMap { read_pointer: self.rp.word(0), wcb_state: self.wcb.word(0) }
    }

    /// Told at each free: a peer may count on all the room that there is, and a card that knows of less drops what comes.
    #[inline]
    fn set_read_pointer(&self, index: u32, rearm: bool) {
        self.index.store(index, Ordering::Relaxed);
        self.write_pointer(index, rearm);
    }

    #[inline]
    fn write_pointer(&self, index: u32, rearm: bool) {
        // SAFETY: the register is mapped as long as `self` lives. Release: slots were freed before.
        unsafe { self.rp.word(0).as_ref() }.store(BqReadPointer::new(index, rearm).0, Ordering::Release);
    }

    /// Stores one word to a requester page.
    #[inline]
    pub(super) fn store(&self, page: usize, offset: u64, value: u64) {
        let register = self.requester.register::<u64>(page * PAGE + (offset as usize & (PAGE - 8)));
        // SAFETY: the card takes any value there.
        unsafe { register.write(value) };
    }

    /// The last word of a slot, which is not 0 in a filled one.
    fn mark(&self, index: u32) -> NonNull<AtomicU64> {
        self.queue.word((index % self.slots) as usize * self.slot_bytes + self.slot_bytes - 8)
    }

    /// Sleeps until the slot at the read pointer is filled, `ready` says so, or time is over.
    ///
    /// The driver writes the read pointer that it is given. Another thread may have moved it on meanwhile: then it
    /// stands too low, which keeps slots occupied and nothing else, until this thread writes the right one below.
    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration) {
        let end = Clock::REAL.deadline(timeout);
        while !ready() {
            let left = end.saturating_duration_since(Clock::REAL.now()).min(SLICE);
            let Ok(file) = self.file() else { return };
            if left.is_zero() {
                return;
            }
            let index = self.index.load(Ordering::Relaxed);
            // SAFETY: the queue is mapped as long as `self` lives.
            if unsafe { self.mark(index).as_ref() }.load(Ordering::Acquire) != 0 {
                Clock::REAL.sleep(left.min(NAP));
                continue;
            }
            let mut wait = extoll_wait {
                unit: self.unit,
                flags: EXTOLL_WAIT_TIMER as u32,
                index,
                reserved: 0,
                timeout_ns: left.as_nanos() as u64,
            };
            let slept = file.wait(&mut wait);
            let now = self.index.load(Ordering::Relaxed);
            if now != index {
                self.write_pointer(now, false);
            }
            match slept {
                Ok(()) | Err(Errno::ETIMEDOUT | Errno::EINTR) => {}
                Err(errno) => {
                    // The caller goes on to its timeout, without a busy loop.
                    let error = failed("waiting for a queue", errno);
                    tracing::error!(port = %self.address, "{error}");
                    Clock::REAL.sleep(left);
                    return;
                }
            }
        }
    }

    /// Gives the port back: the driver waits until the card has finished with its memory.
    pub(super) fn close(&self) {
        if let Some(file) = self.lock().take() {
            for mapping in [&self.requester, &self.wcb, &self.rp, &self.queue] {
                mapping.let_go();
            }
            drop(file);
        }
    }
}

/// A port, of either unit: what [`UnitDevice`] asks of it, its unit does.
pub(super) trait OfUnit: Debug + Send + Sync {
    fn unit(&self) -> &Unit;
}

impl<P: OfUnit> UnitDevice for P {
    fn address(&self) -> Address {
        self.unit().address
    }

    #[inline]
    fn set_read_pointer(&self, index: u32, rearm: bool) {
        self.unit().set_read_pointer(index, rearm);
    }

    fn is_hardware(&self) -> bool {
        true
    }

    fn registers(&self) -> RegisterMap {
        self.unit().registers()
    }

    fn wcb_batch(&self) -> u8 {
        WCB_BATCH
    }

    #[inline]
    fn fence(&self) {
        flush_stores();
    }

    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration) {
        self.unit().sleep_until(ready, timeout);
    }

    fn close(&self) -> Result<(), DeviceError> {
        self.unit().close();
        Ok(())
    }
}

/// Empties the CPU's write-combining buffers.
#[inline]
pub(super) fn flush_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it changes no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
