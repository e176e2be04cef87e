//! Cards behind `/dev/extollN`.
//!
//! The trait fits them: BARs are volatile registers, queues are mapped memory. This version of the suite has no
//! kernel module, so the kind only says why it cannot be used.

use std::path::Path;

use crate::{DeviceError, Kind};

/// Whether a card can be used here.
///
/// # Errors
/// [`DeviceError::NotAvailable`] with the reason.
///
/// ```
/// let error = ggas_device::hw::probe().unwrap_err();
/// assert!(error.to_string().starts_with("no hw device here"));
/// ```
pub fn probe() -> Result<(), DeviceError> {
    let reason = if Path::new("/dev/extoll0").exists() {
        "/dev/extoll0 is there, but this version has no access to cards yet; use the model (sim)"
    } else {
        "no /dev/extoll0; it comes with the extoll kernel module, which this version does not have yet; use the \
         model (sim)"
    };
    Err(DeviceError::NotAvailable { kind: Kind::Hw, reason: reason.to_owned() })
}
