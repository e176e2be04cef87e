//! Cards behind `/dev/extollN`, through the calls and mappings of the kernel module (`kmod/uapi/extoll/ioctl.h`).
//!
//! Every port is a file of its own, which holds its VPID, queues and registered memory. Registers and requester pages
//! are mapped pages of the card, accessed by volatile words; queues are memory. Posting and polling
//! make no system call; a look at the WCB state goes over the bus, so it is taken once in 64 posts ([`WcbWriter`](crate::WcbWriter)).

mod buffer;
mod device;
mod file;
mod gpu;
mod map;
mod port;
mod unit;
mod velo;
mod window;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

pub use buffer::PhysicalBuffer;
pub use device::HwDevice;
pub use gpu::GpuMapping;

use crate::{Device, DeviceError, Kind};

/// The first card's device node.
const FIRST: &str = "/dev/extoll0";
/// Another one, or several separated by commas, for machines with several cards.
const VARIABLE: &str = "EXTOLL_CARD";

/// Opens the card that the environment variable EXTOLL_CARD names by its path (of several, the first), or else
/// `/dev/extoll0`.
///
/// # Errors
/// As for [`open_at`].
pub fn open() -> Result<Arc<dyn Device>, DeviceError> {
    open_at(Path::new(&first()))
}

/// Opens all cards that EXTOLL_CARD names, or else `/dev/extoll0`. There is at least one.
///
/// # Errors
/// As for [`open_at`].
pub fn open_all() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    named().split(',').map(|path| open_at(Path::new(path))).collect()
}

/// The device node of a card that a program may expect here: EXTOLL_CARD names it, or `/dev/extoll0` is there. Whether it
/// can be used, [`probe`] says.
pub fn expected() -> Option<String> {
    let named = std::env::var_os(VARIABLE).is_some_and(|names| !names.is_empty());
    (named || Path::new(FIRST).exists()).then(first)
}

fn first() -> String {
    named().split(',').next().unwrap_or(FIRST).to_owned()
}

fn named() -> String {
    std::env::var(VARIABLE).ok().filter(|names| !names.is_empty()).unwrap_or_else(|| FIRST.to_owned())
}

/// Opens the card at a device node.
///
/// # Errors
/// [`DeviceError::NotAvailable`], with what to do: load the module, join the group, take another driver.
pub fn open_at(path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(Arc::new(HwDevice::open(path)?))
}

/// Whether a card can be used here.
///
/// # Errors
/// As for [`open`].
///
/// ```
/// # if !std::path::Path::new("/dev/extoll0").exists() {
/// let error = ggas_device::hw::probe().unwrap_err();
/// assert!(error.to_string().starts_with("no hw device here"));
/// # }
/// ```
pub fn probe() -> Result<(), DeviceError> {
    open().map(drop)
}

/// Why a device node cannot be opened, and what to do.
fn refused(path: &Path, error: &io::Error) -> DeviceError {
    let path = path.display();
    let reason = match error.kind() {
        ErrorKind::NotFound => format!(
            "no {path}: load the kernel module (insmod extoll.ko, see kmod/README.md) on a machine with the card; \
             without one, use the model (sim)"
        ),
        ErrorKind::PermissionDenied => {
            format!("{path} is not for this user: join group extoll (usermod -aG extoll USER), log in again")
        }
        _ => match error.raw_os_error() {
            Some(libc::ENXIO | libc::ENODEV) => {
                format!("the card of {path} is gone: look at dmesg, and load the kernel module again")
            }
            Some(libc::EIO) => format!("the card of {path} stopped answering: look at dmesg, and reset it"),
            _ => format!("{path}: {error}"),
        },
    };
    DeviceError::NotAvailable { kind: Kind::Hw, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str) -> String {
        open_at(Path::new(path)).unwrap_err().to_string()
    }

    #[test]
    fn without_a_module_the_message_says_to_load_it() {
        let text = error("/dev/no-such-extoll7");
        assert!(text.contains("no /dev/no-such-extoll7: load the kernel module"), "{text}");
        assert!(text.contains("kmod/README.md"), "{text}");
    }

    #[test]
    fn what_is_no_card_is_refused_by_name() {
        let text = error("/dev/null");
        assert!(text.contains("/dev/null is not a card of the extoll module"), "{text}");
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let text = |code| refused(Path::new("/dev/extoll0"), &io::Error::from_raw_os_error(code)).to_string();
        assert!(text(libc::EACCES).contains("join group extoll"), "{}", text(libc::EACCES));
        assert!(text(libc::ENODEV).contains("is gone"), "{}", text(libc::ENODEV));
        assert!(text(libc::EIO).contains("reset it"), "{}", text(libc::EIO));
        assert!(text(libc::EMFILE).contains("Too many open files"), "{}", text(libc::EMFILE));
    }
}
