//! Completion queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_hca::formats::{self, Format, mlx4, mlx5};
use ggas_hca::{Completion, CqId, Ring};

use crate::memory::Declared;
use crate::{Context, Placement, VerbsError};

/// Most entries of a completion queue.
const MOST: u32 = 1 << 15;

/// What a completion queue is made with.
#[derive(Clone, Copy, Debug)]
pub struct CqAttributes {
    /// Entries: at least as many as may complete before somebody polls. Rounded up to a power of two.
    pub entries: u32,
    /// Where it lies.
    pub placement: Placement,
}

impl Default for CqAttributes {
    fn default() -> CqAttributes {
        CqAttributes { entries: 256, placement: Placement::default() }
    }
}

/// What the adapter has of a completion queue: it writes there as long as queue pairs use it, which hold it, too.
pub(crate) struct Held {
    pub context: Arc<Context>,
    pub id: CqId,
    memory: Declared,
}

/// A completion queue.
pub struct Cq {
    pub(crate) held: Arc<Held>,
    pub(crate) ring: Ring,
    pub(crate) consumed: Mutex<u32>,
    pub(crate) exported: AtomicBool,
}

impl Context {
    /// Makes a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Depth`], [`VerbsError::Memory`].
    pub fn cq(self: &Arc<Context>, attributes: CqAttributes) -> Result<Cq, VerbsError> {
        if !(1..=MOST).contains(&attributes.entries) {
            return Err(VerbsError::Depth(attributes.entries, MOST));
        }
        let entries = attributes.entries.next_power_of_two();
        let stride = formats::completion_len(self.format) as u32;
        let size = entries as usize * stride as usize;
        let memory = Declared::alloc(&self.memory, &self.processor, size + 64, attributes.placement)?;
        let ring = Ring { buffer: memory.address(), entries, stride, record: memory.address() + size as u64 };
        let id = self.front(|front| front.create_cq(ring))?;
        let exported = AtomicBool::new(false);
        let held = Arc::new(Held { context: self.clone(), id, memory });
        Ok(Cq { held, ring, consumed: Mutex::new(0), exported })
    }
}

impl Cq {
    /// Its name in [`Event::Overrun`](ggas_hca::Event::Overrun).
    pub fn id(&self) -> CqId {
        self.held.id
    }

    /// Takes a completion, if there is one.
    ///
    /// # Errors
    /// [`VerbsError::Exported`] where kernels use the queue.
    pub fn poll(&self) -> Result<Option<Completion>, VerbsError> {
        let mut consumed = self.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        // Kernels go on from what is counted here: whoever counts meanwhile has to wait.
        if self.exported.load(Ordering::Relaxed) {
            return Err(VerbsError::Exported("completion queue"));
        }
        while let Some(bytes) = self.next(&mut consumed)? {
            // Those of queue pairs that are gone are nobody's.
            if let Some(done) = self.completion(&bytes) {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// Takes the next entry, if there is one.
    fn next(&self, consumed: &mut u32) -> Result<Option<[u8; 64]>, VerbsError> {
        let Held { context, memory, .. } = &*self.held;
        let Ring { entries, stride, .. } = self.ring;
        let at = ((*consumed & (entries - 1)) * stride) as usize;
        let round = *consumed & entries != 0;
        // The last word says whether the entry is there, and is written last.
        let last = memory.buffer.load_u64(at + stride as usize - 8)?.to_le_bytes()[7];
        let (owner, nobody) = match context.format {
            Format::Mlx4 => (last & 0x80 != 0, false),
            Format::Mlx5 => (last & 1 != 0, last >> 4 == 15),
        };
        if owner != round || nobody {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        memory.buffer.read(at, &mut bytes[..stride as usize])?;
        *consumed = (*consumed + 1) & 0xff_ffff;
        let record = (self.ring.record - memory.address()) as usize;
        memory.buffer.store_u32(record, consumed.to_be())?;
        Ok(Some(bytes))
    }

    /// What an entry says, with the poster's number.
    fn completion(&self, bytes: &[u8]) -> Option<Completion> {
        let context = &self.held.context;
        let (done, _) = match context.format {
            Format::Mlx4 => mlx4::read_completion(bytes),
            Format::Mlx5 => mlx5::read_completion(bytes),
        }?;
        let rings = context.qps().get(&done.qp)?.upgrade()?;
        Some(rings.completed(done))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.context.front(|front| front.hca.destroy_cq(self.id));
    }
}
