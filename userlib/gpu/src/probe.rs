//! What GPUs there are and what they can do.

use std::ffi::{CStr, c_char};
use std::fmt;

use crate::error::{DriverError, NoGpu};
use crate::sys::*;

/// One GPU of this host, as `ggas info` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Number of the GPU in this process, from 0.
    pub ordinal: usize,
    /// Marketing name.
    pub name: String,
    /// Unique id of the GPU, stable over reboots.
    pub uuid: String,
    /// PCI address, domain:bus:device.function.
    pub pci: String,
    /// Compute capability (major, minor).
    pub sm: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most bytes of shared memory of a multiprocessor.
    pub shared_of_multiprocessor: u32,
    /// Bytes of shared memory that the system keeps of each block.
    pub shared_reserved: u32,
    /// Bytes of GPU memory.
    pub memory: u64,
    /// CUDA version of the driver (major, minor).
    pub driver: (u32, u32),
    /// Kernels can access host memory that is registered.
    pub maps_host_memory: bool,
    /// Registered host memory has the same address on the GPU.
    pub host_pointers_are_device_pointers: bool,
    /// Virtual memory management (`cuMemCreate`, `cuMemMap`): what windows need.
    pub virtual_memory: bool,
    /// Physical memory can be passed to another process as a file descriptor.
    pub posix_handles: bool,
    /// A grid can be launched so that all its blocks are resident.
    pub cooperative_launch: bool,
    /// The GPU carries out atomics on host memory natively.
    pub host_atomics: bool,
    /// Memory of this GPU can be exported as a dma-buf.
    pub dma_buf: bool,
    /// How this GPU reaches each GPU of the host, itself included, by ordinal.
    pub peers: Vec<Peer>,
}

/// How one GPU reaches the memory of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peer {
    /// Plain loads and stores work.
    pub access: bool,
    /// Atomics work too.
    pub atomics: bool,
    /// The driver's rank of the path; lower is faster.
    pub rank: i32,
}

impl fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.sm;
        write!(f, "GPU {}: {}, {} GiB, ", self.ordinal, self.name, self.memory >> 30)?;
        write!(
            f,
            "compute capability {major}.{minor}, {} multiprocessors, {}",
            self.multiprocessors, self.pci
        )
    }
}

/// Lists the GPUs of this host.
///
/// # Errors
/// [`NoGpu`] says why there is none that this program can use. Never panics.
pub fn probe() -> Result<Vec<GpuInfo>, NoGpu> {
    load()?;
    let mut count = 0;
    // SAFETY: `load` succeeded; `count` is an int to write to.
    check("cuDeviceGetCount", unsafe { cuDeviceGetCount(&mut count) }).map_err(NoGpu::Driver)?;
    let count = usize::try_from(count).unwrap_or(0);
    (0..count).map(|ordinal| describe(ordinal, count).map_err(NoGpu::Driver)).collect()
}

/// The driver's handle of GPU `ordinal`.
pub(crate) fn device(ordinal: usize) -> Result<CUdevice, DriverError> {
    let mut device = 0;
    // SAFETY: an ordinal out of range is an error of the call; `device` is written on success.
    check("cuDeviceGet", unsafe { cuDeviceGet(&mut device, i32::try_from(ordinal).unwrap_or(i32::MAX)) })?;
    Ok(device)
}

pub(crate) fn attribute(device: CUdevice, attribute: Attr) -> Result<i32, DriverError> {
    let mut value = 0;
    // SAFETY: `value` is an int to write to; the handle comes from `cuDeviceGet`.
    check("cuDeviceGetAttribute", unsafe { cuDeviceGetAttribute(&mut value, attribute, device) })?;
    Ok(value)
}

fn describe(ordinal: usize, count: usize) -> Result<GpuInfo, DriverError> {
    let dev = device(ordinal)?;
    let number = |which| attribute(dev, which).map(|v| v.max(0) as u32);
    let flag = |which| attribute(dev, which).map(|v| v != 0);
    let mut memory = 0;
    // SAFETY: `memory` is a size_t to write to.
    check("cuDeviceTotalMem", unsafe { cuDeviceTotalMem_v2(&mut memory, dev) })?;
    let mut version = 0;
    // SAFETY: `version` is an int to write to.
    check("cuDriverGetVersion", unsafe { cuDriverGetVersion(&mut version) })?;
    Ok(GpuInfo {
        ordinal,
        // SAFETY: the buffer and its length are the ones that `text` passes on.
        name: text("cuDeviceGetName", |buffer, len| unsafe { cuDeviceGetName(buffer, len, dev) })?,
        uuid: uuid(dev)?,
        // SAFETY: as above.
        pci: text("cuDeviceGetPCIBusId", |buffer, len| unsafe { cuDeviceGetPCIBusId(buffer, len, dev) })?,
        sm: (
            number(Attr::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(Attr::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: number(Attr::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_of_multiprocessor: number(Attr::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        shared_reserved: number(Attr::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
        memory: memory as u64,
        driver: (version.max(0) as u32 / 1000, version.max(0) as u32 % 1000 / 10),
        maps_host_memory: flag(Attr::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?
            && flag(Attr::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?,
        host_pointers_are_device_pointers: flag(
            Attr::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        )?,
        virtual_memory: flag(Attr::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)?,
        posix_handles: flag(Attr::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)?,
        cooperative_launch: flag(Attr::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)?,
        host_atomics: flag(Attr::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED)?,
        dma_buf: flag(Attr::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)?,
        peers: (0..count).map(|other| peer(ordinal, other)).collect::<Result<_, _>>()?,
    })
}

/// How GPU `from` reaches GPU `to`.
fn peer(from: usize, to: usize) -> Result<Peer, DriverError> {
    if from == to {
        return Ok(Peer { access: true, atomics: true, rank: 0 });
    }
    let (source, target) = (device(from)?, device(to)?);
    let mut access = 0;
    // SAFETY: `access` is an int to write to; both handles come from `cuDeviceGet`.
    check("cuDeviceCanAccessPeer", unsafe { cuDeviceCanAccessPeer(&mut access, source, target) })?;
    let query = |which| {
        let mut value = 0;
        // SAFETY: as above.
        let result = unsafe { cuDeviceGetP2PAttribute(&mut value, which, source, target) };
        check("cuDeviceGetP2PAttribute", result).map(|()| value)
    };
    Ok(Peer {
        access: access != 0,
        atomics: query(P2p::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? != 0,
        rank: query(P2p::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)?,
    })
}

/// A text of at most 255 bytes that `call` writes.
fn text(
    name: &'static str,
    call: impl Fn(*mut c_char, std::ffi::c_int) -> CUresult,
) -> Result<String, DriverError> {
    let mut buffer = [0 as c_char; 256];
    check(name, call(buffer.as_mut_ptr(), 255))?;
    // SAFETY: the buffer is all zeros but for what the driver wrote into its first 255 bytes.
    Ok(unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned())
}

fn uuid(device: CUdevice) -> Result<String, DriverError> {
    let mut id = CUuuid { bytes: [0; 16] };
    // SAFETY: `id` is the structure to write to.
    check("cuDeviceGetUuid", unsafe { cuDeviceGetUuid_v2(&mut id, device) })?;
    let hex: String = id.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    Ok(format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
