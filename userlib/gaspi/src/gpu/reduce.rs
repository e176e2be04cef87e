//! Collectives of long vectors in GPU memory: by what processes that share GPUs have for that ([`ggas_shared_gpu`]), or in pieces through
//! the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ggas::Processor;
use ggas_coll::Tuning;
use ggas_shared_gpu::{Config, Element, Hierarchy, HierarchyConfig, Op, SharedGpuError, Vector};

use super::GpuWay;
use super::attached::Segments;
use super::sums::{OfGroup, Way, locked};
use crate::error::because;
use crate::statistics::Counter;
use crate::{Datatype, Gaspi, GaspiError, Operation, Timeout};

/// What stands for no time limit: a death ends a wait before.
const LONG: Duration = Duration::from_secs(1 << 30);
/// Least bound of a wait of a set-up, in which all members take part: one that gave up where the others did not would need them again.
const SET_UP_MIN: Duration = Duration::from_secs(10);

/// What the members of a group do together. Roots are ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Allreduce(Operation),
    Reduce(Operation, u16),
    Broadcast(u16),
    Allgather,
}

/// A call.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) what: What,
    pub(super) send: *mut u8,
    pub(super) receive: *mut u8,
    pub(super) count: usize,
    pub(super) datatype: Datatype,
    pub(super) timeout: Timeout,
}

impl Call {
    /// Bytes at `send` and at `receive` of a rank in a group of so many.
    fn bytes(&self, me: u16, members: usize) -> Option<(usize, usize)> {
        let bytes = self.count.checked_mul(self.datatype.size())?;
        let all = bytes.checked_mul(members).filter(|all| *all <= isize::MAX as usize)?;
        Some(match self.what {
            What::Allgather => (bytes, all),
            What::Reduce(_, root) if me != root => (bytes, 0),
            _ => (bytes, bytes),
        })
    }

    /// Whether a rank has a result.
    fn takes(&self, me: u16) -> bool {
        !matches!(self.what, What::Reduce(_, root) if me != root)
    }

    fn root(&self) -> Option<u16> {
        match self.what {
            What::Reduce(_, root) | What::Broadcast(root) => Some(root),
            _ => None,
        }
    }
}

impl Gaspi {
    /// Combines `count` elements of each member into those at `receive` of all, in memory of their GPUs, of any length. `send` may
    /// be `receive`; else they share no bytes. An extension, as all `gpu_` collectives.
    ///
    /// A group does it by [`Hierarchy`]: processes that share a GPU reduce there, then GPU by GPU, and then host by host; its
    /// first call, or first behind one that failed, sets that up once all members have made it, where each wait has 10 s at least.
    /// Else `timeout` bounds each wait for another process, [`Timeout::Test`] is too short, and what lies at `receive` behind a failure is not said. All with
    /// [`GpuWay::Card`], and GPUs that do not reach each other, combine pieces of [`Config::allreduce_elem_max`](crate::Config::allreduce_elem_max)
    /// elements as [`allreduce`](Self::allreduce) does; there a call that timed out goes on when it is made again.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] before [`gpu_init`](Self::gpu_init), and with a cause where a process did not come in time, its
    /// GPU failed, calls on another GPU or host are unlike, vectors overlap, or one leaves the segment that it begins in; [`GaspiError::Null`]; [`GaspiError::Size`]: no multiple of an element's bytes; [`GaspiError::Unlike`],
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
        let (what, send) = (What::Allreduce(operation), send.cast_mut());
        // SAFETY: the caller's promise.
        unsafe { self.gpu_collective(group, &Call { what, send, receive, count, datatype, timeout }) }
    }

    /// The same, with the result at `root`, a rank of the group, alone; the others' `receive` is not looked at.
    ///
    /// # Errors
    /// As of [`gpu_allreduce`](Self::gpu_allreduce); [`GaspiError::Rank`]: no member.
    ///
    /// # Safety
    /// As of [`gpu_allreduce`](Self::gpu_allreduce).
    #[allow(clippy::too_many_arguments, reason = "those of the call in C")]
    pub unsafe fn gpu_reduce(
        &self,
        group: u8,
        root: u16,
        send: *const u8,
        receive: *mut u8,
        count: usize,
        operation: Operation,
        datatype: Datatype,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let (what, send) = (What::Reduce(operation, root), send.cast_mut());
        // SAFETY: the caller's promise.
        unsafe { self.gpu_collective(group, &Call { what, send, receive, count, datatype, timeout }) }
    }

    /// The `count` elements at `buffer` of all members become those of `root`, a rank of the group.
    ///
    /// # Errors
    /// As of [`gpu_reduce`](Self::gpu_reduce).
    ///
    /// # Safety
    /// As of [`gpu_allreduce`](Self::gpu_allreduce).
    pub unsafe fn gpu_broadcast(
        &self,
        group: u8,
        root: u16,
        buffer: *mut u8,
        count: usize,
        datatype: Datatype,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let what = What::Broadcast(root);
        // SAFETY: the caller's promise.
        unsafe {
            self.gpu_collective(
                group,
                &Call { what, send: buffer, receive: buffer, count, datatype, timeout },
            )
        }
    }

    /// The `count` elements at `send` of each member, in the order of ranks, at `receive` of all. `send` may be this rank's part of
    /// `receive`.
    ///
    /// # Errors
    /// As of [`gpu_allreduce`](Self::gpu_allreduce).
    ///
    /// # Safety
    /// As of [`gpu_allreduce`](Self::gpu_allreduce), with `count` elements for each member at `receive`.
    pub unsafe fn gpu_allgather(
        &self,
        group: u8,
        send: *const u8,
        receive: *mut u8,
        count: usize,
        datatype: Datatype,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let (what, send) = (What::Allgather, send.cast_mut());
        // SAFETY: the caller's promise.
        unsafe { self.gpu_collective(group, &Call { what, send, receive, count, datatype, timeout }) }
    }

    /// # Safety
    /// The call's vectors are there, and nobody else uses them meanwhile.
    unsafe fn gpu_collective(&self, group: u8, call: &Call) -> Result<(), GaspiError> {
        let begun = self.shared.gpu.begun().ok_or(GaspiError::Failed)?;
        self.shared.groups.check(group)?;
        let ranks = self.group_ranks(group)?;
        if call.root().is_some_and(|root| !ranks.contains(&root)) {
            return Err(GaspiError::Rank);
        }
        let sizes = call.bytes(self.rank(), ranks.len()).ok_or(GaspiError::Number)?;
        let takes = call.takes(self.rank());
        let ends = std::iter::once((call.send, sizes.0)).chain(takes.then_some((call.receive, sizes.1)));
        for (at, bytes) in ends {
            self.check_vector(at, bytes, call.datatype)?;
        }
        let kept = begun.sums.of(group);
        // SAFETY: the caller's promise.
        let done = unsafe { self.gpu_collective_of(&mut locked(&kept.calls), group, &ranks, call, sizes) };
        kept.let_go();
        done
    }

    /// # Safety
    /// As of [`gpu_collective`](Self::gpu_collective).
    unsafe fn gpu_collective_of(
        &self,
        of_group: &mut OfGroup,
        group: u8,
        ranks: &[u16],
        call: &Call,
        sizes: (usize, usize),
    ) -> Result<(), GaspiError> {
        let begun = self.shared.gpu.begun().ok_or(GaspiError::Failed)?;
        let takes = call.takes(self.rank());
        let is_ours = begun.config.way != GpuWay::Card;
        if is_ours && !matches!(of_group.way, Way::Pieces) {
            let bound = bound(call.timeout)?;
            if matches!(of_group.way, Way::Unknown) {
                let bound = bound.max(SET_UP_MIN);
                of_group.way = self.way(group, ranks, &begun.processor, bound, call.timeout)?;
            }
        }
        match &mut of_group.way {
            // SAFETY: the caller's promise.
            Way::Shared(all) if is_ours => unsafe {
                let own = borrow(&begun.processor, call.send, sizes.0)?;
                let result = takes.then(|| borrow(&begun.processor, call.receive, sizes.1)).transpose()?;
                let (segments, processor) = (&self.shared.segments, &begun.processor);
                of_group.attached.add(all, segments, processor, [call.send as u64, call.receive as u64]);
                let before = all.straight_bytes();
                let done = shared(all, &own, result.as_ref(), call);
                self.statistics().add(Counter::BytesStraight, all.straight_bytes() - before);
                if all.is_broken() {
                    of_group.way = Way::Unknown;
                    of_group.attached = Segments::default();
                }
                done.map_err(|error| self.told(error))
            },
            // SAFETY: likewise.
            _ => unsafe { self.in_pieces(&mut of_group.done, group, ranks, call) },
        }
    }

    fn check_vector(&self, at: *mut u8, bytes: usize, datatype: Datatype) -> Result<(), GaspiError> {
        if at.is_null() {
            return Err(GaspiError::Null);
        }
        if !(at as usize).is_multiple_of(datatype.size()) {
            return Err(GaspiError::Size);
        }
        let segments = &self.shared.segments;
        let (begin, end) = (at as u64, (at as u64).saturating_add(bytes as u64));
        let left = segments.list().into_iter().find_map(|id| {
            let memory = segments.find(id).ok()?.allocated()?;
            (memory.contains(&begin) && end > memory.end).then_some((id, memory))
        });
        let Some((id, memory)) = left else { return Ok(()) };
        let (from, size) = (begin - memory.start, memory.end - memory.start);
        Err(because(GaspiError::Failed)(format!(
            "a vector of {bytes} bytes from byte {from} of segment {id}, which has {size} bytes, leaves it: use fewer elements, or a longer \
             segment"
        )))
    }

    /// Collective over the group.
    fn way(
        &self,
        group: u8,
        ranks: &[u16],
        processor: &Processor,
        bound: Duration,
        timeout: Timeout,
    ) -> Result<Way, GaspiError> {
        let table = Tuning::of_host();
        let inside = Config { table: table.shared_gpu, timeout: bound, ..Config::default() };
        let between = Config { timeout: bound, ..Config::default() };
        let config =
            HierarchyConfig { inside, between, hosts: table.between_hosts, ..HierarchyConfig::default() };
        let job = self.job().membership();
        let ranks: Vec<u32> = ranks.iter().map(|rank| u32::from(*rank)).collect();
        // All of the job, too: its own exchanges would go on where an earlier set-up has failed.
        let tag = match self.new_tag(group, timeout) {
            // The members have no way to say what they need.
            Err(GaspiError::Number) => return Ok(Way::Pieces),
            tag => tag?,
        };
        match Hierarchy::among(job, &ranks, tag, Some(self.job().node()), processor, &config) {
            Ok(all) => Ok(Way::Shared(Box::new(all))),
            // The members have not heard of each other, and try again. Of all else they have agreed that it fails.
            Err(error @ SharedGpuError::Job(_)) => Err(self.told(error)),
            Err(why) => {
                tracing::warn!("vectors in GPU memory go through the host, since {why}");
                Ok(Way::Pieces)
            }
        }
    }

    /// A number that the members have not used before, neither here nor in another group.
    fn new_tag(&self, group: u8, timeout: Timeout) -> Result<u64, GaspiError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mine = NEXT.fetch_add(1, Ordering::Relaxed);
        let most = self.allreduce(group, &mine.to_ne_bytes(), Operation::Max, Datatype::Ulong, timeout)?;
        let most = most.first_chunk().map_or(mine, |word| u64::from_ne_bytes(*word));
        NEXT.fetch_max(most + 1, Ordering::Relaxed);
        Ok(most << 8 | u64::from(group))
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
    own: &Borrowed,
    result: Option<&Borrowed>,
    call: &Call,
) -> Result<(), SharedGpuError> {
    fn at((memory, offset): &Borrowed) -> Vector<'_> {
        Vector::at(memory, *offset)
    }
    // Who takes nothing has nothing stored.
    let (input, output) = (at(own), at(result.unwrap_or(own)));
    let (count, datatype) = (call.count, call.datatype);
    all.set_timeout(call.timeout.duration().min(LONG));
    match call.what {
        What::Allreduce(operation) => {
            let (element, op) = reduced(datatype, operation);
            all.allreduce(input, output, count, element, op)
        }
        What::Reduce(operation, root) => {
            let (element, op) = reduced(datatype, operation);
            all.reduce(root.into(), input, output, count, element, op)
        }
        What::Broadcast(root) => all.broadcast(root.into(), output, count, moved(datatype)),
        What::Allgather => all.allgather(input, output, count, moved(datatype)),
    }
}

/// A sum has the same bits with a sign and without, and wraps without one.
fn reduced(datatype: Datatype, operation: Operation) -> (Element, Op) {
    let element = match (datatype, operation) {
        (Datatype::Float, _) => Element::Float,
        (Datatype::Double, _) => Element::Double,
        (Datatype::Int, Operation::Min | Operation::Max) => Element::Int32,
        (Datatype::Long, Operation::Min | Operation::Max) => Element::Int64,
        (Datatype::Int8, Operation::Min | Operation::Max) => Element::Int8,
        (Datatype::Int16, Operation::Min | Operation::Max) => Element::Int16,
        _ => moved(datatype),
    };
    let op = match operation {
        Operation::Min => Op::Min,
        Operation::Max => Op::Max,
        Operation::Sum => Op::Sum,
    };
    (element, op)
}

/// What only moves is words.
fn moved(datatype: Datatype) -> Element {
    match datatype.size() {
        1 => Element::Uint8,
        2 => Element::Uint16,
        4 => Element::Uint32,
        _ => Element::Uint64,
    }
}
