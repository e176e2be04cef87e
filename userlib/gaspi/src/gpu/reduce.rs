//! Reductions of long vectors in GPU memory: by what processes that share GPUs have for that ([`ggas_shared_gpu`]), or in pieces through
//! the host.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use ggas::Processor;
use ggas_coll::Tuning;
use ggas_shared_gpu::{Config, Element, Hierarchy, HierarchyConfig, Op, SharedGpuError, Vector};

use super::Begun;
use crate::error::because;
use crate::group::GROUP_ALL;
use crate::{Datatype, Gaspi, GaspiError, Operation, Timeout};

/// What stands for no time limit: a death ends a wait before.
const LONG: Duration = Duration::from_secs(1 << 30);

/// What a process has for its reductions.
#[derive(Debug, Default)]
pub(super) struct Sums {
    way: Way,
    /// By group: elements that a call which timed out has reduced.
    done: HashMap<u8, usize>,
}

/// How the group of all reduces.
#[derive(Debug, Default)]
enum Way {
    /// To be found by its first call, or by the first behind one that failed.
    #[default]
    Unknown,
    Shared(Box<Hierarchy>),
    /// The GPUs cannot share memory, or do not reach each other.
    Pieces,
}

impl Begun {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gaspi {
    /// Combines `count` elements of each member into those at `receive` of all, in memory of their GPUs, of any length. `send` may
    /// be `receive`. An extension.
    ///
    /// The group of all, on one host, does it by [`Hierarchy`]: processes that share a GPU reduce there, and then GPU by GPU; its
    /// first call, or first behind one that failed, sets that up. Then `timeout` bounds each wait for another process,
    /// [`Timeout::Test`] is too short, and what lies at `receive` behind a failure is not said. Other groups, and
    /// GPUs that do not reach each other, combine pieces of [`Config::allreduce_elem_max`](crate::Config::allreduce_elem_max)
    /// elements as [`allreduce`](Self::allreduce) does; there a call that timed out goes on when it is made again.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] before [`gpu_init`](Self::gpu_init), and with a cause where a process did not come in time, its
    /// GPU failed, or calls on another GPU are unlike; [`GaspiError::Null`]; [`GaspiError::Size`]: no multiple of an element's bytes; [`GaspiError::Unlike`],
    /// [`GaspiError::Dead`], [`GaspiError::Memory`]; as of [`allreduce`](Self::allreduce).
    ///
    /// # Safety
    /// So many elements are at both, in memory of this process's GPU, or of the host where the executor stands in; nobody else
    /// uses them meanwhile.
    #[allow(clippy::too_many_arguments, reason = "those of the call in C")]
    pub unsafe fn gpu_allreduce(
        &self,
        group: u8,
        send: *const u8,
        receive: *mut u8,
        count: usize,
        operation: Operation,
        datatype: Datatype,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let begun = self.shared.gpu.begun().ok_or(GaspiError::Failed)?;
        self.shared.groups.check(group)?;
        if send.is_null() || receive.is_null() {
            return Err(GaspiError::Null);
        }
        let size = datatype.size();
        if ![send as usize, receive as usize].iter().all(|at| at.is_multiple_of(size)) {
            return Err(GaspiError::Size);
        }
        if count.checked_mul(size).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(GaspiError::Number);
        }
        let mut sums = begun.sums();
        let is_shared = group == GROUP_ALL && !self.job().membership().spans_hosts();
        if is_shared && !matches!(sums.way, Way::Pieces) {
            let bound = bound(timeout)?;
            if matches!(sums.way, Way::Unknown) {
                sums.way = self.way(&begun.processor, bound)?;
            }
        }
        let (send, kind) = (send.cast_mut(), (operation, datatype));
        match &mut sums.way {
            // SAFETY: the caller's promise.
            Way::Shared(all) if is_shared => unsafe {
                let vectors = (
                    borrow(&begun.processor, send, count * size)?,
                    borrow(&begun.processor, receive, count * size)?,
                );
                let done = shared(all, (&vectors.0, &vectors.1), count, kind, timeout);
                if done.as_ref().is_err_and(|error| !matches!(error, SharedGpuError::Range { .. })) {
                    sums.way = Way::Unknown;
                }
                done.map_err(|error| self.told(error))
            },
            // SAFETY: likewise.
            _ => unsafe { self.in_pieces(&mut sums.done, group, (send, receive), count, kind, timeout) },
        }
    }

    /// Collective over all processes, which are on one host.
    fn way(&self, processor: &Processor, timeout: Duration) -> Result<Way, GaspiError> {
        let inside = Config { table: Tuning::of_host().shared_gpu, timeout, ..Config::default() };
        let between = Config { timeout, ..Config::default() };
        let job = self.job().membership();
        let made = Hierarchy::new(job, processor, &HierarchyConfig { inside, between, gpu: None });
        // Who could not be asked has no say, and the others wait for it in vain.
        if let Err(error @ (SharedGpuError::Job(_) | SharedGpuError::Unequal { .. })) = made {
            return Err(self.told(error));
        }
        let mine = made.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let all = job.exchange(mine.as_bytes(), timeout).map_err(|error| self.told(error.into()))?;
        match (made, all.iter().find(|said| !said.is_empty())) {
            (Ok(all), None) => Ok(Way::Shared(Box::new(all))),
            (_, why) => {
                let why = why.map(|said| String::from_utf8_lossy(said)).unwrap_or_default();
                tracing::warn!("vectors in GPU memory are reduced through the host, since {why}");
                Ok(Way::Pieces)
            }
        }
    }

    /// Some elements at a time through the host.
    ///
    /// # Safety
    /// As of [`gpu_allreduce`](Self::gpu_allreduce).
    unsafe fn in_pieces(
        &self,
        done: &mut HashMap<u8, usize>,
        group: u8,
        (send, receive): (*mut u8, *mut u8),
        count: usize,
        (operation, datatype): (Operation, Datatype),
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let size = datatype.size();
        let most = self.config().allreduce_elem_max.max(1) as usize;
        let (clock, began) = (self.shared.clock(), self.shared.clock().now());
        let mut at = done.remove(&group).unwrap_or(0);
        while at < count {
            let mut piece = vec![0; most.min(count - at) * size];
            // SAFETY: the caller's promise: within the vector.
            unsafe { self.fetch_raw(send.add(at * size), &mut piece) }?;
            match self.allreduce(group, &piece, operation, datatype, timeout.left(clock, began)) {
                // SAFETY: likewise.
                Ok(sum) => unsafe { self.give_raw(receive.add(at * size), &sum) }?,
                Err(error) => {
                    if error == GaspiError::Timeout {
                        done.insert(group, at);
                    }
                    return Err(error);
                }
            }
            at += piece.len() / size;
        }
        Ok(())
    }

    /// As GASPI has it.
    fn told(&self, error: SharedGpuError) -> GaspiError {
        let has_died = || (0..self.shared.size()).any(|rank| self.shared.is_lost(rank));
        match error {
            SharedGpuError::Mismatch { .. } => GaspiError::Unlike,
            SharedGpuError::PeerLost { .. } => GaspiError::Dead,
            SharedGpuError::Job(_) if has_died() => GaspiError::Dead,
            SharedGpuError::Memory(_) => because(GaspiError::Memory)(error),
            _ => because(GaspiError::Failed)(error),
        }
    }
}

fn bound(timeout: Timeout) -> Result<Duration, GaspiError> {
    match timeout {
        Timeout::Test => Err(GaspiError::Timeout),
        timeout => Ok(timeout.duration().min(LONG)),
    }
}

/// A vector of the caller's, and where it begins in that.
type Borrowed = (ggas::kernels::KernelMem, usize);

/// Memory is borrowed from multiples of 8 on.
///
/// # Safety
/// So many bytes are there while the result is used.
unsafe fn borrow(processor: &Processor, at: *mut u8, bytes: usize) -> Result<Borrowed, GaspiError> {
    let before = at as usize % 8;
    // SAFETY: the bytes before belong to the same allocation, which begins at such a multiple, and are not touched.
    let memory = unsafe { processor.borrow(at.wrapping_sub(before), before + bytes) };
    Ok((memory.map_err(because(GaspiError::Failed))?, before))
}

fn shared(
    all: &mut Hierarchy,
    (send, receive): (&Borrowed, &Borrowed),
    count: usize,
    (operation, datatype): (Operation, Datatype),
    timeout: Timeout,
) -> Result<(), SharedGpuError> {
    // A sum has the same bits with a sign and without, and wraps without one.
    let element = match (datatype, operation) {
        (Datatype::Float, _) => Element::Float,
        (Datatype::Double, _) => Element::Double,
        (Datatype::Int, Operation::Min | Operation::Max) => Element::Int32,
        (Datatype::Long, Operation::Min | Operation::Max) => Element::Int64,
        (Datatype::Int | Datatype::Uint, _) => Element::Uint32,
        (Datatype::Long | Datatype::Ulong, _) => Element::Uint64,
    };
    let op = match operation {
        Operation::Min => Op::Min,
        Operation::Max => Op::Max,
        Operation::Sum => Op::Sum,
    };
    all.set_timeout(timeout.duration().min(LONG));
    all.allreduce(Vector::at(&send.0, send.1), Vector::at(&receive.0, receive.1), count, element, op)
}
