//! Kernels by name: those of the library, which the build embedded, and those that other crates add.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{PoisonError, RwLock};

/// The fatbin with every kernel of `kernels.def` for sm_80, sm_90 and PTX.
/// Empty when the build found no nvcc; `cargo xtask setup` installs one.
pub static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// The same kernels, but for those that use no windows, which look at each address whether the host is to make the access
/// ([`Trap::on`](crate::trap::Trap::on)).
static PROXY_FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels_proxy.fatbin"));

/// Release of the CUDA compiler that made it, such as `13.0`.
pub const NVCC_RELEASE: Option<&str> = option_env!("GGAS_NVCC_RELEASE");

/// Whether the build was told to make no code for GPUs, by `NVCC=none`.
pub const NVCC_NONE: bool = option_env!("GGAS_NVCC_NONE").is_some();

/// A kernel compiled for the host; the C++ side is `kernels/exec/table.cpp`. For [`kernels!`](crate::kernels!).
#[derive(Debug)]
#[repr(C)]
pub struct HostKernel {
    name: *const c_char,
    pub(crate) run: unsafe extern "C" fn(args: *const c_void),
    args_size: u64,
}

// SAFETY: constant; the pointers are to constants and functions.
unsafe impl Sync for HostKernel {}
// SAFETY: as above.
unsafe impl Send for HostKernel {}

impl HostKernel {
    /// One of another crate; `args_size` is that of its Rust structure.
    pub const fn new(
        name: &'static CStr,
        run: unsafe extern "C" fn(args: *const c_void),
        args_size: usize,
    ) -> HostKernel {
        HostKernel { name: name.as_ptr(), run, args_size: args_size as u64 }
    }

    pub(crate) fn name(&self) -> &'static str {
        // SAFETY: both ways to make one give it a string that lives as long as the program.
        unsafe { CStr::from_ptr(self.name) }.to_str().unwrap_or("?")
    }

    pub(crate) fn args_size(&self) -> usize {
        self.args_size as usize
    }
}

/// The kernels of a crate: made by [`kernels!`](crate::kernels!), made known by [`add`].
#[derive(Debug)]
pub struct Image {
    fatbin: &'static [u8],
    proxy_fatbin: &'static [u8],
    /// Each with the size of its arguments in Rust, and in C++.
    kernels: &'static [(HostKernel, &'static u64)],
}

impl Image {
    #[doc(hidden)]
    pub const fn new(
        fatbin: &'static [u8],
        proxy_fatbin: &'static [u8],
        kernels: &'static [(HostKernel, &'static u64)],
    ) -> Image {
        Image { fatbin, proxy_fatbin, kernels }
    }

    /// Its code for GPUs; empty when the build found no nvcc.
    pub fn fatbin(&self) -> &'static [u8] {
        self.fatbin
    }
}

/// Names the kernels of this crate, which its build script compiled with `ggas_compile`, and the Rust structures of
/// their arguments: `repr(C)`, the same members as in C++.
///
/// ```ignore
/// ggas_kernels::kernels! {
///     static KERNELS = [my_sum(SumArgs), my_shift(ShiftArgs)];
/// }
///
/// ggas_kernels::add(&KERNELS)?;
/// ```
///
/// `kernels/examples/own-kernel` is a crate that does so.
#[macro_export]
macro_rules! kernels {
    ($(#[$meta:meta])* $vis:vis static $image:ident = [$($kernel:ident($args:ty)),+ $(,)?];) => {
        $(#[$meta])*
        $vis static $image: $crate::Image = {
            unsafe extern "C" {
                $(
                    #[link_name = concat!("ggas_args_", stringify!($kernel))]
                    safe static $kernel: u64;
                )+
            }
            mod run {
                unsafe extern "C" {
                    $(
                        #[link_name = concat!("ggas_host_", stringify!($kernel))]
                        pub fn $kernel(args: *const ::core::ffi::c_void);
                    )+
                }
            }
            static LIST: &[($crate::HostKernel, &u64)] = &[$((
                $crate::HostKernel::new(
                    match ::core::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($kernel), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => panic!("a name holds no zero"),
                    },
                    run::$kernel,
                    size_of::<$args>(),
                ),
                &$kernel,
            )),+];
            $crate::Image::new(
                include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")),
                include_bytes!(concat!(env!("OUT_DIR"), "/kernels_proxy.fatbin")),
                LIST,
            )
        };
    };
}

/// Why kernels cannot be added.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Two kernels of one name.
    #[error("there is another kernel `{kernel}` already; give this one a name of its own")]
    Taken {
        /// The name.
        kernel: &'static str,
    },
    /// Rust and C++ do not mean the same structure.
    #[error(
        "the arguments of `{kernel}` are a structure of {rust} bytes in Rust and of {cpp} in C++; give both the same \
         members, of fixed widths, and repr(C) to Rust's"
    )]
    Arguments {
        /// The kernel.
        kernel: &'static str,
        /// Bytes in Rust.
        rust: usize,
        /// Bytes in C++.
        cpp: usize,
    },
}

ggas_errors::debug_as_display!(ImageError);

/// Images of other crates.
static ADDED: RwLock<Vec<&'static Image>> = RwLock::new(Vec::new());

/// Makes the kernels of a crate known: [`Launch::new`](crate::Launch::new) finds them by name, and GPUs that are opened
/// from now on ([`Processor::gpu`](crate::Processor::gpu)) load them. Adding them again does nothing.
///
/// # Errors
/// [`ImageError`]; none of them was added then.
pub fn add(image: &'static Image) -> Result<(), ImageError> {
    for (kernel, cpp) in image.kernels {
        let (rust, cpp) = (kernel.args_size(), **cpp as usize);
        if rust != cpp {
            return Err(ImageError::Arguments { kernel: kernel.name(), rust, cpp });
        }
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if added.iter().any(|known| std::ptr::eq(*known, image)) {
        return Ok(());
    }
    let mut names: Vec<_> = library().iter().chain(others(&added)).map(HostKernel::name).collect();
    for (kernel, _) in image.kernels {
        if names.contains(&kernel.name()) {
            return Err(ImageError::Taken { kernel: kernel.name() });
        }
        names.push(kernel.name());
    }
    added.push(image);
    Ok(())
}

unsafe extern "C" {
    static ggas_exec_kernels: HostKernel;
    static ggas_exec_kernel_count: u64;
}

/// The kernels of the library.
fn library() -> &'static [HostKernel] {
    // SAFETY: table.cpp defines an array of so many entries, constant for the life of the program.
    unsafe { std::slice::from_raw_parts(&raw const ggas_exec_kernels, ggas_exec_kernel_count as usize) }
}

fn others(added: &[&'static Image]) -> impl Iterator<Item = &'static HostKernel> {
    added.iter().flat_map(|image| image.kernels).map(|(kernel, _)| kernel)
}

pub(crate) fn host_kernel(name: &str) -> Option<&'static HostKernel> {
    let known = |kernel: &&HostKernel| kernel.name() == name;
    library().iter().find(known).or_else(|| {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        others(&added).find(known)
    })
}

/// What a GPU loads: one fatbin for each crate with kernels.
pub(crate) fn fatbins() -> Vec<&'static [u8]> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    std::iter::once(FATBIN).chain(added.iter().map(|image| image.fatbin)).collect()
}

/// What a GPU loads behind them, once windows lie on other hosts.
pub(crate) fn proxy_fatbins() -> Vec<&'static [u8]> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    std::iter::once(PROXY_FATBIN).chain(added.iter().map(|image| image.proxy_fatbin)).collect()
}

/// Names of the library's kernels.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    library().iter().map(HostKernel::name)
}

/// Bytes of a kernel's arguments, or `None` for an unknown name.
pub fn args_size(kernel: &str) -> Option<usize> {
    host_kernel(kernel).map(HostKernel::args_size)
}
