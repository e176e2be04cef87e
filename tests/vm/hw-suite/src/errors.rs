//! What is refused says so by its own error.

use ggas_device::{Access, Device, DeviceError, PAGE, Place, PortSetup, Span};
use ggas_rma::Node;

use crate::{Outcome, check};

pub fn all(node: &Node) -> Outcome {
    let device = node.device();
    let refused = |queue_bytes, segment_bytes| device.open_port(&PortSetup { queue_bytes, segment_bytes });
    for (queue, segment) in [(0, 4096), (100, 4096), (3 * PAGE, 2 * PAGE), (4 << 20, 2 << 20)] {
        let error = refused(queue, segment).err();
        check(matches!(error, Some(DeviceError::QueueShape { .. })), format!("{queue}: {error:?}"))?;
    }
    regions(&**device)?;
    let odd = device.read_register(4).err();
    check(matches!(odd, Some(DeviceError::RegisterOffset { .. })), format!("{odd:?}"))?;
    let all: Result<Vec<_>, _> = (0..=device.info().ports).map(|_| refused(PAGE, PAGE)).collect();
    check(matches!(all, Err(DeviceError::PortsInUse { .. })), "more ports than there are")?;
    Ok(())
}

fn regions(device: &dyn Device) -> Outcome {
    let port = device.open_port(&PortSetup::default())?;
    // SAFETY: none of these registers anything: there is no memory.
    let refused =
        |address, len| unsafe { port.register(Span { address, len, place: Place::Host }, Access::ALL).err() };
    let unmapped = refused(PAGE as u64, PAGE);
    check(matches!(unmapped, Some(DeviceError::NotMapped { .. })), format!("{unmapped:?}"))?;
    let empty = refused(PAGE as u64, 0);
    check(matches!(empty, Some(DeviceError::EmptyRegion)), format!("{empty:?}"))?;
    let wrapped = refused(u64::MAX - 8, 4096);
    check(matches!(wrapped, Some(DeviceError::BadSpan { .. })), format!("{wrapped:?}"))?;
    let forged = port.unregister(4096 << 30).err();
    check(matches!(forged, Some(DeviceError::NotRegistered { .. })), format!("{forged:?}"))?;
    port.close()?;
    let closed = port.unregister(0).err();
    check(matches!(closed, Some(DeviceError::Closed)), format!("{closed:?}"))
}
