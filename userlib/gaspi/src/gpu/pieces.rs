//! Collectives of vectors in GPU memory through the host, some elements at a time, by the group's allreduce.

use super::reduce::{Call, What};
use crate::{Datatype, Gaspi, GaspiError, Operation};

impl Gaspi {
    /// What moves is the sum of one member's words and the others' zeros, which has any word's bits. An allgather moves the members'
    /// vectors one behind the other. `done`: elements that a call which timed out was done with.
    ///
    /// # Safety
    /// The call's vectors are there, and nobody else uses them meanwhile.
    pub(super) unsafe fn in_pieces(
        &self,
        done: &mut usize,
        group: u8,
        ranks: &[u16],
        call: &Call,
    ) -> Result<(), GaspiError> {
        let (size, count, me) = (call.datatype.size(), call.count, self.rank());
        let most = self.config().allreduce_elem_max.max(1) as usize;
        let (clock, began) = (self.shared.clock(), self.shared.clock().now());
        let vectors = if call.what == What::Allgather { ranks.len() } else { 1 };
        let words = match size {
            1 => Datatype::Uint8,
            2 => Datatype::Uint16,
            4 => Datatype::Uint,
            _ => Datatype::Ulong,
        };
        let mut at = std::mem::take(done);
        while at < vectors * count {
            let (vector, within) = (at / count, at % count);
            let mut piece = vec![0; most.min(count - within) * size];
            let (gives, takes, kind) = match call.what {
                What::Allreduce(operation) => (true, true, (operation, call.datatype)),
                What::Reduce(operation, root) => (true, me == root, (operation, call.datatype)),
                What::Broadcast(root) => (me == root, me != root, (Operation::Sum, words)),
                What::Allgather => (ranks.get(vector) == Some(&me), true, (Operation::Sum, words)),
            };
            if gives {
                // SAFETY: the caller's promise: within the vector.
                unsafe { self.fetch_raw(call.send.add(within * size), &mut piece) }?;
            }
            match self.allreduce(group, &piece, kind.0, kind.1, call.timeout.left(clock, began)) {
                // SAFETY: likewise.
                Ok(sum) if takes => unsafe { self.give_raw(call.receive.add(at * size), &sum) }?,
                Ok(_) => {}
                Err(error) => {
                    if error == GaspiError::Timeout {
                        *done = at;
                    }
                    return Err(error);
                }
            }
            at += piece.len() / size;
        }
        Ok(())
    }
}
