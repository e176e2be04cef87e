//! Starting and stopping the copier's kernel.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ring::{BLOCK, CopierArgs, RINGS};
use super::{Copier, lock};
use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::place::Reservation;
use crate::resident::Pause;
use crate::stream::Stream;
use ggas_clock::{Backoff, Clock, Ladder};

/// The kernel's name.
pub(crate) const KERNEL: &str = "ggas_copier";

/// The kernel ends by itself after so long without a command.
const IDLE: Duration = Duration::from_secs(60);

/// Bound of the wait for the kernel's end after it was told.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// State of the kernel.
pub(super) struct Control {
    stream: Stream,
    /// Guards alive.
    armed: usize,
    /// Launched, and its end not seen yet.
    launched: bool,
    /// Its place on the GPU, while it is not told to end.
    place: Option<Reservation>,
    /// Must not be started: calls that synchronise the device are being made.
    paused: bool,
}

impl Control {
    pub fn new(gpu: &Gpu) -> Result<Control, GpuError> {
        Ok(Control {
            stream: Stream::new(gpu.clone(), true)?,
            armed: 0,
            launched: false,
            place: None,
            paused: false,
        })
    }
}

/// Keeps the copier's kernel running. Without one, copies take the slower way through the driver, and there are no
/// [atomic operations](Copier::atomic).
pub struct CopierGuard(Arc<Copier>);

impl fmt::Debug for CopierGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopierGuard").field(&self.0.gpu.ordinal()).finish()
    }
}

impl Drop for CopierGuard {
    fn drop(&mut self) {
        let mut control = lock(&self.0.control);
        control.armed -= 1;
        if control.armed == 0 {
            self.0.tell_to_end(&mut control);
        }
    }
}

impl Copier {
    /// Starts the kernel unless it runs. Take the guard before kernels that wait are started: beside them there
    /// may be no room. Dropping the last guard ends the kernel without waiting.
    ///
    /// # Errors
    /// [`GpuError::NoImage`] where no module with the copier was loaded on this GPU; [`GpuError::DoesNotFit`];
    /// [`GpuError::Timeout`] where the last run does not end; driver errors.
    pub fn arm(self: &Arc<Self>) -> Result<CopierGuard, GpuError> {
        let mut control = lock(&self.control);
        if !self.is_running(&control) && !control.paused {
            self.start(&mut control)?;
        }
        control.armed += 1;
        drop(control);
        Ok(CopierGuard(self.clone()))
    }

    /// Whether the kernel runs and takes commands.
    pub fn is_armed(&self) -> bool {
        self.is_running(&lock(&self.control))
    }

    /// Whether a ring that takes nothing now will again: it is full, or the kernel is between two runs.
    pub(super) fn comes_back(&self) -> bool {
        // Who holds it starts the kernel or ends it.
        let Ok(control) = self.control.try_lock() else { return true };
        control.armed > 0 && (control.paused || control.launched)
    }

    fn is_running(&self, control: &Control) -> bool {
        control.place.is_some()
    }

    fn start(&self, control: &mut Control) -> Result<(), GpuError> {
        if !self.has_ended(control)? {
            let what = format!("the copier of GPU {}", self.gpu.ordinal());
            return Err(GpuError::Timeout { what, waited: END_TIMEOUT });
        }
        let module = self.gpu.copier_module().ok_or(GpuError::NoImage)?;
        let mut args = CopierArgs {
            rings: self.memory.as_ptr() as u64,
            next: [0; RINGS],
            idle_ns: IDLE.as_nanos() as u64,
        };
        // SAFETY: the structure is the kernel's; the rings live for good.
        let place = Reservation::new(&[unsafe { Launch::new(&module, KERNEL, RINGS as u32, BLOCK, &args) }])?;
        let mut rings: Vec<_> = self.rings.iter().map(lock).collect();
        for (next, ring) in args.next.iter_mut().zip(&mut rings) {
            *next = ring.open();
        }
        // SAFETY: as above; whoever hands in commands vouches for their addresses.
        let launch = unsafe { Launch::new(&module, KERNEL, RINGS as u32, BLOCK, &args) };
        match launch.submit_to(&control.stream) {
            Ok(()) => {
                control.launched = true;
                control.place = Some(place);
                Ok(())
            }
            Err(error) => {
                // Without a kernel the rings must not take commands; this run took none.
                rings.iter_mut().for_each(|ring| ring.abandon());
                Err(error)
            }
        }
    }

    /// Closes the rings; the kernel ends behind the commands that it has.
    fn tell_to_end(&self, control: &mut Control) {
        for ring in &self.rings {
            let mut backoff = Backoff::on(Ladder::DEVICE, Clock::REAL, END_TIMEOUT);
            // A full ring has room again within microseconds.
            while !lock(ring).close() && backoff.pause().is_ok() {}
        }
        control.place = None;
    }

    /// Whether the kernel has ended; waits a little for one that was told to.
    fn has_ended(&self, control: &mut Control) -> Result<bool, GpuError> {
        if control.launched {
            match control.stream.wait("the copier", END_TIMEOUT) {
                Ok(()) => control.launched = false,
                Err(GpuError::Timeout { .. }) => {}
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
        Ok(!control.launched)
    }

    /// Looks whether the GPU failed, and starts the kernel again if it ended though it is armed. Called now and then by
    /// those who poll for copies that are not done.
    pub(super) fn look_after(&self) -> Result<(), GpuError> {
        let check = || {
            // Who holds it starts a copy, which may take as long as the copy, and sees by itself what failed.
            if let Ok(engine) = self.engine.try_lock() {
                engine.health()?;
            }
            let Ok(mut control) = self.control.try_lock() else { return Ok(()) };
            let done = control.stream.is_done()?;
            let closed = self.is_running(&control) && self.memory.iter().any(|ring| ring.closed().is_some());
            // A call that it was to end for did not wait so long.
            let left = !self.is_running(&control) && control.armed > 0 && control.launched && done;
            if !control.paused && (closed || left) {
                self.tell_to_end(&mut control);
                self.start(&mut control)?;
            }
            Ok(())
        };
        check().inspect_err(|error: &GpuError| {
            if self.gpu.lost().is_some() {
                self.fail(error);
            }
        })
    }
}

impl Pause for Copier {
    fn pause(&self) -> bool {
        let mut control = lock(&self.control);
        if self.is_running(&control) {
            self.tell_to_end(&mut control);
        }
        // A GPU that failed runs nothing.
        control.paused = self.has_ended(&mut control).unwrap_or(true);
        control.paused
    }

    fn resume(&self) {
        let mut control = lock(&self.control);
        control.paused = false;
        let wanted = control.armed > 0 && !self.is_running(&control) && !self.failed.load(Ordering::Relaxed);
        if wanted && let Err(error) = self.start(&mut control) {
            tracing::warn!("copies to GPU {} go through the driver: {error}", self.gpu.ordinal());
        }
    }
}
