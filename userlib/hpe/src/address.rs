//! Who owns an address, from its bits alone (digest 2.2).
//!
//! Each device has a segment of 1 TiB: 40 bits, as many as the physical addresses of the paper's GPUs have. Bits 40 and up are
//! the number of the device, so `0x000200_00001000` is byte 0x1000 of device 2. All else is the host's.
//!
//! A device sees its memory at other addresses than the host. Where hardware discards the upper bits nothing is to be done; the
//! CPU executor sees a device's memory in its *view*, at the same address with one more bit ([`VIEW_BIT`]), and kernels set it.
//!
//! Memory of another rank has that rank's number in the bits from 48 on, which no address of a process has: what is below is what that
//! rank calls it ([`remote`]). All ones there are the system's own addresses, and what calls return that failed: no rank's.

use std::fmt;

/// Bits of an address within a segment.
pub const SEGMENT_BITS: u32 = 40;

/// Bytes of a segment: 1 TiB.
pub const SEGMENT_BYTES: u64 = 1 << SEGMENT_BITS;

/// What a kernel of the executor sets in an address of a device: views begin at 32 TiB, below where Linux maps programs.
pub const VIEW_BIT: u64 = 1 << 45;

/// Bits of an address within a process.
pub const RANK_SHIFT: u32 = 48;

/// Ranks that pointers can name, from 0: bits of zeroes are none, and bits of ones are the system's.
pub const MAX_RANKS: u32 = 0xfffe;

/// Devices that have a segment, at most: numbers from 1.
pub const MAX_DEVICES: u8 = 31;

/// A device, by its number: from 1 to [`MAX_DEVICES`], as segment 0 holds null and programs without relocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(u8);

impl DeviceId {
    /// The device with this number, if there can be one.
    pub const fn new(number: u8) -> Option<DeviceId> {
        if number >= 1 && number <= MAX_DEVICES { Some(DeviceId(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The address of byte `offset` of its segment; `None` beyond the segment.
    pub const fn address(self, offset: u64) -> Option<u64> {
        if offset < SEGMENT_BYTES { Some((self.0 as u64) << SEGMENT_BITS | offset) } else { None }
    }

    /// Where its segment begins.
    pub const fn segment(self) -> u64 {
        (self.0 as u64) << SEGMENT_BITS
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

/// Whose segment an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The host, or, where addresses are CUDA's own, whoever its driver says.
    Host,
    /// A device, and the offset in its segment.
    Device(DeviceId, u64),
}

/// Reads the owner off the bits: no lock, no table, no system call. The device need not exist.
#[inline]
pub const fn owner(address: u64) -> Owner {
    let upper = address >> SEGMENT_BITS;
    if upper >= 1 && upper <= MAX_DEVICES as u64 {
        Owner::Device(DeviceId(upper as u8), address & (SEGMENT_BYTES - 1))
    } else {
        Owner::Host
    }
}

/// The pointer by which all ranks name what rank `rank` calls `address`; `None` for ranks and addresses that there cannot be.
#[inline]
pub const fn remote(rank: u32, address: u64) -> Option<u64> {
    if rank < MAX_RANKS && address >> RANK_SHIFT == 0 {
        Some((rank as u64 + 1) << RANK_SHIFT | address)
    } else {
        None
    }
}

/// Whose pointer it is, and what that rank calls it; `None` for pointers of this process alone, and for what is no rank's.
#[inline]
pub const fn rank(pointer: u64) -> Option<(u32, u64)> {
    match (pointer >> RANK_SHIFT) as u32 {
        0 => None,
        above if above > MAX_RANKS => None,
        above => Some((above - 1, pointer & ((1 << RANK_SHIFT) - 1))),
    }
}

/// Where a kernel of the executor finds what the host calls `address`. The host's own addresses stay as they are.
#[inline]
pub const fn view(address: u64) -> u64 {
    match owner(address) {
        Owner::Device(..) => address | VIEW_BIT,
        Owner::Host => address,
    }
}

/// Whether the host can read the byte at an address: of memory of GPUs it cannot. `None` where the system does not say so, as in
/// containers that forbid the call.
pub fn is_memory(address: u64) -> Option<bool> {
    let mut byte = 0u8;
    let to = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
    // SAFETY: the system reads a byte of this process for us, if there is one, into `byte`.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    let failed = || std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    if read == 1 { Some(true) } else { failed().then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example_is_byte_0x1000_of_device_2() {
        let two = DeviceId::new(2).unwrap();
        assert_eq!(owner(0x200_0000_1000), Owner::Device(two, 0x1000));
        assert_eq!(two.address(0x1000), Some(0x20000001000));
    }

    #[test]
    fn ranks_are_read_off_the_bits() {
        for number in [0, 1, 77, MAX_RANKS - 1] {
            for address in [0, 0x200_0000_1000, view(0x200_0000_1000), (1 << RANK_SHIFT) - 1] {
                let pointer = remote(number, address).unwrap();
                assert_eq!(rank(pointer), Some((number, address)));
                assert_eq!(owner(pointer), Owner::Host, "no device of this process");
                assert_eq!(rank(address), None);
            }
        }
        assert_eq!((remote(MAX_RANKS, 0), remote(0, 1 << RANK_SHIFT)), (None, None));
        for none in [u64::MAX, 0xffff << RANK_SHIFT, (-4096_i64) as u64] {
            assert_eq!(rank(none), None, "{none:#x}");
        }
    }

    #[test]
    fn owners_are_read_off_the_bits() {
        for number in 1..=MAX_DEVICES {
            let device = DeviceId::new(number).unwrap();
            for offset in [0, 1, 0xffff_ffff, SEGMENT_BYTES - 1] {
                let address = device.address(offset).unwrap();
                assert_eq!(owner(address), Owner::Device(device, offset));
                assert_eq!(owner(view(address)), Owner::Host, "a view is not for the host");
                assert_eq!(view(address) & !VIEW_BIT, address);
            }
            assert_eq!(device.address(SEGMENT_BYTES), None);
        }
        assert!(DeviceId::new(0).is_none() && DeviceId::new(MAX_DEVICES + 1).is_none());
        let local = 0u8;
        let here = &raw const local as u64;
        for host in [0, 8, 0xff_ffff_ffff, 32 << SEGMENT_BITS, here, u64::MAX] {
            assert_eq!(owner(host), Owner::Host, "{host:#x}");
            assert_eq!(view(host), host);
        }
    }

    #[test]
    fn memory_that_is_not_there_is_found() {
        let here = 7u8;
        assert_eq!(is_memory(&raw const here as u64), Some(true));
        // SAFETY: a new page, which nobody uses.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert!(page != libc::MAP_FAILED);
        assert_eq!(is_memory(page as u64), Some(false));
        // SAFETY: the same page.
        assert_eq!(unsafe { libc::munmap(page, 4096) }, 0);
    }
}
