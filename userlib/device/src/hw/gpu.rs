//! GPU memory for a card: as the dma-buf that the GPU's driver exports, or as a mapping by gpumap (thesis 3.3.3).

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

use extoll_abi::bindings::{GPUMAP_IOC_MAGIC, GPUMAP_PAGE, gpumap_pin};
use nix::errno::Errno;

use super::map::Mapping;
use crate::{DeviceError, Kind};

const DEVICE: &str = "/dev/gpumap";
/// What gpumap pins.
const UNIT: u64 = GPUMAP_PAGE as u64;

nix::ioctl_readwrite!(pin, GPUMAP_IOC_MAGIC, 0, gpumap_pin);

/// GPU memory in the address space of this process, and of the cards where it is registered, by the module gpumap. Stores
/// of the host to it are combined; it ends when the memory is freed on the GPU: then accesses are SIGBUS.
#[derive(Debug)]
pub struct GpuMapping {
    pages: Mapping,
    /// Of the first byte that was asked for, in the pages.
    offset: usize,
    len: usize,
    _file: File,
}

impl GpuMapping {
    /// Maps `len` bytes at a GPU's address; whole pages of 64 KiB around them are pinned.
    ///
    /// # Errors
    /// [`DeviceError::NotAvailable`] without the module, or where the GPU's driver does not let it pin;
    /// [`DeviceError::BadSpan`] for what is no GPU memory; [`DeviceError::Memory`].
    pub fn new(address: u64, len: usize) -> Result<GpuMapping, DeviceError> {
        let bad = || DeviceError::BadSpan { address, len };
        let start = address / UNIT * UNIT;
        let end = address.checked_add(len as u64).and_then(|end| end.checked_next_multiple_of(UNIT));
        let length = end.filter(|_| len > 0).map(|end| end - start).ok_or_else(bad)?;
        let file = open()?;
        let mut argument = gpumap_pin { gpu_address: start, length, offset: 0 };
        // SAFETY: the structure is the one that the call's number names; the driver reads and writes just it.
        unsafe { pin(file.as_raw_fd(), &mut argument) }.map_err(|errno| match errno {
            Errno::EINVAL => bad(),
            errno => not_available(format!("gpumap does not pin memory of this GPU: {}", errno.desc())),
        })?;
        let pages = Mapping::new(&file, argument.offset, length as usize, "GPU memory")?;
        Ok(GpuMapping { pages, offset: (address - start) as usize, len, _file: file })
    }

    /// Where the host has the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pages.at(self.offset).as_ptr()
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none; never true.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn open() -> Result<File, DeviceError> {
    OpenOptions::new().read(true).write(true).open(Path::new(DEVICE)).map_err(|error| {
        let advice = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT) => "load the module gpumap (kmod/gpumap/README.md)",
            Some(Errno::ENODEV) => {
                "no GPU driver lets it pin memory: load NVIDIA's open kernel modules first"
            }
            Some(Errno::EACCES | Errno::EPERM) => "let this user open it",
            _ => "see kmod/gpumap/README.md",
        };
        not_available(format!("{DEVICE}: {error}; {advice}"))
    })
}

fn not_available(reason: String) -> DeviceError {
    DeviceError::NotAvailable { kind: Kind::Hw, reason }
}
