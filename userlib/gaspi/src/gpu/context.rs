//! What kernels get.

use extoll_abi::layout::{GGAS_GASPI_SEGMENTS, ggas_gaspi};
use ggas::kernels::KernelMem;
use ggas::{Processor, Queues, QueuesConfig, QueuesError, Way};

use crate::error::because;
use crate::{Gaspi, GaspiError, Timeout};

/// Most queues of kernels.
const QUEUES: u32 = extoll_abi::layout::GGAS_QUEUES;

/// What kernels of this process need to speak GASPI (`ggas/gaspi.cuh`): queues of their own, and the segments that they
/// reach, as they come and go. An extension.
#[derive(Debug)]
pub struct GpuContext {
    memory: KernelMem,
    queues: Queues,
    processor: Processor,
}

impl GpuContext {
    /// Address of the `struct ggas_gaspi`, for arguments of kernels. Valid until this is dropped.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Where the kernels run.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Whether all went well in kernels so far.
    ///
    /// # Errors
    /// [`QueuesError::PeerLost`], [`QueuesError::Failed`] with what the first kernel that failed reported.
    pub fn check(&self) -> Result<(), QueuesError> {
        self.queues.check()
    }

    /// Forgets what kernels reported. Not while they run.
    pub fn clear(&self) {
        self.queues.clear_reports();
    }
}

impl Gaspi {
    /// What this process's kernels need to use segments and notifications, with `queues` queues, 1 to 32. Collective over all
    /// processes, which have initialised their GPUs before; each drives a GPU of its own, and these reach each other, or all
    /// use the executor. `timeout` bounds the set-up and every wait of kernels; [`Timeout::Block`] stands for 10 s, and
    /// [`Timeout::Test`] is too short.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] before [`gpu_init`](Self::gpu_init); [`GaspiError::Number`] for too many queues or none;
    /// [`GaspiError::Device`] where kernels of one process do not reach another, and where a process does not call.
    pub fn gpu_context(&self, queues: u32, timeout: Timeout) -> Result<GpuContext, GaspiError> {
        if !(1..=QUEUES).contains(&queues) {
            return Err(GaspiError::Number);
        }
        let (processor, table) = self.shared.gpu.kernels().ok_or(GaspiError::Failed)?;
        let usual = QueuesConfig { queues, flags: 1, way: Way::Stores, ..QueuesConfig::default() };
        let config = match timeout {
            Timeout::Within(timeout) => QueuesConfig { timeout, ..usual },
            Timeout::Block => usual,
            Timeout::Test => return Err(GaspiError::Timeout),
        };
        let job = self.job();
        let queues = Queues::across(job.membership(), job.node(), processor, &config);
        let queues = queues.map_err(because(GaspiError::Device))?;
        let member = usize::from(self.rank());
        let handle = ggas_gaspi {
            queues: queues.address(member).map_err(because(GaspiError::Device))?,
            parts: table,
            notifications: self.config().notification_num,
            segments: self.config().segment_max.min(GGAS_GASPI_SEGMENTS),
        };
        let memory = processor.alloc(size_of::<ggas_gaspi>()).map_err(because(GaspiError::Memory))?;
        let words = u64::from(handle.notifications) | u64::from(handle.segments) << 32;
        let written = memory.write_u64s(0, &[handle.queues, handle.parts, words]);
        written.map_err(because(GaspiError::Failed))?;
        Ok(GpuContext { memory, queues, processor: processor.clone() })
    }
}
