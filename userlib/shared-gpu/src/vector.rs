//! Where a call's vectors lie.

use ggas_kernels::KernelMem;

use crate::{Collective, Element, SharedGpuError};

/// A vector: where it lies in memory of the rank's processor. It begins at a multiple of its elements' size.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    memory: &'a KernelMem,
    offset: usize,
}

impl<'a> Vector<'a> {
    /// At a byte of this memory.
    pub fn at(memory: &'a KernelMem, offset: usize) -> Vector<'a> {
        Vector { memory, offset }
    }

    pub(crate) fn check(&self, count: usize, element: Element) -> Result<u64, SharedGpuError> {
        let end = count.checked_mul(element.size()).and_then(|bytes| bytes.checked_add(self.offset));
        let is_inside = end.is_some_and(|end| end <= self.memory.len());
        if !is_inside || !self.offset.is_multiple_of(element.size()) {
            return Err(SharedGpuError::Range { offset: self.offset, count, bytes: self.memory.len() });
        }
        Ok(self.memory.address() + self.offset as u64)
    }
}

/// Whether a call's `(input, output)` share no bytes, but where a reduction's result takes the place of its input, and where an allgather's input
/// is this rank's part of the result: what comes for one would be read as the other. `bytes` is what a [`Plan`](crate::plan::Plan) has.
pub(crate) fn check_apart(
    kind: Collective,
    (input, output): (u64, u64),
    bytes: usize,
    (rank, ranks): (usize, usize),
) -> Result<(), SharedGpuError> {
    let (ins, outs, in_place) = match kind {
        Collective::Broadcast | Collective::Barrier => return Ok(()),
        // Who is not the root has no result.
        Collective::Reduce if output == 0 => return Ok(()),
        Collective::Reduce | Collective::Allreduce => (bytes, bytes, input == output),
        Collective::Allgather => (bytes, ranks * bytes, input == output + (rank * bytes) as u64),
        Collective::Alltoall => (ranks * bytes, ranks * bytes, false),
        Collective::ReduceScatter => (bytes, bytes / ranks, false),
    };
    let end = (input + ins as u64).min(output + outs as u64);
    if !in_place && input.max(output) < end {
        return Err(SharedGpuError::Overlap { input: ins, output: outs });
    }
    Ok(())
}
