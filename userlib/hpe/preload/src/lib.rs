//! `ggas_hpe.h`, and file calls in place of the C library's that take pointers of devices.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

use cancel::{Uncancelled, uncancelled};
use ggas_hpe::address::{Owner, is_memory, owner};
use ggas_hpe::{HpeError, PinnedBuffers, Runtime};

mod cancel;
mod files;
mod next;
mod streams;
mod vectors;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Until then no pointer of a GPU is known, and the driver must not be asked: it may be the one that calls.
static IS_MAKING: AtomicBool = AtomicBool::new(false);

/// Whether the runtime, once there is one, has GPUs.
static HAS_GPUS: AtomicBool = AtomicBool::new(false);

/// Whether calls may use a GPU: also that which makes the runtime.
fn may_use_gpus() -> bool {
    RUNTIME.get().is_none() || HAS_GPUS.load(Ordering::Relaxed)
}

/// Held by who makes the runtime.
static MAKING: Mutex<()> = Mutex::new(());
/// Whether this process was forked while a thread made the runtime, which this process does not have: it is never made here.
static IS_ORPHAN: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    IS_ORPHAN.store(matches!(MAKING.try_lock(), Err(TryLockError::WouldBlock)), Ordering::Relaxed);
}

/// The runtime of this process: made at the first call that needs it.
fn runtime() -> Result<&'static Runtime, HpeError> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function takes no lock that it waits for.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
    if IS_ORPHAN.load(Ordering::Relaxed) {
        return Err(HpeError::Forked);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_none() {
        let asked = devices_asked()?;
        IS_MAKING.store(true, Ordering::Release);
        let gpus = ggas_gpu::Gpu::all().unwrap_or_default();
        HAS_GPUS.store(!gpus.is_empty(), Ordering::Relaxed);
        let direct = std::env::var_os("GGAS_HPE_DIRECT_STORAGE").is_some_and(|asked| asked != "0");
        let builder = Runtime::builder().executors(asked).gpus(gpus).direct_storage(direct);
        let built = builder.build();
        IS_MAKING.store(false, Ordering::Release);
        let _ = RUNTIME.set(built?);
    }
    // Set above, or by who made it before.
    RUNTIME.get().ok_or(HpeError::Forked)
}

/// The runtime, unless it is a parent's. Locks beside it may be those of threads that are not in this process then.
fn own_runtime() -> Result<&'static Runtime, HpeError> {
    runtime().and_then(|runtime| if runtime.is_forked() { Err(HpeError::Forked) } else { Ok(runtime) })
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

/// Sets `errno`.
fn set_errno(number: c_int) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = number };
}

thread_local! {
    /// What the last call of this thread that failed said.
    static SAID: RefCell<CString> = RefCell::default();
}

/// Sets `errno` as an error says, and keeps its text.
fn fail<T>(error: &HpeError, result: T) -> T {
    // A thread that ends has none any more.
    let _ = SAID.try_with(|said| said.replace(CString::new(error.to_string()).unwrap_or_default()));
    set_errno(error.errno());
    result
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_error() -> *const c_char {
    SAID.try_with(|said| said.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_devices() -> c_int {
    let devices = uncancelled(|| runtime().map(|runtime| runtime.devices().len()));
    devices.map_or_else(|error| fail(&error, -1), |count| count as c_int)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_alloc(device: c_int, bytes: usize) -> *mut c_void {
    let made = uncancelled(|| {
        let runtime = runtime()?;
        let devices = runtime.devices();
        let found = usize::try_from(device).ok().and_then(|device| devices.get(device).copied());
        let device = found.ok_or(HpeError::NoNumber { number: device.into(), count: devices.len() })?;
        runtime.alloc(device, bytes)
    });
    made.map_or_else(|error| fail(&error, std::ptr::null_mut()), <*mut u8>::cast)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_alloc_spread(bytes: usize) -> *mut c_void {
    let made = uncancelled(|| {
        let runtime = runtime()?;
        let gpus = runtime.gpus();
        let devices = if gpus.is_empty() { runtime.devices() } else { gpus };
        runtime.alloc_spread(&devices, bytes)
    });
    made.map_or_else(|error| fail(&error, std::ptr::null_mut()), <*mut u8>::cast)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_owner(pointer: *const c_void) -> c_int {
    let Ok(runtime) = uncancelled(runtime) else { return -1 };
    let owner = runtime.owner(pointer.cast());
    let number = owner.and_then(|owner| runtime.devices().iter().position(|device| *device == owner));
    number.map_or(-1, |number| number as c_int)
}

/// See `ggas_hpe.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ggas_hpe_device_address(pointer: *const c_void) -> *mut c_void {
    let found = uncancelled(|| runtime()?.device_address(pointer.cast()));
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
    let _whole = Uncancelled::new();
    let runtime = match own_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, std::ptr::null_mut()),
    };
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = || runtime.pinned_buffers();
    // Only where there is one more: copies of any thread wait for a pair, and who holds the others may wait for a copy.
    match pair().and_then(|one| Ok(one.zip(pair()?).map(|(one, _)| one))) {
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
    let _whole = Uncancelled::new();
    if let Err(error) = own_runtime() {
        return fail(&error, -1);
    }
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    match taken.iter().position(|pair| pair.start().cast() == buffers) {
        Some(place) => {
            taken.swap_remove(place);
            0
        }
        None => {
            set_errno(libc::EINVAL);
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
    let freed = uncancelled(|| unsafe { runtime()?.free(start.cast()) });
    freed.map_or_else(|error| fail(&error, -1), |()| 0)
}

/// See `ggas_hpe.h`.
///
/// # Safety
/// Ranges of the host are memory; see [`Runtime::copy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggas_hpe_copy(dst: *mut c_void, src: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's contract.
    let copied = uncancelled(|| unsafe { runtime()?.copy(dst.cast(), src.cast(), bytes) });
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
    c_int::from(uncancelled(|| runtime().is_ok_and(|runtime| runtime.holds(pointer.cast(), bytes))))
}
