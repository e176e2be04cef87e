//! Kernels of the program on the CPU executor.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::time::Duration;

use ggas::kernels::{self, HostKernel, Image, Launch, LaunchError, Processor};
use ggas_gmpi::Class;

use crate::error::Failure;
use crate::ffi::{bytes, export};
use crate::host::{CHost, host};

/// A function that `GGAS_KERNEL` has made: it copies its arguments as it begins.
type Kernel = unsafe extern "C" fn(*const c_void);

/// What the one kernel gets that the executor knows of this library: which function of the program it is, and that one's arguments.
#[derive(Clone, Copy)]
#[repr(C)]
struct Call {
    kernel: Kernel,
    args: *const c_void,
}

const NAME: &CStr = c"gmpi_run_on_cpu";
static SIZE: u64 = size_of::<Call>() as u64;
static KERNELS: &[(HostKernel, &u64)] = &[(HostKernel::new(NAME, call, size_of::<Call>()), &SIZE)];
static IMAGE: Image = Image::new(&[], &[], KERNELS);

/// Most bytes of a kernel's arguments, as on GPUs.
const MOST_ARGS: usize = 32_764;

/// Runs on a thread of the executor, whose stack is small.
unsafe extern "C" fn call(args: *const c_void) {
    // SAFETY: the launch below gives a `Call`, whose kernel and arguments are what the program has said.
    unsafe {
        let Call { kernel, args } = args.cast::<Call>().read_unaligned();
        kernel(args);
    }
}

fn class_of(error: &LaunchError) -> Class {
    match error {
        LaunchError::Geometry { .. } => Class::ARG,
        LaunchError::Timeout { .. } | LaunchError::NoPause { .. } => Class::TIMEOUT,
        LaunchError::TooManyThreads { .. } | LaunchError::Resources(_) => Class::NO_MEM,
        _ => Class::OTHER,
    }
}

export! {
    fn gmpi_run_on_cpu(
        gmpi: *mut CHost,
        name: *const c_char,
        kernel: Option<Kernel>,
        args: *const c_void,
        len: usize,
        grid: c_uint,
        block: c_uint,
        timeout_ms: c_uint,
    ) {
        let host = host(gmpi)?;
        let name = match name.is_null() {
            true => "a kernel".to_owned(),
            // SAFETY: the interface's contract: a name ends with a zero.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        };
        let Some(kernel) = kernel else { return Err(Failure::new(Class::ARG, format!("{name} is no function"))) };
        if matches!(host.processor, Processor::Gpu(_)) {
            let why = format!("kernels of this process run on {}: launch {name} there", host.processor.name());
            return Err(Failure::new(Class::CALL, why));
        }
        if len > MOST_ARGS {
            return Err(Failure::new(Class::ARG, format!("{name} gets {len} bytes, and a kernel at most {MOST_ARGS}")));
        }
        let failed = |error: LaunchError| {
            // The executor knows its kernel by our name only.
            let why = error.to_string().replace(&*NAME.to_string_lossy(), &name);
            Failure::new(class_of(&error), why)
        };
        kernels::add(&IMAGE).map_err(|error| Failure::new(Class::INTERN, error))?;
        // Words, so that they are aligned as any structure of the kernel's.
        let mut copy = vec![0u128; len.div_ceil(size_of::<u128>())];
        let from = bytes(args.cast(), len)?;
        // SAFETY: there is room for as many, and both are apart.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), copy.as_mut_ptr().cast::<u8>(), len) };
        let call = Call { kernel, args: copy.as_ptr().cast() };
        // SAFETY: the structure is the kernel's, and the copy lives beyond the wait.
        let launch = unsafe { Launch::new(&host.processor, "gmpi_run_on_cpu", grid, block, &call) };
        let ended = kernels::start(&[launch]).and_then(|running| {
            running.wait(Duration::from_millis(timeout_ms.into()))
        });
        if matches!(ended, Err(LaunchError::NoPause { .. })) {
            // A thread that nothing stops may still read it.
            std::mem::forget(copy);
        }
        ended.map_err(failed)
    }
}
