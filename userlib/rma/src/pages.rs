//! Addresses for a port's option pages without memory behind them.

use std::ops::Range;

use ggas_device::DeviceError;

/// 32 options, 1 MiB apart (spec 2.1).
const BYTES: usize = 32 << 20;

/// A reserved, inaccessible address range of 32 MiB: kernels on the CPU executor store there by calls, and a stray
/// plain access faults instead of hitting other memory.
#[derive(Debug)]
pub struct OptionPages {
    start: *mut libc::c_void,
}

// SAFETY: only a range of addresses, nothing is accessed through the pointer.
unsafe impl Send for OptionPages {}
// SAFETY: as above.
unsafe impl Sync for OptionPages {}

impl OptionPages {
    /// Takes addresses from the system.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn reserve() -> Result<OptionPages, DeviceError> {
        // SAFETY: a new inaccessible mapping touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            let source = std::io::Error::last_os_error();
            return Err(DeviceError::Memory { what: "addresses of option pages", bytes: BYTES, source });
        }
        Ok(OptionPages { start })
    }

    /// The addresses.
    pub fn range(&self) -> Range<u64> {
        let start = self.start as u64;
        start..start + BYTES as u64
    }
}

impl Drop for OptionPages {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.start, BYTES) };
    }
}
