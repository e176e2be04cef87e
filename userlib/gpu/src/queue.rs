//! Kernels, copies, stores and waits of one GPU in a row, which the host posts ahead.

use std::time::Duration;

use crate::error::GpuError;
use crate::launch::Launch;
use crate::module::Function;
use crate::place::Reservation;
use crate::running::Running;
use crate::stream::Stream;

/// A [`Stream`] whose kernels are known in advance: their shapes are checked and their places reserved once, so that
/// posting one costs no more than the driver's call.
///
/// Its work may wait for other GPUs or for the host. Until it is done, driver calls that would wait for the GPU are
/// deferred, also when the queue is dropped before.
pub struct Queue<'a> {
    kernels: Vec<(Launch<'a>, Function)>,
    running: Running,
}

impl<'a> Queue<'a> {
    /// A queue for these kernels, of one GPU; places are reserved for the one with the most blocks, as they run one
    /// after the other.
    ///
    /// # Errors
    /// [`GpuError::Invalid`] without kernels or with those of two GPUs; [`GpuError::DoesNotFit`]; errors of names, shapes
    /// and arguments.
    pub fn new(kernels: &[Launch<'a>]) -> Result<Queue<'a>, GpuError> {
        let Some(largest) = kernels.iter().max_by_key(|launch| launch.at_once()) else {
            return Err(GpuError::Invalid("a queue needs the kernels that it is for".into()));
        };
        let gpu = largest.gpu();
        if kernels.iter().any(|launch| launch.gpu() != gpu) {
            return Err(GpuError::Invalid("the kernels of a queue are of one GPU".into()));
        }
        let prepared = kernels.iter().map(|launch| Ok((*launch, launch.prepare()?.0)));
        let prepared = prepared.collect::<Result<_, GpuError>>()?;
        let name = format!("a queue of {}", largest.describe());
        let place = Reservation::new(std::slice::from_ref(largest))?;
        let running = Running::in_stream(place, name, gpu.stream()?, |_| Ok(()))?;
        Ok(Queue { kernels: prepared, running })
    }

    /// Posts a kernel, by its place among those that the queue was made for.
    ///
    /// # Errors
    /// [`GpuError::Invalid`] for a place that there is not; driver errors.
    pub fn launch(&self, kernel: usize) -> Result<(), GpuError> {
        let Some((launch, function)) = self.kernels.get(kernel) else {
            return Err(GpuError::Invalid(format!(
                "a queue of {} kernels has no kernel {kernel}",
                self.kernels.len()
            )));
        };
        // SAFETY: the stream is alive and of this GPU; `new` prepared the function for this launch.
        unsafe { launch.submit_prepared(*function, self.stream().raw()) }
    }

    /// Where copies, stores and waits are posted, between the kernels.
    pub fn stream(&self) -> &Stream {
        self.running.stream()
    }

    /// Waits until all that was posted so far is done.
    ///
    /// # Errors
    /// [`GpuError::Timeout`]; errors of the work.
    pub fn wait(&self, timeout: Duration) -> Result<(), GpuError> {
        self.stream().wait("a queue", timeout)
    }
}
