//! RMA ports of a card.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use extoll_abi::bindings::{
    EXTOLL_MAP_QUEUE, EXTOLL_MAP_REQUESTER, EXTOLL_MAP_RP, EXTOLL_MAP_WCB, EXTOLL_REGION_DMABUF,
    EXTOLL_REGION_MMIO, EXTOLL_REGION_USER, EXTOLL_UNIT_RMA, extoll_port_open, extoll_register,
    extoll_unregister,
};
use extoll_abi::{Access, PageOption};
use ggas_gpu::Gpu;
use nix::errno::Errno;

use super::GpuMapping;
use super::file::{CardFile, failed};
use super::unit::{Layout, OfUnit, Unit};
use crate::limit::memory_refused;
use crate::{DeviceError, PAGE, Place, PortDevice, PortSetup, QueueMap, SlotMap, Span};

const LAYOUT: Layout = Layout {
    unit: EXTOLL_UNIT_RMA,
    requester: EXTOLL_MAP_REQUESTER,
    wcb: EXTOLL_MAP_WCB,
    rp: EXTOLL_MAP_RP,
    queue: EXTOLL_MAP_QUEUE,
};
/// Bytes of a notification.
const SLOT_BYTES: u32 = 16;

/// An open port: a file of the driver with a VPID on it.
#[derive(Debug)]
pub(super) struct HwPort {
    unit: Unit,
    options: u32,
    /// Of regions in GPU memory that gpumap mapped for them, by NLA.
    mappings: Mutex<BTreeMap<u64, GpuMapping>>,
}

impl HwPort {
    pub(super) fn open(file: CardFile, setup: &PortSetup) -> Result<HwPort, DeviceError> {
        let (queue_bytes, segment_bytes) = shape(setup.queue_bytes, setup.segment_bytes)?;
        let units = EXTOLL_UNIT_RMA as u32;
        let mut open = extoll_port_open { units, queue_bytes, segment_bytes, ..Default::default() };
        open_call(&file, &mut open, setup.queue_bytes, setup.segment_bytes)?;
        let unit = Unit::new(file, &open, &LAYOUT, open.options, open.queue_bytes_out, SLOT_BYTES)?;
        Ok(HwPort { unit, options: open.options, mappings: Mutex::default() })
    }
}

/// A queue's shape in the widths of the call.
pub(super) fn shape(bytes: usize, segment: usize) -> Result<(u32, u32), DeviceError> {
    let refused = |problem| DeviceError::QueueShape { bytes, segment, problem };
    if bytes == 0 || segment == 0 || !bytes.is_multiple_of(PAGE) || !segment.is_multiple_of(PAGE) {
        return Err(refused("both must be multiples of 4096 and not 0"));
    }
    let whole = segment.min(bytes);
    if !bytes.is_multiple_of(whole) {
        return Err(refused("make the queue a multiple of the segment"));
    }
    match (u32::try_from(bytes), u32::try_from(whole)) {
        (Ok(bytes), Ok(segment)) => Ok((bytes, segment)),
        _ => Err(refused("it must be smaller than 4 GiB")),
    }
}

/// Opens a port on `file`, whose queue is asked for in this shape.
pub(super) fn open_call(
    file: &CardFile,
    open: &mut extoll_port_open,
    bytes: usize,
    segment: usize,
) -> Result<(), DeviceError> {
    let Err(errno) = file.port_open(open) else { return Ok(()) };
    let info = file.info()?;
    let node = info.node as u16;
    Err(match errno {
        Errno::EAGAIN => DeviceError::NetworkState { node, state: info.network_state.into() },
        Errno::ENOSPC => DeviceError::PortsInUse { node, max: info.ports },
        Errno::EDQUOT => DeviceError::UserLimit { node },
        Errno::EACCES => DeviceError::NoProtectionId { node },
        Errno::EINVAL => {
            let problem = "the driver takes at most 512 segments of at most 1 MiB";
            DeviceError::QueueShape { bytes, segment, problem }
        }
        Errno::ENOMEM => DeviceError::Memory { what: "a port's queue", bytes, source: errno.into() },
        errno => failed("opening a port", errno),
    })
}

impl OfUnit for HwPort {
    #[inline]
    fn unit(&self) -> &Unit {
        &self.unit
    }
}

impl PortDevice for HwPort {
    fn options(&self) -> u32 {
        self.options
    }

    fn queue(&self) -> QueueMap {
        QueueMap { base: self.unit.queue.at(0).cast(), entries: self.unit.slots }
    }

    fn requester_page(&self, option: PageOption) -> Option<NonNull<u8>> {
        let page = usize::from(option.bits());
        (self.options >> page & 1 != 0).then(|| self.unit.requester.at(page * PAGE))
    }

    #[inline]
    fn requester_store(&self, option: PageOption, offset: u64, value: u64) {
        self.unit.store(option.bits().into(), offset, value);
    }

    fn attach_slots(&self, _slots: u32, _option: PageOption) -> Result<SlotMap, DeviceError> {
        Err(DeviceError::NoSlotPath)
    }

    /// Memory that is no ordinary memory is registered as another device's: what gpumap mapped is GPU memory.
    unsafe fn register(&self, span: Span, access: Access) -> Result<u64, DeviceError> {
        let Span { address, len, place } = span;
        if len == 0 {
            return Err(DeviceError::EmptyRegion);
        }
        match place {
            Place::Host => self.register_host(address, len, access),
            Place::DmaBuf(buffer) => self.register_buffer(buffer.as_fd(), address, len, access),
            Place::Gpu(gpu) => self.register_gpu(&gpu, address, len, access),
        }
    }

    fn unregister(&self, nla: u64) -> Result<(), DeviceError> {
        let mut argument = extoll_unregister { nla, ..Default::default() };
        self.unit.file()?.unregister(&mut argument).map_err(|errno| match errno {
            Errno::ENOENT => DeviceError::NotRegistered { nla },
            errno => failed("ending a region", errno),
        })?;
        self.mappings().remove(&nla);
        Ok(())
    }
}

impl HwPort {
    fn register_host(&self, address: u64, len: usize, access: Access) -> Result<u64, DeviceError> {
        match self.call(EXTOLL_REGION_USER, 0, address, len, access) {
            Err(DeviceError::NotMapped { .. }) => self.call(EXTOLL_REGION_MMIO, 0, address, len, access),
            done => done,
        }
    }

    /// `offset` is the first byte's in the buffer.
    fn register_buffer(
        &self,
        buffer: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<u64, DeviceError> {
        self.call(EXTOLL_REGION_DMABUF, buffer.as_raw_fd(), offset, len, access)
    }

    /// As a dma-buf; where GPU or drivers do not have that, through a mapping by gpumap, kept with the region.
    fn register_gpu(&self, gpu: &Gpu, address: u64, len: usize, access: Access) -> Result<u64, DeviceError> {
        let exported = gpu.dma_buf(address, len).map_err(DeviceError::from);
        let registered =
            exported.and_then(|(buffer, offset)| self.register_buffer(buffer.as_fd(), offset, len, access));
        let dma_buf = match registered {
            Err(error) if !is_limit(&error) => error.to_string(),
            done => return done,
        };
        let mapping = GpuMapping::new(address, len).map_err(|error| {
            let gpumap = error.to_string();
            DeviceError::GpuMemory { gpu: gpu.ordinal(), dma_buf, gpumap }
        })?;
        let nla = self.call(EXTOLL_REGION_MMIO, 0, mapping.as_ptr() as u64, len, access)?;
        self.mappings().insert(nla, mapping);
        Ok(nla)
    }

    fn mappings(&self) -> MutexGuard<'_, BTreeMap<u64, GpuMapping>> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory of one kind.
    fn call(
        &self,
        kind: u64,
        fd: RawFd,
        address: u64,
        len: usize,
        access: Access,
    ) -> Result<u64, DeviceError> {
        let mut argument = extoll_register {
            kind: kind as u32,
            access: access.bits().into(),
            address,
            length: len as u64,
            fd,
            ..Default::default()
        };
        let pages = (address % PAGE as u64 + len as u64).div_ceil(PAGE as u64);
        let registered = self.unit.file()?.register(&mut argument);
        registered.map(|()| argument.nla).map_err(|errno| match errno {
            Errno::EFAULT => DeviceError::NotMapped { address, len },
            Errno::EREMOTEIO => DeviceError::NoWay { address, len },
            Errno::EINVAL => DeviceError::BadSpan { address, len },
            Errno::ENOMEM => memory_refused(pages * PAGE as u64),
            Errno::ENOSPC => DeviceError::NoTable { node: self.unit.address.node, pages },
            errno => failed("registering memory", errno),
        })
    }
}

/// What another way to the same memory does not help against.
fn is_limit(error: &DeviceError) -> bool {
    use DeviceError::{CardLost, Closed, LockedMemory, Memory, NoTable};
    matches!(error, CardLost { .. } | Closed | LockedMemory { .. } | Memory { .. } | NoTable { .. })
}

impl Drop for HwPort {
    fn drop(&mut self) {
        self.unit.close();
    }
}
