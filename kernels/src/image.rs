//! What the build embedded: host kernels by name, and the GPU image.

use std::ffi::{CStr, c_char, c_void};

/// The fatbin with every kernel of `kernels.def` for sm_80, sm_90 and PTX.
/// Empty when the build found no nvcc; `cargo xtask setup` installs one.
pub static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// Release of the CUDA compiler that made it, such as `13.0`.
pub const NVCC_RELEASE: Option<&str> = option_env!("GGAS_NVCC_RELEASE");

/// A kernel compiled for the host; the C++ side is `kernels/exec/table.cpp`.
#[repr(C)]
pub(crate) struct HostKernel {
    name: *const c_char,
    pub run: unsafe extern "C" fn(args: *const c_void),
    args_size: u64,
}

// SAFETY: the table is constant; the pointers are to constants and functions.
unsafe impl Sync for HostKernel {}

impl HostKernel {
    pub fn name(&self) -> &'static str {
        // SAFETY: the table holds string literals.
        unsafe { CStr::from_ptr(self.name) }.to_str().unwrap_or("?")
    }

    pub fn args_size(&self) -> usize {
        self.args_size as usize
    }
}

unsafe extern "C" {
    static ggas_exec_kernels: HostKernel;
    static ggas_exec_kernel_count: u64;
}

pub(crate) fn host_kernels() -> &'static [HostKernel] {
    // SAFETY: table.cpp defines an array of so many entries, constant for the life of the program.
    unsafe { std::slice::from_raw_parts(&raw const ggas_exec_kernels, ggas_exec_kernel_count as usize) }
}

pub(crate) fn host_kernel(name: &str) -> Option<&'static HostKernel> {
    host_kernels().iter().find(|kernel| kernel.name() == name)
}

/// Names of all kernels that this build knows.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    host_kernels().iter().map(HostKernel::name).filter(|name| !name.starts_with("planted_"))
}

/// Bytes of a kernel's arguments, or `None` for an unknown name.
pub fn args_size(kernel: &str) -> Option<usize> {
    host_kernel(kernel).map(HostKernel::args_size)
}
