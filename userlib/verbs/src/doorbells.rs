//! The page of doorbells: on the CPU executor stores to it are calls; what a GPU stores is seen by a thread that looks at the page.
//!
//! An adapter sees each store. Memory shows the last only, so on a GPU each exported queue pair has a doorbell of its own, and who
//! looks takes its value and leaves nothing: a ring that comes at that moment is in the value, or stands there at the next look.
//! Rings of one queue pair may become one, which then tells of all that was posted before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ggas_clock::{Backoff, Clock, Ladder};
use ggas_gpu::{Copier, CopierGuard};
use ggas_hca::Network;
use ggas_hca::formats::{Format, mlx4, mlx5};
use ggas_kernels::{KernelMem, MemoryError, Processor, mmio};

use crate::VerbsError;
use crate::context::QP_TABLE;

/// Bytes of an adapter's page of doorbells.
const PAGE: usize = 4096;
/// Bytes between two doorbells that are watched: no two writers have one line.
const APART: usize = 64;

/// Where kernels ring.
pub(crate) enum Doorbells {
    /// Stores are calls.
    Called { page: KernelMem, _guard: mmio::Guard },
    /// A thread looks.
    Watched(Watcher),
}

impl Doorbells {
    pub fn new(
        network: &Arc<Network>,
        number: usize,
        format: Format,
        processor: &Processor,
    ) -> Result<Doorbells, VerbsError> {
        if let Processor::Gpu(gpu) = processor {
            let copier =
                Copier::of(gpu.device()).and_then(|copier| copier.arm()).map_err(MemoryError::from)?;
            let page = Arc::new(Page {
                network: network.clone(),
                number,
                memory: processor.alloc_host(Page::bytes(format))?,
                format,
                slots: Mutex::new(Vec::new()),
            });
            return Ok(Doorbells::Watched(Watcher::start(page, copier)?));
        }
        let page = processor.alloc(PAGE)?;
        let range = page.address()..page.address() + PAGE as u64;
        let target = Arc::new(Called { network: network.clone(), number, format });
        let guard = mmio::register(range, target).map_err(|_| VerbsError::Doorbells)?;
        Ok(Doorbells::Called { page, _guard: guard })
    }

    /// Address of the page.
    pub fn address(&self) -> u64 {
        match self {
            Doorbells::Called { page, .. } => page.address(),
            Doorbells::Watched(watcher) => watcher.page.memory.address(),
        }
    }

    /// Address of a queue pair's doorbell: the page's, or its own where a thread watches.
    pub fn enter(&self, format: Format, qp: u32) -> Result<u64, VerbsError> {
        let behind = match self {
            Doorbells::Called { .. } => 0,
            Doorbells::Watched(watcher) => u64::from(watcher.page.enter(qp)?),
        };
        Ok(self.address() + behind + send_doorbell(format))
    }

    /// The queue pair is gone.
    pub fn leave(&self, qp: u32) {
        if let Doorbells::Watched(watcher) = self {
            watcher.page.leave(qp);
        }
    }
}

/// Where in the page a doorbell of requests lies.
fn send_doorbell(format: Format) -> u64 {
    match format {
        Format::Mlx4 => mlx4::SEND_DOORBELL,
        Format::Mlx5 => mlx5::SEND_DOORBELL,
    }
}

/// Stores of the executor's kernels.
struct Called {
    network: Arc<Network>,
    number: usize,
    format: Format,
}

impl mmio::MmioTarget for Called {
    fn store(&self, offset: u64, value: u64) {
        if self.format == Format::Mlx5 && offset == send_doorbell(self.format) {
            self.network.ring(self.number, (u64::from_be(value) as u32) >> 8);
        }
    }

    fn store_half(&self, offset: u64, value: u32) {
        if self.format == Format::Mlx4 && offset == send_doorbell(self.format) {
            self.network.ring(self.number, u32::from_be(value) >> 8);
        }
    }
}

/// Doorbells in memory, 0 where nobody rang.
struct Page {
    network: Arc<Network>,
    number: usize,
    memory: KernelMem,
    format: Format,
    /// The queue pair of each.
    slots: Mutex<Vec<Option<u32>>>,
}

impl Page {
    /// Where the word that names the queue pair lies in the first doorbell: mlx4's has only that one, mlx5's is the second of two.
    fn first(format: Format) -> usize {
        match format {
            Format::Mlx4 => send_doorbell(format) as usize,
            Format::Mlx5 => send_doorbell(format) as usize + 4,
        }
    }

    /// Room for a doorbell of each queue pair.
    fn bytes(format: Format) -> usize {
        (Page::first(format) + QP_TABLE as usize * APART).next_multiple_of(APART)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<u32>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, qp: u32) -> Result<u32, VerbsError> {
        let mut slots = self.slots();
        let free = slots.iter().position(|slot| slot.is_none()).unwrap_or(slots.len());
        if free >= QP_TABLE as usize {
            return Err(VerbsError::Exports(QP_TABLE));
        }
        if free == slots.len() {
            slots.push(None);
        }
        slots[free] = Some(qp);
        Ok((free * APART) as u32)
    }

    fn leave(&self, qp: u32) {
        self.slots().iter_mut().filter(|slot| **slot == Some(qp)).for_each(|slot| *slot = None);
    }

    /// Whether somebody rang.
    fn look(&self) -> bool {
        let mut any = false;
        for (i, qp) in self.slots().iter().enumerate() {
            let at = i * APART + Page::first(self.format);
            // In range and of the host, so there is no error. What another queue pair left is nobody's ring.
            let value = self.memory.take_u32(at).unwrap_or(0);
            if let Some(qp) = qp.filter(|qp| value != 0 && u32::from_be(value) >> 8 == *qp) {
                self.network.ring(self.number, qp);
                any = true;
            }
        }
        any
    }
}

/// A thread that looks at a page, and runs the adapters; it ends when this is dropped.
pub(crate) struct Watcher {
    page: Arc<Page>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(page: Arc<Page>, copier: CopierGuard) -> Result<Watcher, VerbsError> {
        let over = Arc::new(AtomicBool::new(false));
        let (watched, stop) = (page.clone(), over.clone());
        let watch = move || {
            // Queues in GPU memory are read and written by its copier while kernels wait.
            let _copier = copier;
            let new = || Backoff::endless(Ladder::DEVICE, Clock::REAL);
            let mut backoff = new();
            while !stop.load(Ordering::Acquire) {
                if watched.look() | watched.network.step() {
                    backoff = new();
                } else {
                    // Endless: it has no end to report.
                    let _ = backoff.pause();
                }
            }
        };
        let thread = std::thread::Builder::new().name("hca-doorbells".to_owned()).spawn(watch);
        Ok(Watcher { page, over, thread: Some(thread.map_err(VerbsError::Thread)?) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use extoll_sim::memory::HostMemory;
    use ggas_hca::Wire;

    use super::*;

    #[test]
    fn each_queue_pair_is_heard_once_for_what_it_rang() {
        [Format::Mlx4, Format::Mlx5].into_iter().for_each(heard_once);
    }

    fn heard_once(format: Format) {
        let network = Network::new(HostMemory::new(), Clock::real(), Wire::Packets);
        let memory = Processor::cpu().alloc_host(Page::bytes(format)).unwrap();
        let page = Page { network, number: 0, memory, format, slots: Mutex::default() };
        // As kernels ring: 4 bytes with the number, or the 8 that a request begins with.
        let ring = |slot: u32, qp: u32| match format {
            Format::Mlx4 => {
                let at = slot as usize + send_doorbell(format) as usize;
                page.memory.store_u32(at, (qp << 8).to_be()).unwrap();
            }
            Format::Mlx5 => {
                let at = slot as usize + send_doorbell(format) as usize;
                let control = 0x0000_0508_0000_0003 | u64::from(qp) << 8;
                page.memory.store_u64(at, control.to_be()).unwrap();
            }
        };
        let slots = [7, 300].map(|qp| page.enter(qp).unwrap());
        assert_eq!(slots, [0, 64]);
        assert!(!page.look());
        ring(slots[0], 7);
        ring(slots[1], 300);
        assert!(page.look() && !page.look());
        ring(slots[1], 300);
        ring(slots[1], 300);
        assert!(page.look() && !page.look(), "two rings of one queue pair are one");
        ring(slots[0], 300);
        assert!(!page.look(), "another queue pair's doorbell");
        page.leave(7);
        ring(slots[0], 7);
        assert!(!page.look(), "one that is gone");
        assert_eq!(page.enter(9).unwrap(), 0, "its place is free");
        assert!(!page.look(), "and holds no old ring");
        for qp in 0..QP_TABLE - 2 {
            page.enter(1000 + qp).unwrap();
        }
        assert!(matches!(page.enter(8), Err(VerbsError::Exports(QP_TABLE))));
    }
}
