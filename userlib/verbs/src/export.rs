//! Objects as kernels see them (thesis Listings 5.1, 5.2): structures in kernel memory, copied there; the thesis starts a kernel for
//! each.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::layout::{ggas_ibv_cq, ggas_ibv_qp, ggas_ibv_wq};
use crate::qp::Wq;
use crate::{Cq, Qp, VerbsError};

/// The bytes of a structure of `layout`: plain numbers without padding.
pub(crate) fn bytes<T: Copy>(structure: &T) -> &[u8] {
    // SAFETY: structures of the layout are numbers of fixed width without padding (bindgen checks their sizes).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(structure).cast(), size_of::<T>()) }
}

impl Qp {
    /// Gives it to kernels, with what the host has posted: their `struct ggas_ibv_qp` is at the address returned, as long as the queue
    /// pair lives. The host may not post any more. A second call returns the same address.
    ///
    /// # Errors
    /// [`VerbsError::Memory`]; [`VerbsError::Exports`] where the context has as many as kernels can find.
    pub fn export(&self) -> Result<u64, VerbsError> {
        let context = &self.pd.context;
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = &*kernel {
            return Ok(memory.address());
        }
        let send = self.rings.send.lock().unwrap_or_else(PoisonError::into_inner);
        let receive = self.rings.receive.lock().unwrap_or_else(PoisonError::into_inner);
        let start = size_of::<ggas_ibv_qp>().next_multiple_of(64);
        let words = (send.ring.entries + receive.ring.entries) as usize * 8;
        let memory = context.processor.alloc(start + words)?;
        let ids = memory.address() + start as u64;
        let structure = ggas_ibv_qp {
            ctx: context.kernel.address(),
            send: exported(&send, ids, self.pieces),
            receive: exported(&receive, ids + u64::from(send.ring.entries) * 8, self.pieces),
            number: self.number,
            doorbell: (self.number << 8).to_be(),
            spare: 2048 / send.ring.stride + 1,
            reserved: 0,
            ring: context.doorbells.enter(context.format, self.number)?,
        };
        memory.write(0, bytes(&structure))?;
        memory.write_u64s(start, &send.ids)?;
        memory.write_u64s(start + send.ids.len() * 8, &receive.ids)?;
        context.enter(self.number, memory.address())?;
        self.exported.store(true, Ordering::Relaxed);
        let address = memory.address();
        *kernel = Some(memory);
        Ok(address)
    }
}

fn exported(queue: &Wq, ids: u64, sges: u32) -> ggas_ibv_wq {
    ggas_ibv_wq {
        buffer: queue.ring.buffer,
        record: queue.ring.record,
        ids,
        entries: queue.ring.entries,
        stride: queue.ring.stride,
        most: queue.most,
        sges,
        head: queue.head,
        tail: queue.tail,
    }
}

impl Cq {
    /// Gives it to kernels, in `memory` at `offset`, which has room for a `struct ggas_ibv_cq`. They go on where the host's polls ended,
    /// in each structure that is made; the host may not poll any more.
    ///
    /// # Errors
    /// [`VerbsError::Memory`]; [`VerbsError::Offset`], which is no multiple of 8.
    pub fn export(&self, memory: &ggas_kernels::KernelMem, offset: usize) -> Result<u64, VerbsError> {
        if !offset.is_multiple_of(8) {
            return Err(VerbsError::Offset(offset));
        }
        // Held until polls are refused.
        let consumed = self.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        let structure = ggas_ibv_cq {
            ctx: self.held.context.kernel.address(),
            buffer: self.ring.buffer,
            record: self.ring.record,
            entries: self.ring.entries,
            consumed: *consumed,
        };
        memory.write(offset, bytes(&structure))?;
        self.exported.store(true, Ordering::Relaxed);
        Ok(memory.address() + offset as u64)
    }
}
