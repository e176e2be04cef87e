//! Atomics of others on parts in GPU memory: on the model the GPU's copier does them, while its kernel runs.

use ggas_device::Kind;
use ggas_gpu::{Copier, CopierGuard};
use ggas_kernels::Processor;
use ggas_rma::Node;

use crate::memory::gpu_of;

/// Starts the copier of the GPU where a member's kernels run, for as long as the window lives: before those kernels, beside which there may
/// be no room. `None` where there is no GPU, where it is not the model that others' accesses pass, and where the copier does not start.
pub(crate) fn arm(node: &Node, processor: &Processor) -> Option<CopierGuard> {
    let gpu = gpu_of(processor).filter(|_| node.info().kind == Kind::Sim)?;
    let armed = Copier::of(&gpu).and_then(|copier| copier.arm());
    armed
        .inspect_err(|error| {
            tracing::warn!("others have no atomics on GPU {}'s part: {error}", gpu.ordinal())
        })
        .ok()
}
