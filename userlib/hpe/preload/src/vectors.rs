//! `readv`, `writev`, `preadv` and `pwritev` in place of the C library's. Parts of the host and of devices may be mixed: those of devices have
//! stand-ins in memory of the host, by which one call of the C library moves all, so that a message stays one and bytes that others
//! write do not come between. Long parts of devices go by themselves, block by block.

use std::ffi::{c_int, c_void};

use ggas_hpe::{HpeError, Runtime, is_regular};
use libc::iovec;

use crate::cancel::uncancelled;
use crate::{fail, is_device, is_gpus, next, own_runtime, set_errno};

/// The most parts of a call, and the most bytes, as Linux has them.
const PARTS: usize = 1024;
const MOST: usize = 0x7fff_f000;

/// Bytes of stand-ins in one call; a part of a device that is longer goes by itself.
const ROOM: usize = 1 << 20;

/// Where stand-ins begin: a file that goes by no cache (`O_DIRECT`) takes them, if their lengths are those that it takes.
const PAGE: usize = 4096;

/// Parts that are looked at at a time.
const LOOKS: usize = 64;

const NONE: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

#[derive(Clone, Copy)]
struct Call {
    file: c_int,
    writes: bool,
    offset: Option<i64>,
}

impl Call {
    /// # Safety
    /// As the C library's.
    unsafe fn next(self, parts: *const iovec, count: c_int) -> isize {
        // SAFETY: the caller's contract.
        unsafe {
            match (self.writes, self.offset) {
                (false, None) => next::readv(self.file, parts, count),
                (false, Some(offset)) => next::preadv(self.file, parts, count, offset),
                (true, None) => next::writev(self.file, parts, count),
                (true, Some(offset)) => next::pwritev(self.file, parts, count, offset),
            }
        }
    }

    /// The same behind so many bytes.
    fn behind(self, bytes: usize) -> Call {
        Call { offset: self.offset.map(|offset| offset.saturating_add_unsigned(bytes as u64)), ..self }
    }

    /// Whether it goes on behind a part that was moved whole: what a pipe does not hold yet is not waited for.
    fn goes_on(self) -> bool {
        self.writes || is_regular(self.file)
    }
}

/// Takes a call that may have parts of devices. Nothing is allocated where it has none: handlers of signals may call it, and it may be
/// cancelled.
///
/// # Safety
/// As the C library's.
unsafe fn moves(call: Call, parts: *const iovec, count: c_int) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        if crate::RUNTIME.get().is_some() && is_any(parts, count, is_device) {
            return mixed(call, std::slice::from_raw_parts(parts, count as usize), 0);
        }
        let result = call.next(parts, count);
        match next::uses_cuda() {
            true => behind_gpus(call, parts, count, result),
            false => result,
        }
    }
}

/// Whether any part is such memory; none is where the list is no memory: the kernel says so then.
///
/// # Safety
/// As the C library's.
unsafe fn is_any(parts: *const iovec, count: c_int, is_such: fn(*const c_void) -> bool) -> bool {
    let count = usize::try_from(count).unwrap_or(0);
    if count > PARTS {
        return false;
    }
    let mut found = [NONE; LOOKS];
    for at in (0..count).step_by(LOOKS) {
        let some = &mut found[..LOOKS.min(count - at)];
        let bytes = std::mem::size_of_val(some);
        let to = iovec { iov_base: some.as_mut_ptr().cast(), iov_len: bytes };
        let from = iovec { iov_base: parts.wrapping_add(at).cast_mut().cast(), iov_len: bytes };
        // SAFETY: the system reads bytes of this process for us, if they are there.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        if read != bytes as isize {
            // SAFETY: this thread's own.
            if read >= 0 || unsafe { *libc::__errno_location() } == libc::EFAULT {
                return false;
            }
            // Where the call is forbidden, as in some containers, the list is taken to be one.
            // SAFETY: the caller's contract.
            unsafe { std::ptr::copy_nonoverlapping(parts.add(at), some.as_mut_ptr(), some.len()) };
        }
        if some.iter().any(|part| part.iov_len > 0 && is_such(part.iov_base)) {
            return true;
        }
    }
    false
}

/// What the kernel left because it has no memory at a pointer of CUDA's. It is not asked for before: who has no such pointers pays nothing.
///
/// # Safety
/// As the C library's, which gave `result`.
unsafe fn behind_gpus(call: Call, parts: *const iovec, count: c_int, result: isize) -> isize {
    // SAFETY: this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let met_none = result < 0 && errno != libc::EFAULT;
    // SAFETY: the caller's contract.
    if met_none || !unsafe { is_any(parts, count, is_gpus) } {
        set_errno(errno);
        return result;
    }
    // SAFETY: the same; the list was read.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let done = usize::try_from(result).unwrap_or(0);
    let at = behind(parts, done);
    let ends_there = at.is_some_and(|(place, within)| within == 0 && is_gpus(parts[place].iov_base));
    set_errno(errno);
    if result < 0 || ends_there && call.goes_on() {
        // SAFETY: the same.
        return unsafe { mixed(call, parts, done) };
    }
    result
}

/// The part that the byte behind so many lies in, and where; none behind the last one.
fn behind(parts: &[iovec], mut bytes: usize) -> Option<(usize, usize)> {
    for (place, part) in parts.iter().enumerate() {
        if bytes < part.iov_len {
            return Some((place, bytes));
        }
        bytes -= part.iov_len;
    }
    None
}

/// Moves parts of both kinds, behind those bytes that were moved.
///
/// # Safety
/// As the C library's, of a list that is memory.
unsafe fn mixed(call: Call, parts: &[iovec], done: usize) -> isize {
    if parts.iter().any(|part| isize::try_from(part.iov_len).is_err()) {
        set_errno(libc::EINVAL);
        return -1;
    }
    let result = uncancelled(|| {
        let runtime = own_runtime()?;
        let left = within(runtime, parts, done)?;
        // SAFETY: the caller's contract.
        unsafe { all(runtime, call.behind(done), &left) }
    });
    match result {
        Ok(count) => (done + count) as isize,
        Err(_) if done > 0 => done as isize,
        Err(error) => fail(&error, -1),
    }
}

/// The parts behind so many bytes, as far as a call goes: to the first one that is no memory of a device any more, which fails if it is the
/// first of all.
fn within(runtime: &Runtime, parts: &[iovec], done: usize) -> Result<Vec<iovec>, HpeError> {
    let (mut skipped, mut room, mut left) = (done, MOST.saturating_sub(done), Vec::new());
    for part in parts {
        let skip = skipped.min(part.iov_len);
        let len = (part.iov_len - skip).min(room);
        (skipped, room) = (skipped - skip, room - len);
        let base = part.iov_base.wrapping_byte_add(skip);
        if len > 0 && is_ours(base) && !runtime.holds(base.cast(), len) {
            if left.is_empty() {
                return Err(HpeError::NoMemory { address: base as u64, len });
            }
            break;
        }
        if len > 0 {
            left.push(iovec { iov_base: base, iov_len: len });
        }
    }
    Ok(left)
}

/// Whether the kernel cannot move it.
fn is_ours(base: *const c_void) -> bool {
    is_device(base) || is_gpus(base)
}

/// Moves parts until one is not moved whole.
///
/// # Safety
/// As the C library's; parts of devices are memory.
unsafe fn all(runtime: &Runtime, call: Call, parts: &[iovec]) -> Result<usize, HpeError> {
    let (mut moved, mut at) = (0, 0);
    loop {
        let (taken, mut stood_in) = together(&parts[at..]);
        let mut some = parts[at..at + taken.max(1).min(parts.len() - at)].to_vec();
        // What is left of a message is lost behind one call: so much of a long part as there is room for takes part in it.
        if taken > 0
            && !call.goes_on()
            && let Some(next) = parts.get(at + taken)
        {
            let room = next.iov_len.min(ROOM - stood_in);
            some.push(iovec { iov_len: room, ..*next });
            stood_in += room;
        }
        let asked: usize = some.iter().map(|part| part.iov_len).sum();
        let call = call.behind(moved);
        // SAFETY: the caller's contract.
        let result = unsafe {
            match &some[..] {
                [long] if taken == 0 => by_itself(runtime, call, long),
                _ => by_stand_ins(runtime, call, &some, stood_in),
            }
        };
        match result {
            Ok(count) => moved += count,
            Err(error) if moved == 0 => return Err(error),
            Err(_) => return Ok(moved),
        }
        at += some.len();
        let is_whole = result.is_ok_and(|count| count == asked);
        if !is_whole || at == parts.len() || !call.goes_on() {
            return Ok(moved);
        }
    }
}

/// How many parts go in one call, none where the first one goes by itself, and the bytes of devices among them.
fn together(parts: &[iovec]) -> (usize, usize) {
    let mut bytes = 0;
    for (count, part) in parts.iter().enumerate() {
        if is_ours(part.iov_base) {
            if bytes + part.iov_len > ROOM {
                return (count, bytes);
            }
            bytes += part.iov_len;
        }
    }
    (parts.len(), bytes)
}

/// # Safety
/// As [`all`], of a part of a device.
unsafe fn by_itself(runtime: &Runtime, call: Call, part: &iovec) -> Result<usize, HpeError> {
    let Call { file, writes, offset } = call;
    let (base, len) = (part.iov_base, part.iov_len);
    // SAFETY: the caller's contract.
    unsafe {
        match writes {
            true => runtime.write_file(file, base.cast_const().cast(), len, offset),
            false => runtime.read_file(file, base.cast(), len, offset),
        }
    }
}

/// # Safety
/// As [`all`].
unsafe fn by_stand_ins(
    runtime: &Runtime,
    call: Call,
    parts: &[iovec],
    bytes: usize,
) -> Result<usize, HpeError> {
    let mut room = vec![0u8; bytes + PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    let room = &mut room[start..];
    let (mut given, mut end) = (parts.to_vec(), 0);
    for part in given.iter_mut().filter(|part| is_ours(part.iov_base)) {
        let stand_in = &mut room[end..end + part.iov_len];
        end += part.iov_len;
        if call.writes {
            // SAFETY: the caller's contract; there is room.
            unsafe { runtime.copy(stand_in.as_mut_ptr(), part.iov_base.cast_const().cast(), part.iov_len)? };
        }
        part.iov_base = stand_in.as_mut_ptr().cast();
    }
    // SAFETY: the caller's contract; those of devices are memory of the host now.
    let result = unsafe { call.next(given.as_ptr(), given.len() as c_int) };
    let moved = usize::try_from(result)
        .map_err(|_| HpeError::System { what: "the file", error: std::io::Error::last_os_error() })?;
    let mut left = moved;
    for (part, stand_in) in parts.iter().zip(&given) {
        let came = left.min(part.iov_len);
        left -= came;
        if !call.writes && came > 0 && part.iov_base != stand_in.iov_base {
            // SAFETY: the same.
            unsafe { runtime.copy(part.iov_base.cast(), stand_in.iov_base.cast_const().cast(), came)? };
        }
    }
    Ok(moved)
}

macro_rules! vectors {
    ($($name:ident, $writes:literal;)*) => {$(
        /// The C library's, and of devices.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(file: c_int, parts: *const iovec, count: c_int) -> isize {
            // SAFETY: the caller's contract.
            unsafe { moves(Call { file, writes: $writes, offset: None }, parts, count) }
        }
    )*};
    ($($name:ident at offset, $writes:literal;)*) => {$(
        /// The C library's, and of devices.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(file: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize {
            // SAFETY: the caller's contract.
            unsafe { moves(Call { file, writes: $writes, offset: Some(offset) }, parts, count) }
        }
    )*};
}

vectors! {
    readv, false;
    writev, true;
}

vectors! {
    preadv at offset, false;
    preadv64 at offset, false;
    pwritev at offset, true;
    pwritev64 at offset, true;
}
