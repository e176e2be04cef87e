//! Checks of memory that C programs name: is it mapped, readable, writable, according to the operating system?

use std::ffi::c_void;
use std::io;

use ggas::Access;

const PAGE: usize = ggas::PAGE;

/// Makes the pages of `len` bytes at `start` (both multiples of the page size) present, as pinning them would, and
/// says what the card may do with them. `None`: not all of it is mapped readable.
pub(crate) fn prepare(start: usize, len: usize) -> Option<Access> {
    // Linux 5.14 and later. Mappings of devices and older kernels are looked up instead.
    if advise(start, len, libc::MADV_POPULATE_WRITE).is_ok() {
        return Some(Access::ALL);
    }
    let read_only = advise(start, len, libc::MADV_POPULATE_READ).is_ok();
    let rights = mapped(start, len)?;
    if rights.write && !read_only { Some(Access::ALL) } else { Some(Access::READ) }
}

fn advise(start: usize, len: usize, advice: i32) -> io::Result<()> {
    // A system call of its own: the library's madvise looks for registered memory.
    // SAFETY: this advice changes no contents, whatever is there.
    let done = unsafe { libc::syscall(libc::SYS_madvise, start, len, advice) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of the shared memory segment that is attached at `start`: its mappings in a row.
pub(crate) fn attached(start: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (mut end, mut segment) = (start, None);
    for line in maps.lines() {
        // Range, rights, offset, device, inode.
        let mut fields = line.split_whitespace();
        let Some((from, to)) = fields.next().and_then(|range| range.split_once('-')) else { continue };
        let file = (fields.nth(2).map(str::to_owned), fields.next().map(str::to_owned));
        if usize::from_str_radix(from, 16) != Ok(end) || segment.as_ref().is_some_and(|known| *known != file)
        {
            continue;
        }
        end = usize::from_str_radix(to, 16).unwrap_or(end);
        segment = Some(file);
    }
    end - start
}

struct Rights {
    write: bool,
}

/// What the process's list of mappings allows for the whole range.
fn mapped(start: usize, len: usize) -> Option<Rights> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (mut at, end, mut write) = (start, start.checked_add(len)?, true);
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        if to <= at {
            continue;
        }
        if from > at || !rest.starts_with('r') {
            return None;
        }
        write &= rest.as_bytes().get(1) == Some(&b'w');
        at = to;
        if at >= end {
            return Some(Rights { write });
        }
    }
    None
}

/// Copies a value from an address that may be anything. `None`: it is not readable.
pub(crate) fn read_anywhere<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    let len = size_of::<T>();
    let local = libc::iovec { iov_base: value.as_mut_ptr().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: len };
    // SAFETY: the kernel checks the remote side; the local side is ours.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    // SAFETY: all of it was written; only plain C structures are read this way.
    (read == len as isize).then(|| unsafe { value.assume_init() })
}

/// First byte of the page of `address`.
pub(crate) fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// The pages of a range: first byte and behind the last; `None` where it wraps.
pub(crate) fn pages_of(address: usize, len: usize) -> Option<(usize, usize)> {
    let end = address.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    Some((page_of(address), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_the_mapping() {
        let page = |protection| {
            // SAFETY: a new mapping.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    2 * PAGE,
                    protection,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(at, libc::MAP_FAILED);
            at as usize
        };
        let both = page(libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(prepare(both, 2 * PAGE), Some(Access::ALL));
        assert_eq!(prepare(page(libc::PROT_READ), 2 * PAGE), Some(Access::READ));
        assert_eq!(prepare(page(libc::PROT_NONE), PAGE), None);
        // SAFETY: our own mapping.
        unsafe { libc::munmap((both + PAGE) as *mut c_void, PAGE) };
        assert_eq!(prepare(both, 2 * PAGE), None);
        assert_eq!(prepare(0, PAGE), None);
        assert_eq!(prepare(usize::MAX & !(PAGE - 1), PAGE), None);
    }

    #[test]
    fn any_address_can_be_asked_for() {
        assert_eq!(read_anywhere(&42u64), Some(42));
        assert_eq!(read_anywhere(std::ptr::without_provenance::<u64>(8)), None);
        assert_eq!(read_anywhere(usize::MAX.wrapping_sub(7) as *const u64), None);
    }
}
