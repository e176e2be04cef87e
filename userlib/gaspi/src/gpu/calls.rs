//! Calls of GPUs and of segments in their memory.

use std::sync::Arc;

use ggas::device::hw;
use ggas::{DeviceKind, Processor};
use ggas_gpu::Gpu;

use super::{Begun, GpuConfig, GpuWay, Memory, Told, locality};
use crate::create::{Source, Wanted};
use crate::error::because;
use crate::request::{Notice, Part};
use crate::segment::{Backing, FLAG, Segment, flag_bytes};
use crate::{Counter, Gaspi, GaspiError, Timeout};

/// Where a segment and its notifications lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// In host memory.
    #[default]
    Host,
    /// The segment in GPU memory, its notifications in host memory, where hosts see them at once (thesis 4.4.2).
    Gpu,
    /// Both in GPU memory, where kernels see the notifications at once.
    GpuNotified,
}

impl Gaspi {
    /// Finds this process's GPU, which its segments and kernels use from then on: the one that its rank takes, or the executor
    /// where the machine has none ([`Job::processor`](ggas::Job::processor)). Local. Segments that are made later can be
    /// reached by kernels of all processes of the host, and those in host memory are pinned.
    ///
    /// # Errors
    /// [`GaspiError::Config`]; [`GaspiError::Initialized`] for a second call; [`GaspiError::Device`]: there is no GPU where
    /// one was asked for, or it is not below the root complex of the network card, which it could not be reached from.
    pub fn gpu_init(&self, config: GpuConfig) -> Result<(), GaspiError> {
        config.check()?;
        let (shared, job) = (&*self.shared, self.job());
        let (processor, _) = job.processor().map_err(because(GaspiError::Device))?;
        if let (Processor::Gpu(gpu), DeviceKind::Hw) = (&processor, job.choice().kind) {
            let (gpu, card) = (&gpu.device().info().pci, hw::expected().unwrap_or_default());
            if !locality::is_near(gpu, &card) {
                let why =
                    format!("the GPU at {gpu} is not below the root complex of {card}: choose one that is");
                return Err(because(GaspiError::Device)(why));
            }
        }
        let is_direct = match config.way {
            GpuWay::Auto => matches!(processor, Processor::Gpu(_)),
            GpuWay::Card => false,
            GpuWay::Direct => true,
        };
        let begun = Begun::new(processor, config, is_direct, shared.size())?;
        shared.gpu.begun.set(begun).map_err(|_| GaspiError::Initialized)?;
        shared.gpu.catch_up();
        Ok(())
    }

    /// Numbers of the GPUs that this process's segments may be on: its own. The executor counts as GPU 0.
    ///
    /// # Errors
    /// [`GaspiError::Failed`] before [`gpu_init`](Self::gpu_init).
    pub fn gpu_ids(&self) -> Result<Vec<usize>, GaspiError> {
        let id = |processor: &Processor| match processor {
            Processor::Gpu(gpu) => gpu.device().ordinal(),
            _ => 0,
        };
        let processor = self.shared.gpu.processor().ok_or(GaspiError::Failed)?;
        Ok(vec![id(processor)])
    }

    /// A segment of zeros, for [`segment_alloc_on`](Self::segment_alloc_on) and its like.
    pub(crate) fn passed(&self, bytes: u64, policy: Policy) -> Result<Option<Segment>, GaspiError> {
        let shared = &*self.shared;
        let Some(begun) = shared.gpu.begun() else {
            return if policy == Policy::Host { Ok(None) } else { Err(GaspiError::Failed) };
        };
        let processor = &begun.processor;
        let is_gpu = policy != Policy::Host;
        if let (true, Processor::Gpu(gpu)) = (is_gpu, processor) {
            // The program's, if it has set one.
            let current = Gpu::current().unwrap_or(gpu.device().ordinal());
            if current != gpu.device().ordinal() {
                let why =
                    format!("GPU {current} is current, and the segments of this process go on another one");
                return Err(because(GaspiError::Failed)(why));
            }
        }
        let length = usize::try_from(bytes).map_err(because(GaspiError::Memory))?;
        let flags = flag_bytes(&shared.config);
        let flags_at = match policy {
            Policy::GpuNotified => Some(bytes.checked_next_multiple_of(32 * FLAG).ok_or(GaspiError::Memory)?),
            _ => None,
        };
        let all = flags_at.map_or(Some(bytes), |at| at.checked_add(flags)).ok_or(GaspiError::Memory)?;
        let all = usize::try_from(all).map_err(because(GaspiError::Memory))?;
        let memory = match is_gpu {
            true => Memory::on_device(processor, all)?,
            false => Memory::on_host(processor, all)?,
        };
        let memory = Arc::new(memory);
        let words = match flags_at {
            Some(at) => (memory.clone(), at),
            None => (Arc::new(Memory::on_host(processor, flags as usize)?), 0),
        };
        let on_device = matches!(*memory, Memory::Device { .. });
        let told = Told { is_gpu, on_device, bytes: all as u64, flags_at, flag_bytes: flags };
        Segment::passed(&shared.data, &shared.config, length, (memory, told), words).map(Some)
    }

    /// As [`segment_alloc`](Self::segment_alloc), in GPU memory if the policy says so: of the current GPU, which must be one
    /// of [`gpu_ids`](Self::gpu_ids).
    ///
    /// # Errors
    /// As there; [`GaspiError::Failed`] for GPU memory before [`gpu_init`](Self::gpu_init), or on another GPU.
    pub fn segment_alloc_on(&self, id: u8, bytes: u64, policy: Policy) -> Result<(), GaspiError> {
        self.alloc(id, bytes, policy)?;
        self.statistics().one(Counter::NumberOfSegmentAlloc);
        Ok(())
    }

    /// As [`segment_create`](Self::segment_create), in GPU memory if the policy says so. The members of the group may choose
    /// differently.
    ///
    /// # Errors
    /// As there and of [`segment_alloc_on`](Self::segment_alloc_on).
    pub fn segment_create_on(
        &self,
        id: u8,
        bytes: u64,
        group: u8,
        timeout: Timeout,
        policy: Policy,
    ) -> Result<(), GaspiError> {
        let wanted = Wanted { id, bytes, group, source: Source::New(policy) };
        self.create(wanted, timeout, || self.alloc(id, bytes, policy))?;
        self.statistics().one(Counter::NumberOfSegmentCreate);
        Ok(())
    }

    /// Makes a segment of GPU memory that the program has allocated (thesis 4.4.4); deleting the segment ends that. Other
    /// processes reach it through the network device. With the executor it is host memory.
    ///
    /// # Errors
    /// As of [`segment_bind`](Self::segment_bind); [`GaspiError::Failed`] before [`gpu_init`](Self::gpu_init), and for memory
    /// that is none of this process's GPU.
    ///
    /// # Safety
    /// As of [`segment_bind`](Self::segment_bind).
    pub unsafe fn map_seg(&self, id: u8, start: *mut u8, bytes: u64) -> Result<(), GaspiError> {
        let shared = &*self.shared;
        let begun = shared.gpu.begun().ok_or(GaspiError::Failed)?;
        shared.segments.check_new(id, bytes)?;
        if start.is_null() {
            return Err(GaspiError::Null);
        }
        let Processor::Gpu(gpu) = &begun.processor else {
            // SAFETY: the caller's promise.
            return unsafe { self.bind(id, start, bytes) };
        };
        let gpu = gpu.device();
        if Gpu::holder(start as u64) != Some(gpu.ordinal()) {
            let why = format!("{start:p} is no memory of GPU {}", gpu.ordinal());
            return Err(because(GaspiError::Failed)(why));
        }
        let len = usize::try_from(bytes).map_err(because(GaspiError::Memory))?;
        let place = ggas::device::Place::Gpu(gpu.clone());
        let span = ggas::device::Span { address: start as u64, len, place };
        // SAFETY: the caller's promise: the memory stays until the segment was deleted.
        let data = unsafe { shared.data.register_kept(span, Arc::new(())) };
        let data = data.map_err(because(GaspiError::Memory))?;
        let segment = Segment::new(data, &shared.data, &shared.config, Backing::Device(gpu.clone()))?;
        self.insert(id, segment)
    }

    /// The same, with all members of a group, who all call it with the same id.
    ///
    /// # Errors
    /// As of [`map_seg`](Self::map_seg) and [`segment_create`](Self::segment_create).
    ///
    /// # Safety
    /// As of [`segment_bind`](Self::segment_bind).
    pub unsafe fn map_create(
        &self,
        id: u8,
        start: *mut u8,
        bytes: u64,
        group: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        let wanted = Wanted { id, bytes, group, source: Source::Program(start as usize) };
        // SAFETY: the caller's promise.
        self.create(wanted, timeout, || unsafe { self.map_seg(id, start, bytes) })
    }

    /// As [`write`](Self::write). From GPU memory through a network device, a longer one goes through host memory in pieces, two
    /// of which are under way ([`GpuConfig::staged_min`], thesis 4.4.3): it returns once the last piece is posted, and each
    /// piece is a request of the queue. After [`GaspiError::Timeout`] the pieces so far are posted.
    ///
    /// # Errors
    /// As there; [`GaspiError::Timeout`].
    pub fn gpu_write(&self, part: &Part, rank: u16, queue: u8, timeout: Timeout) -> Result<(), GaspiError> {
        self.shared.gpu_write(part, rank, queue, timeout)
    }

    /// The same and a notification behind all pieces.
    ///
    /// # Errors
    /// As of [`gpu_write`](Self::gpu_write) and [`notify`](Self::notify).
    pub fn gpu_write_notify(
        &self,
        part: &Part,
        notice: &Notice,
        rank: u16,
        queue: u8,
        timeout: Timeout,
    ) -> Result<(), GaspiError> {
        self.shared.gpu_write_notify(part, notice, rank, queue, timeout)
    }

    /// Copies from memory that a program names, which may be on a GPU, as buffers of collectives are.
    ///
    /// # Errors
    /// [`GaspiError::Null`]; [`GaspiError::Failed`] where a GPU fails.
    ///
    /// # Safety
    /// So many bytes are there.
    pub unsafe fn fetch_raw(&self, from: *const u8, into: &mut [u8]) -> Result<(), GaspiError> {
        match self.holder(from)? {
            // SAFETY: the caller's promise.
            Some(gpu) => unsafe { gpu.read_at(from as u64, into) }.map_err(because(GaspiError::Failed)),
            None => {
                // SAFETY: the caller's promise; a slice of ours does not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
                Ok(())
            }
        }
    }

    /// Copies to such memory.
    ///
    /// # Errors
    /// As of [`fetch_raw`](Self::fetch_raw).
    ///
    /// # Safety
    /// There is room for as many bytes.
    pub unsafe fn give_raw(&self, to: *mut u8, from: &[u8]) -> Result<(), GaspiError> {
        match self.holder(to)? {
            // SAFETY: the caller's promise.
            Some(gpu) => unsafe { gpu.write_at(to as u64, from) }.map_err(because(GaspiError::Failed)),
            None => {
                // SAFETY: the caller's promise; a slice of ours does not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                Ok(())
            }
        }
    }

    /// This process's GPU, if it is that of the address.
    fn holder(&self, address: *const u8) -> Result<Option<&Gpu>, GaspiError> {
        if address.is_null() {
            return Err(GaspiError::Null);
        }
        let Some(Processor::Gpu(gpu)) = self.shared.gpu.processor() else { return Ok(None) };
        let is_there = Gpu::holder(address as u64) == Some(gpu.device().ordinal());
        Ok(is_there.then(|| gpu.device()))
    }
}
