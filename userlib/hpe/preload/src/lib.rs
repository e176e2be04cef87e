//! `ggas_hpe.h`, and file calls in place of the C library's that take pointers of devices.
//!
//! A call whose pointer is the host's goes to the C library's own at once.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ggas_hpe::address::{Owner, is_memory, owner};
use ggas_hpe::{HpeError, PinnedBuffers, Runtime};

mod next;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Until then no pointer of a GPU is known, and the driver must not be asked: it may be the one that calls.
static IS_MAKING: AtomicBool = AtomicBool::new(false);

/// The runtime of this process: made at the first call that needs it.
fn runtime() -> Result<&'static Runtime, HpeError> {
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_none() {
        let asked = devices_asked()?;
        IS_MAKING.store(true, Ordering::Release);
        let gpus = ggas_gpu::Gpu::all().unwrap_or_default();
        let direct = std::env::var_os("GGAS_HPE_DIRECT_STORAGE").is_some_and(|asked| asked != "0");
        let builder = Runtime::builder().executors(asked).gpus(gpus).direct_storage(direct);
        let built = builder.build();
        IS_MAKING.store(false, Ordering::Release);
        let _ = RUNTIME.set(built?);
    }
    // Set above, or by who made it before.
    RUNTIME.get().ok_or(HpeError::Forked)
}

/// Devices of the executor.
fn devices_asked() -> Result<usize, HpeError> {
    match std::env::var("GGAS_HPE_DEVICES") {
        Ok(asked) if !asked.is_empty() => asked.parse().map_err(|_| HpeError::System {
            what: "GGAS_HPE_DEVICES is no number of devices",
            error: std::io::Error::from_raw_os_error(libc::EINVAL),
        }),
        _ => Ok(1),
    }
}

/// Whether a pointer is a device's by its bits. Before there is a runtime no pointer is, whatever a program has at such addresses.
fn is_device(pointer: *const c_void) -> bool {
    match owner(pointer as u64) {
        Owner::Device(..) => RUNTIME.get().is_some_and(|runtime| runtime.owner(pointer.cast()).is_some()),
        Owner::Host => false,
    }
}

/// Whether it is a GPU's, as CUDA's driver says. It is not asked about what the host can read: the driver itself calls `fread` as it
/// begins, and would wait for itself.
fn is_gpus(pointer: *const c_void) -> bool {
    next::uses_cuda()
        && is_memory(pointer as u64) != Some(true)
        && !IS_MAKING.load(Ordering::Acquire)
        && ggas_gpu::Gpu::holder(pointer as u64).is_some()
}

/// Whether a call that the C library ended so is to be made here: the kernel has no memory at a pointer of CUDA's. Who does not use CUDA
/// pays nothing for the question.
fn met_gpu(result: isize, pointer: *const c_void) -> bool {
    // SAFETY: this thread's own.
    result < 0 && unsafe { *libc::__errno_location() } == libc::EFAULT && is_gpus(pointer)
}

/// Sets `errno` as an error says.
fn fail<T>(error: &HpeError, result: T) -> T {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = error.errno() };
    result
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_devices() -> c_int {
    runtime().map_or_else(|error| fail(&error, -1), |runtime| runtime.devices().len() as c_int)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_alloc(device: c_int, bytes: usize) -> *mut c_void {
    let made = runtime().and_then(|runtime| {
        let devices = runtime.devices();
        let found = usize::try_from(device).ok().and_then(|device| devices.get(device).copied());
        let device = found.ok_or(HpeError::Devices { asked: devices.len() + 1, free: devices.len() })?;
        runtime.alloc(device, bytes)
    });
    made.map_or_else(|error| fail(&error, std::ptr::null_mut()), <*mut u8>::cast)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_alloc_spread(bytes: usize) -> *mut c_void {
    let made = runtime().and_then(|runtime| {
        let gpus = runtime.gpus();
        let devices = if gpus.is_empty() { runtime.devices() } else { gpus };
        runtime.alloc_spread(&devices, bytes)
    });
    made.map_or_else(|error| fail(&error, std::ptr::null_mut()), <*mut u8>::cast)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_owner(pointer: *const c_void) -> c_int {
    let Ok(runtime) = runtime() else { return -1 };
    let owner = runtime.owner(pointer.cast());
    let number = owner.and_then(|owner| runtime.devices().iter().position(|device| *device == owner));
    number.map_or(-1, |number| number as c_int)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_device_address(pointer: *const c_void) -> *mut c_void {
    let found = runtime().and_then(|runtime| runtime.device_address(pointer.cast()));
    found.map_or_else(|error| fail(&error, std::ptr::null_mut()), |address| address as *mut c_void)
}

/// Pinned buffers that C has.
static TAKEN: Mutex<Vec<PinnedBuffers>> = Mutex::new(Vec::new());

/// See `ggas_hpe.h`.
///
/// # Safety
/// `bytes` points to a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggas_hpe_take_pinned(bytes: *mut usize) -> *mut c_void {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Only where there is one more: copies of any thread wait for a pair, and who holds the others may wait for a copy.
    let two = runtime()
        .and_then(|runtime| Ok(runtime.pinned_buffers()?.zip(runtime.pinned_buffers()?).map(|(one, _)| one)));
    match two {
        Err(error) => fail(&error, std::ptr::null_mut()),
        Ok(None) => std::ptr::null_mut(),
        Ok(Some(buffers)) => {
            let start = buffers.start();
            // SAFETY: the caller's contract.
            unsafe { *bytes = buffers.size() };
            taken.push(buffers);
            start.cast()
        }
    }
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_return_pinned(buffers: *mut c_void) -> c_int {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    match taken.iter().position(|pair| pair.start().cast() == buffers) {
        Some(place) => {
            taken.swap_remove(place);
            0
        }
        None => {
            // SAFETY: this thread's own.
            unsafe { *libc::__errno_location() = libc::EINVAL };
            -1
        }
    }
}

/// See `ggas_hpe.h`.
///
/// # Safety
/// Nobody uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggas_hpe_free(start: *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    let freed = runtime().and_then(|runtime| unsafe { runtime.free(start.cast()) });
    freed.map_or_else(|error| fail(&error, -1), |()| 0)
}

/// See `ggas_hpe.h`.
///
/// # Safety
/// Ranges of the host are memory; see [`Runtime::copy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggas_hpe_copy(dst: *mut c_void, src: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's contract.
    let copied = runtime().and_then(|runtime| unsafe { runtime.copy(dst.cast(), src.cast(), bytes) });
    copied.map_or_else(|error| fail(&error, -1), |()| 0)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_is_device(pointer: *const c_void) -> c_int {
    c_int::from(is_device(pointer) || is_gpus(pointer))
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_holds(pointer: *const c_void, bytes: usize) -> c_int {
    c_int::from(runtime().is_ok_and(|runtime| runtime.holds(pointer.cast(), bytes)))
}

/// Bytes, or -1 and `errno`.
fn told(result: Result<usize, HpeError>) -> isize {
    result.map_or_else(|error| fail(&error, -1), |count| count as isize)
}

/// `read`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(file: c_int, into: *mut c_void, len: usize) -> isize {
    if !is_device(into) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::read(file, into, len) };
        if !met_gpu(result, into) {
            return result;
        }
    }
    // SAFETY: the same.
    told(runtime().and_then(|runtime| unsafe { runtime.read_file(file, into.cast(), len, None) }))
}

/// `write`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(file: c_int, from: *const c_void, len: usize) -> isize {
    if !is_device(from) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::write(file, from, len) };
        if !met_gpu(result, from) {
            return result;
        }
    }
    // SAFETY: the same.
    told(runtime().and_then(|runtime| unsafe { runtime.write_file(file, from.cast(), len, None) }))
}

/// `pread`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(file: c_int, into: *mut c_void, len: usize, offset: i64) -> isize {
    if !is_device(into) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::pread(file, into, len, offset) };
        if !met_gpu(result, into) {
            return result;
        }
    }
    // SAFETY: the same.
    told(runtime().and_then(|runtime| unsafe { runtime.read_file(file, into.cast(), len, Some(offset)) }))
}

/// `pread64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(file: c_int, into: *mut c_void, len: usize, offset: i64) -> isize {
    // SAFETY: the caller's contract.
    unsafe { pread(file, into, len, offset) }
}

/// `pwrite`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(file: c_int, from: *const c_void, len: usize, offset: i64) -> isize {
    if !is_device(from) || len == 0 {
        // SAFETY: the caller's contract.
        let result = unsafe { next::pwrite(file, from, len, offset) };
        if !met_gpu(result, from) {
            return result;
        }
    }
    // SAFETY: the same.
    told(runtime().and_then(|runtime| unsafe { runtime.write_file(file, from.cast(), len, Some(offset)) }))
}

/// `pwrite64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(file: c_int, from: *const c_void, len: usize, offset: i64) -> isize {
    // SAFETY: the caller's contract.
    unsafe { pwrite(file, from, len, offset) }
}

/// Whole items of so many bytes; the C library's calls return items.
fn items(result: Result<usize, HpeError>, size: usize) -> usize {
    result.map_or_else(|error| fail(&error, 0), |bytes| bytes / size)
}

/// `fread`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fread(into: *mut c_void, size: usize, count: usize, file: *mut libc::FILE) -> usize {
    let len = match size.checked_mul(count) {
        Some(len) if len > 0 && (is_device(into) || is_gpus(into)) => len,
        // SAFETY: the caller's contract.
        _ => return unsafe { next::fread(into, size, count, file) },
    };
    // The C library's call fills each block or meets the end.
    // SAFETY: the same; the buffer is the runtime's.
    let mut get =
        |buffer: *mut u8, len: usize, _: usize| Ok(unsafe { next::fread(buffer.cast(), 1, len, file) });
    // SAFETY: the same.
    items(runtime().and_then(|runtime| unsafe { runtime.read_from(into.cast(), len, true, &mut get) }), size)
}

/// `fwrite`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwrite(
    from: *const c_void,
    size: usize,
    count: usize,
    file: *mut libc::FILE,
) -> usize {
    let len = match size.checked_mul(count) {
        Some(len) if len > 0 && (is_device(from) || is_gpus(from)) => len,
        // SAFETY: the caller's contract.
        _ => return unsafe { next::fwrite(from, size, count, file) },
    };
    // SAFETY: the same; the buffer is the runtime's.
    let mut put =
        |buffer: *const u8, len: usize, _: usize| Ok(unsafe { next::fwrite(buffer.cast(), 1, len, file) });
    // SAFETY: the same.
    items(runtime().and_then(|runtime| unsafe { runtime.write_to(from.cast(), len, &mut put) }), size)
}
