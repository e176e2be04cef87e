//! Kernels that were started, until they end.

use std::time::Duration;

use ggas_clock::{Backoff, Clock, Ladder};

use crate::error::GpuError;
use crate::launch::Launch;
use crate::place::Reservation;
use crate::resident::gate;
use crate::stream::Stream;

/// Starts kernels that run at the same time, each on a stream of its own.
///
/// # Errors
/// Before anything starts: [`GpuError::DoesNotFit`] if not all blocks of all kernels can be resident at once beside
/// what runs already, and errors of names, shapes and arguments. If the driver refuses a later kernel of the set,
/// the kernels started before it end by the time limits of their waits.
pub fn start(launches: &[Launch<'_>]) -> Result<Running, GpuError> {
    start_repeated(launches, 1)
}

/// Starts kernels as [`start`] does, `times` times each: a repetition of a kernel begins when the one before has ended.
///
/// # Errors
/// As [`start`].
pub fn start_repeated(launches: &[Launch<'_>], times: u32) -> Result<Running, GpuError> {
    let place = Reservation::new(launches)?;
    // All streams before the first kernel runs.
    let streams = launches.iter().map(|launch| launch.gpu().stream()).collect::<Result<Vec<_>, _>>()?;
    gate().enter();
    let mut running = Running { place: Some(place), kernels: Vec::new() };
    for (launch, stream) in launches.iter().zip(streams) {
        launch.submit_to(&stream)?;
        running.kernels.push(Kernel { name: launch.describe(), stream, done: false });
    }
    for _ in 1..times {
        for (launch, kernel) in launches.iter().zip(&running.kernels) {
            launch.submit_to(&kernel.stream)?;
        }
    }
    Ok(running)
}

/// Kernels that were started together. Dropping the value leaves the kernels running: they end by the time limits of
/// their waits. Until then no memory that they may use is freed.
#[must_use = "kernels are waited for with `wait`"]
pub struct Running {
    /// Held until all have ended; then the gate has counted them out, too.
    place: Option<Reservation>,
    kernels: Vec<Kernel>,
}

struct Kernel {
    name: String,
    stream: Stream,
    done: bool,
}

impl Kernel {
    /// Notes whether all work of its stream is done: then the driver need not be asked again when the stream goes back to the pool.
    fn ended(&mut self, done: bool) {
        self.done = done;
        self.stream.is_idle = done;
    }
}

impl Running {
    /// The stream of [`in_stream`](Self::in_stream), whose work may go on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.kernels[0].stream
    }

    /// What `submit` puts into `stream`, under one name.
    pub(crate) fn in_stream(
        place: Reservation,
        name: String,
        stream: Stream,
        submit: impl FnOnce(&Stream) -> Result<(), GpuError>,
    ) -> Result<Running, GpuError> {
        gate().enter();
        let running = Running { place: Some(place), kernels: vec![Kernel { name, stream, done: false }] };
        submit(&running.kernels[0].stream)?;
        Ok(running)
    }

    /// Waits until all kernels have ended.
    ///
    /// # Errors
    /// [`GpuError::Timeout`] names those that have not ended; they may be waited for again. [`GpuError::KernelFailed`]
    /// names one that failed, or all that ran on its GPU where the driver does not tell.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), GpuError> {
        let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, timeout);
        while !self.is_done()? {
            if backoff.pause().is_err() {
                return Err(GpuError::Timeout { what: self.unfinished(None), waited: timeout });
            }
        }
        Ok(())
    }

    /// Whether all kernels have ended. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::KernelFailed`].
    pub fn is_done(&mut self) -> Result<bool, GpuError> {
        for i in 0..self.kernels.len() {
            if self.kernels[i].done {
                continue;
            }
            match self.kernels[i].stream.is_done() {
                Ok(done) => self.kernels[i].ended(done),
                Err(error) => return Err(self.failed(i, error)),
            }
        }
        let done = self.kernels.iter().all(|kernel| kernel.done);
        if done {
            self.count_out();
        }
        Ok(done)
    }

    /// An error of kernel `i`'s stream. The driver reports it on every stream of the GPU.
    fn failed(&mut self, i: usize, error: GpuError) -> GpuError {
        let gpu = self.kernels[i].stream.gpu().ordinal();
        let kernel = self.unfinished(Some(gpu));
        for kernel in self.kernels.iter_mut().filter(|kernel| kernel.stream.gpu().ordinal() == gpu) {
            kernel.done = true;
        }
        match error {
            GpuError::Driver(error) | GpuError::Lost { error, .. } => {
                GpuError::KernelFailed { gpu, kernel, error }
            }
            other => other,
        }
    }

    /// The kernels that have not ended, on one GPU or on all.
    fn unfinished(&self, gpu: Option<usize>) -> String {
        let here = |kernel: &&Kernel| gpu.is_none_or(|gpu| kernel.stream.gpu().ordinal() == gpu);
        let names = self.kernels.iter().filter(|kernel| !kernel.done).filter(here);
        names.map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn count_out(&mut self) {
        if self.place.take().is_some() {
            gate().leave();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.place.is_none() || matches!(self.is_done(), Ok(true)) {
            return;
        }
        let kernels = self.unfinished(None);
        if !kernels.is_empty() {
            tracing::warn!("{kernels} still run: GPU memory is freed when they have ended");
        }
        let (mut place, mut left) = (self.place.take(), std::mem::take(&mut self.kernels));
        gate().abandon(Box::new(move || {
            // A stream with an error has ended too; its GPU is lost.
            left.retain(|kernel| !kernel.done && matches!(kernel.stream.is_done(), Ok(false)));
            if left.is_empty() {
                place = None;
            }
            place.is_none()
        }));
    }
}
