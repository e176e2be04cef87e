//! Errors of the crate. Each says what to do next.

use std::time::Duration;

use thiserror::Error;

/// Why no GPU can be used. `Display` is one line.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum NoGpu {
    /// The loader found no libcuda.
    #[error("no GPU found (libcuda.so.1 is not installed: install the NVIDIA driver 580 or newer)")]
    NotInstalled,
    /// The loader found the toolkit's link-time stub instead of the driver.
    #[error(
        "no GPU found (libcuda.so is the toolkit's stub: take its stubs folder out of LD_LIBRARY_PATH, or install the NVIDIA driver)"
    )]
    StubLibrary,
    /// The loader found a libcuda that lacks a function of the driver interface.
    #[error("no GPU found (libcuda has no {symbol}: it is not a whole NVIDIA driver, reinstall it)")]
    BrokenLibrary {
        /// The first missing function.
        symbol: &'static str,
    },
    /// The driver cannot load this program's kernels.
    #[error("no usable GPU (driver for CUDA {}.{}, needed {}.{}: install driver 580 or newer)",
            found / 1000, found % 1000 / 10, needed / 1000, needed % 1000 / 10)]
    OldDriver {
        /// What the driver says, 1000 × major + 10 × minor.
        found: i32,
        /// What the kernels need.
        needed: i32,
    },
    /// The driver works and sees no device.
    #[error("no GPU found (the driver sees no device: check nvidia-smi and CUDA_VISIBLE_DEVICES)")]
    NoDevice,
    /// The driver refused to start.
    #[error("no usable GPU ({0})")]
    Driver(DriverError),
}

ggas_errors::debug_as_display!(NoGpu);

impl NoGpu {
    /// The line for a program that goes on without a GPU.
    pub fn fallback_note(&self) -> String {
        format!("{self}, using the CPU executor")
    }
}

/// A driver call that failed.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{call}: {text} ({name}, {code}){}", hint(*code))]
pub struct DriverError {
    /// The call.
    pub call: &'static str,
    /// The driver's number of the error.
    pub code: u32,
    /// The driver's name of the error.
    pub name: String,
    /// The driver's description.
    pub text: String,
}

ggas_errors::debug_as_display!(DriverError);

/// Error numbers that this crate tells apart.
pub(crate) mod code {
    pub const OUT_OF_MEMORY: u32 = 2;
    pub const PEER_ALREADY_ENABLED: u32 = 704;
    pub const HOST_ALREADY_REGISTERED: u32 = 712;
    pub const NO_BINARY: u32 = 209;
    pub const INVALID_IMAGE: u32 = 200;
    pub const INVALID_PTX: u32 = 218;
    pub const UNSUPPORTED_PTX: u32 = 222;

    /// Errors after which a context answers nothing else (CUDA driver API, "CUresult").
    pub fn is_fatal(code: u32) -> bool {
        matches!(code, 4 | 214 | 220 | 700 | 702 | 709 | 710 | 714..=719 | 810 | 999)
    }

    /// The server of MPS cannot be reached, or has ended this process.
    pub fn is_of_mps(code: u32) -> bool {
        matches!(code, 805..=807 | 810)
    }
}

/// What to do about an error number, as a suffix.
fn hint(code: u32) -> &'static str {
    match code {
        2 => "; free GPU memory or ask for less",
        46 => "; another process holds the GPU, or it is in a prohibited compute mode: see nvidia-smi",
        214 | 220 => "; the GPU has a hardware error: see nvidia-smi and dmesg (Xid)",
        800 => "; this user may not use the GPU: check the rights of /dev/nvidia*",
        802 => "; start nvidia-fabricmanager",
        803 => "; the kernel module and libcuda differ in version: reboot or reinstall the driver",
        code if code::is_of_mps(code) => {
            "; the MPS server is gone or ended this process: start `nvidia-cuda-mps-control -d`, and the program again"
        }
        808 | 809 => "; the MPS server has as many clients as it takes: run fewer processes on the GPU",
        999 => "; see dmesg (Xid, nvidia-uvm)",
        _ => "",
    }
}

/// An operation on a GPU that failed.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum GpuError {
    /// No GPU can be used at all.
    #[error(transparent)]
    NoGpu(#[from] NoGpu),
    /// The driver refused a call.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There are fewer GPUs.
    #[error("there is no GPU {ordinal}: this host has {count}, numbered from 0")]
    NoSuchDevice {
        /// The one asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A GPU has too little free memory.
    #[error("GPU {gpu} has no {bytes} bytes free: free some or ask for less")]
    OutOfMemory {
        /// Ordinal of the GPU.
        gpu: usize,
        /// Bytes asked for.
        bytes: usize,
    },
    /// An address that is in no memory of the GPU.
    #[error("{address:#x} is not in memory of GPU {gpu}: allocate it there, by cudaMalloc on that device")]
    NotInMemory {
        /// The address.
        address: u64,
        /// Ordinal of the GPU.
        gpu: usize,
    },
    /// The program was built without nvcc, so it carries no GPU code.
    #[error(
        "this program holds no GPU code, since nvcc was not there at its build: run `cargo xtask setup` and build again"
    )]
    NoImage,
    /// The GPU code does not fit this GPU or driver.
    #[error(
        "GPU {gpu} (compute capability {sm}) cannot load the kernels of this program: {error}; they need 8.0 or newer"
    )]
    NotLoadable {
        /// Ordinal of the GPU.
        gpu: usize,
        /// Compute capability as major.minor.
        sm: String,
        /// What the driver said.
        error: DriverError,
    },
    /// No kernel of this name is in the module.
    #[error("no kernel is called '{name}'; there are: {known}")]
    UnknownKernel {
        /// The name asked for.
        name: String,
        /// All names, for the message.
        known: String,
    },
    /// The arguments do not have the size of the kernel's parameter.
    #[error(
        "kernel {kernel} takes {needed} bytes of arguments, got {got}: host and kernel were built from different headers"
    )]
    ArgumentSize {
        /// Name of the kernel.
        kernel: String,
        /// Size of its parameter.
        needed: usize,
        /// Size of what was passed.
        got: usize,
    },
    /// A kernel shape outside the limits of the GPU.
    #[error("kernel {kernel} cannot run as {grid} × {block} threads: {why}")]
    Shape {
        /// Name of the kernel.
        kernel: String,
        /// Blocks.
        grid: u32,
        /// Threads a block.
        block: u32,
        /// The limit.
        why: String,
    },
    /// Kernels that wait for each other do not fit on the GPU together.
    #[error(
        "{kernels} do not fit on GPU {gpu} at once ({sms} multiprocessors): use fewer or smaller blocks, spread the nodes over \
         more GPUs, or, if no block waits for a later one of its grid, say so (Launch::resident)"
    )]
    DoesNotFit {
        /// Ordinal of the GPU.
        gpu: usize,
        /// What was to run together, with shapes.
        kernels: String,
        /// Multiprocessors of the GPU.
        sms: u32,
    },
    /// A kernel failed while it ran. The GPU cannot be used by this process any more.
    #[error(
        "kernel {kernel} failed on GPU {gpu}: {error}; GPU {gpu} is unusable until the program is started again"
    )]
    KernelFailed {
        /// Ordinal of the GPU.
        gpu: usize,
        /// The kernel that failed, or all running kernels where the driver does not say which failed.
        kernel: String,
        /// What the driver said.
        error: DriverError,
    },
    /// The GPU failed earlier, or was lost.
    #[error("GPU {gpu} failed earlier ({error}); start the program again")]
    Lost {
        /// Ordinal of the GPU.
        gpu: usize,
        /// The first error.
        error: DriverError,
    },
    /// Kernels did not end in time.
    #[error("{what} did not end within {waited:?}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// A call that would wait for running kernels was asked for while they run.
    #[error("{what} would have to wait for the kernels that run now: wait for them first")]
    Busy {
        /// What was asked for.
        what: String,
    },
    /// Two GPUs cannot reach each other's memory.
    #[error(
        "GPU {from} cannot access the memory of GPU {to} (no NVLink or PCIe peer path): put the nodes on one GPU, or on a pair that `ggas info` shows as peers"
    )]
    NoPeerAccess {
        /// Ordinal of the accessing GPU.
        from: usize,
        /// Ordinal of the memory's GPU.
        to: usize,
    },
    /// Host memory that the GPU cannot map.
    #[error("host memory at {address:#x}, {bytes} bytes, cannot be mapped for the GPU: {why}")]
    NotMappable {
        /// Start of the memory.
        address: usize,
        /// Its size.
        bytes: usize,
        /// Why, and what to do.
        why: String,
    },
    /// An access outside a buffer.
    #[error("access of {len} bytes at offset {offset} is outside a buffer of {size} bytes")]
    OutOfRange {
        /// Offset asked for.
        offset: u64,
        /// Length asked for.
        len: usize,
        /// Size of the buffer.
        size: u64,
    },
    /// The GPU lacks a feature.
    #[error("GPU {gpu} does not support {what}")]
    Unsupported {
        /// Ordinal of the GPU.
        gpu: usize,
        /// The feature.
        what: &'static str,
    },
    /// A parameter that makes no sense.
    #[error("{0}")]
    Invalid(String),
}

ggas_errors::debug_as_display!(GpuError);

impl GpuError {
    /// Whether the driver says that the server of MPS is gone, or has ended this process: a new one is to be started.
    pub fn is_of_mps(&self) -> bool {
        matches!(self, GpuError::Driver(error) | GpuError::Lost { error, .. } if code::is_of_mps(error.code))
    }
}
