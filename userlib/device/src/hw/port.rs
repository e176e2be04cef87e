//! RMA ports of a card.

use std::time::Duration;

use extoll_abi::bindings::{
    EXTOLL_MAP_QUEUE, EXTOLL_MAP_REQUESTER, EXTOLL_MAP_RP, EXTOLL_MAP_WCB, EXTOLL_REGION_MMIO,
    EXTOLL_REGION_USER, EXTOLL_UNIT_RMA, extoll_port_open, extoll_register, extoll_unregister,
};
use extoll_abi::{Access, Address, PageOption};
use nix::errno::Errno;

use super::file::{CardFile, failed};
use super::unit::{Layout, Unit, WCB_BATCH, flush_stores};
use crate::limit::memory_refused;
use crate::{
    DeviceError, PAGE, Place, PortDevice, PortSetup, QueueMap, RegisterMap, SlotMap, Span, UnitDevice,
};

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
}

impl HwPort {
    pub(super) fn open(file: CardFile, setup: &PortSetup) -> Result<HwPort, DeviceError> {
        let (queue_bytes, segment_bytes) = shape(setup.queue_bytes, setup.segment_bytes)?;
        let units = EXTOLL_UNIT_RMA as u32;
        let mut open = extoll_port_open { units, queue_bytes, segment_bytes, ..Default::default() };
        open_call(&file, &mut open, setup.queue_bytes, setup.segment_bytes)?;
        let unit = Unit::new(file, &open, &LAYOUT, open.options, open.queue_bytes_out, SLOT_BYTES)?;
        Ok(HwPort { unit, options: open.options })
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
        Errno::EINVAL => {
            let problem = "the driver takes at most 512 segments of at most 1 MiB";
            DeviceError::QueueShape { bytes, segment, problem }
        }
        Errno::ENOMEM => DeviceError::Memory { what: "a port's queue", bytes, source: errno.into() },
        errno => failed("opening a port", errno),
    })
}

impl UnitDevice for HwPort {
    fn address(&self) -> Address {
        self.unit.address
    }

    #[inline]
    fn set_read_pointer(&self, index: u32, rearm: bool) {
        self.unit.set_read_pointer(index, rearm);
    }

    fn registers(&self) -> RegisterMap {
        self.unit.registers()
    }

    fn wcb_batch(&self) -> u8 {
        WCB_BATCH
    }

    #[inline]
    fn fence(&self) {
        flush_stores();
    }

    fn sleep_until(&self, ready: &dyn Fn() -> bool, timeout: Duration) {
        self.unit.sleep_until(ready, timeout);
    }

    fn close(&self) -> Result<(), DeviceError> {
        self.unit.close();
        Ok(())
    }
}

impl PortDevice for HwPort {
    fn options(&self) -> u32 {
        self.options
    }

    fn queue(&self) -> QueueMap {
        QueueMap { base: self.unit.queue.at(0).cast(), entries: self.unit.slots }
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
        if let Place::Gpu(_) = place {
            let reason = "a card reaches GPU memory through a mapping of it: map it with gpumap, and register the \
                          mapping as host memory";
            return Err(DeviceError::NotAvailable { kind: crate::Kind::Hw, reason: reason.to_owned() });
        }
        if len == 0 {
            return Err(DeviceError::EmptyRegion);
        }
        let file = self.unit.file()?;
        let mut argument = extoll_register {
            kind: EXTOLL_REGION_USER as u32,
            access: access.bits().into(),
            address,
            length: len as u64,
            ..Default::default()
        };
        let Err(errno) = file.register(&mut argument) else { return Ok(argument.nla) };
        if errno == Errno::EFAULT {
            argument.kind = EXTOLL_REGION_MMIO as u32;
            if file.register(&mut argument).is_ok() {
                return Ok(argument.nla);
            }
        }
        let pages = (address % PAGE as u64 + len as u64).div_ceil(PAGE as u64);
        Err(match errno {
            Errno::EFAULT => DeviceError::NotMapped { address, len },
            Errno::EINVAL => DeviceError::BadSpan { address, len },
            Errno::ENOMEM => memory_refused(pages * PAGE as u64),
            Errno::ENOSPC => DeviceError::NoTable { node: self.unit.address.node, pages },
            errno => failed("registering memory", errno),
        })
    }

    fn unregister(&self, nla: u64) -> Result<(), DeviceError> {
        let mut argument = extoll_unregister { nla, ..Default::default() };
        self.unit.file()?.unregister(&mut argument).map_err(|errno| match errno {
            Errno::ENOENT => DeviceError::NotRegistered { nla },
            errno => failed("ending a region", errno),
        })
    }
}

impl Drop for HwPort {
    fn drop(&mut self) {
        self.unit.close();
    }
}
