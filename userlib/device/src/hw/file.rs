//! An open file of a card, and the calls on it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use extoll_abi::bindings::{
    EXTOLL_ABI_VERSION, EXTOLL_IOC_MAGIC, extoll_buffer_alloc, extoll_info, extoll_port_open,
    extoll_port_rights, extoll_register, extoll_rf_access, extoll_unregister, extoll_wait,
    extoll_window_close, extoll_window_open,
};
use nix::errno::Errno;
use nix::fcntl::FcntlArg;

use super::refused;
use crate::{DeviceError, Kind};

mod calls {
    use super::*;
    nix::ioctl_readwrite!(info, EXTOLL_IOC_MAGIC, 0, extoll_info);
    nix::ioctl_readwrite!(port_open, EXTOLL_IOC_MAGIC, 1, extoll_port_open);
    nix::ioctl_readwrite!(register, EXTOLL_IOC_MAGIC, 2, extoll_register);
    nix::ioctl_readwrite!(unregister, EXTOLL_IOC_MAGIC, 3, extoll_unregister);
    nix::ioctl_readwrite!(wait, EXTOLL_IOC_MAGIC, 4, extoll_wait);
    nix::ioctl_readwrite!(port_rights, EXTOLL_IOC_MAGIC, 5, extoll_port_rights);
    nix::ioctl_readwrite!(rf_access, EXTOLL_IOC_MAGIC, 6, extoll_rf_access);
    nix::ioctl_readwrite!(window_open, EXTOLL_IOC_MAGIC, 7, extoll_window_open);
    nix::ioctl_readwrite!(window_close, EXTOLL_IOC_MAGIC, 8, extoll_window_close);
    nix::ioctl_readwrite!(buffer_alloc, EXTOLL_IOC_MAGIC, 9, extoll_buffer_alloc);
}

/// One call: structure in, structure out.
macro_rules! call {
    ($name:ident, $argument:ty) => {
        pub(super) fn $name(&self, argument: &mut $argument) -> Result<(), Errno> {
            // SAFETY: the structure is the one that the call's number names; the driver reads and writes just it.
            unsafe { calls::$name(self.fd.as_raw_fd(), argument) }.map(drop)
        }
    };
}

/// A file of the driver: what is opened on it lives until it is closed and its mappings are gone.
#[derive(Debug)]
pub(super) struct CardFile {
    fd: OwnedFd,
    path: PathBuf,
}

impl CardFile {
    pub(super) fn open(path: &Path) -> Result<CardFile, DeviceError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
        let file = options.open(path).map_err(|error| refused(path, &error))?;
        // Beyond the standard files: a program that has closed those must not print to the card.
        let fd = nix::fcntl::fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(libc::STDERR_FILENO + 1));
        let fd = fd.map_err(|errno| refused(path, &errno.into()))?;
        // SAFETY: just made, and nobody else has it.
        Ok(CardFile { fd: unsafe { OwnedFd::from_raw_fd(fd) }, path: path.to_owned() })
    }

    /// Another file of the same card.
    pub(super) fn again(&self) -> Result<CardFile, DeviceError> {
        CardFile::open(&self.path)
    }

    /// What card and driver are. Fails for files of other drivers.
    pub(super) fn info(&self) -> Result<extoll_info, DeviceError> {
        let mut info = extoll_info::default();
        self.info_call(&mut info).map_err(|errno| match errno {
            Errno::ENOTTY => {
                let reason = format!("{} is not a card of the extoll module", self.path.display());
                DeviceError::NotAvailable { kind: Kind::Hw, reason }
            }
            errno => refused(&self.path, &errno.into()),
        })?;
        let version = u64::from(info.abi_version);
        if version < EXTOLL_ABI_VERSION {
            let reason = format!(
                "the extoll module speaks version {version} of its interface, this library needs {EXTOLL_ABI_VERSION}: \
                 load the module of this release"
            );
            return Err(DeviceError::NotAvailable { kind: Kind::Hw, reason });
        }
        Ok(info)
    }

    fn info_call(&self, info: &mut extoll_info) -> Result<(), Errno> {
        // SAFETY: as in `call`.
        unsafe { calls::info(self.fd.as_raw_fd(), info) }.map(drop)
    }

    call!(port_open, extoll_port_open);
    call!(register, extoll_register);
    call!(unregister, extoll_unregister);
    call!(wait, extoll_wait);
    call!(port_rights, extoll_port_rights);
    call!(rf_access, extoll_rf_access);
    call!(window_open, extoll_window_open);
    call!(window_close, extoll_window_close);
    call!(buffer_alloc, extoll_buffer_alloc);
}

impl AsFd for CardFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Errors that any call may give.
pub(super) fn failed(what: &'static str, errno: Errno) -> DeviceError {
    match errno {
        Errno::ENODEV => DeviceError::CardLost { how: "was removed" },
        Errno::EIO => DeviceError::CardLost { how: "stopped answering and was cut off from memory" },
        Errno::EPERM => DeviceError::Privilege { what },
        errno => DeviceError::Driver { what, source: io::Error::from(errno) },
    }
}
