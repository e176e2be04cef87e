//! GGAS windows over the memory of one or several GPUs (thesis 6.5): node i's part lies at base + i × stride.

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::memory::{self, check_range, out_of_memory};
use crate::ranges;
use crate::resident::gate;
use crate::sys::*;

/// Memory of several nodes in one range of addresses, the same on every GPU that takes part.
///
/// Kernels on all of these GPUs load and store anywhere in it; over NVLink where the GPUs are joined by it. Freed
/// on drop, as soon as no waiting kernel is resident.
pub struct GpuWindow {
    mapping: Option<Mapping>,
    /// The GPU through which the host reaches each part: the one that holds it, if this process opened that.
    nodes: Vec<Gpu>,
    bytes: usize,
}

/// What the driver holds for a window.
struct Mapping {
    base: u64,
    stride: usize,
    /// Bytes of reserved addresses.
    reserved: usize,
    /// One GPU of the window, to make calls on.
    gpu: Gpu,
    /// Physical memory of the first parts, mapped in order.
    parts: Vec<Physical>,
}

/// Physical memory on a GPU. It exists until the last process that holds or maps it lets go.
#[derive(Debug)]
pub(crate) struct Physical {
    pub gpu: Gpu,
    pub handle: CUmemGenericAllocationHandle,
}

impl GpuWindow {
    /// A zeroed window of `bytes` for each node; `nodes[i]` is the GPU that holds part i. A GPU may hold several.
    ///
    /// # Errors
    /// Before anything is allocated: [`GpuError::Invalid`] without nodes or bytes, [`GpuError::Unsupported`],
    /// [`GpuError::NoPeerAccess`] naming a pair of GPUs. Then [`GpuError::OutOfMemory`] and driver errors.
    pub fn new(nodes: &[Gpu], bytes: usize) -> Result<GpuWindow, GpuError> {
        let mut gpus: Vec<Gpu> = Vec::new();
        for gpu in nodes {
            if !gpus.contains(gpu) {
                gpus.push(gpu.clone());
            }
        }
        let first =
            gpus.first().ok_or_else(|| GpuError::Invalid("a window needs at least one node".into()))?;
        if bytes == 0 {
            return Err(GpuError::Invalid("a window needs at least one byte a node".into()));
        }
        check_access(&gpus)?;
        let mut granularity = 1;
        for gpu in &gpus {
            granularity = granularity.max(granularity_of(gpu, HandleType::CU_MEM_HANDLE_TYPE_NONE)?);
        }
        let (stride, reserved) = layout(bytes, nodes.len(), granularity).ok_or_else(|| {
            GpuError::Invalid(format!("{} nodes of {bytes} bytes are too much", nodes.len()))
        })?;
        let mapping = Mapping::reserve(first, stride, reserved, granularity)?;
        let base = mapping.base;
        // From here on an error drops the window, which unmaps when no kernel waits.
        let mut window = GpuWindow { mapping: Some(mapping), nodes: nodes.to_vec(), bytes };
        if let Some(mapping) = &mut window.mapping {
            for gpu in nodes {
                mapping.add_part(create(gpu, stride, HandleType::CU_MEM_HANDLE_TYPE_NONE)?)?;
            }
            mapping.allow(&gpus)?;
        }
        for (i, gpu) in nodes.iter().enumerate() {
            let part = base + (i * stride) as u64;
            memory::zero(gpu, part, stride)?;
            ranges::insert(part, stride, gpu.ordinal());
        }
        Ok(window)
    }

    /// A window whose parts are memory of several processes, mapped in order for kernels of `gpu`, which holds part
    /// `rank`, if any; the others are not zeroed.
    pub(crate) fn of_parts(
        gpu: &Gpu,
        rank: Option<usize>,
        parts: Vec<Physical>,
        stride: usize,
        bytes: usize,
    ) -> Result<GpuWindow, GpuError> {
        let too_much =
            || GpuError::Invalid(format!("a window of {} parts of {bytes} bytes is too much", parts.len()));
        let (stride, reserved) = layout(bytes, parts.len(), stride).ok_or_else(too_much)?;
        let mapping = Mapping::reserve(gpu, stride, reserved, 0)?;
        let own = rank.map(|rank| mapping.base + (rank * stride) as u64);
        let mut window = GpuWindow { mapping: Some(mapping), nodes: vec![gpu.clone(); parts.len()], bytes };
        if let Some(mapping) = &mut window.mapping {
            parts.into_iter().try_for_each(|part| mapping.add_part(part))?;
            mapping.allow(std::slice::from_ref(gpu))?;
        }
        if let Some(own) = own {
            memory::zero(gpu, own, stride)?;
            ranges::insert(own, stride, gpu.ordinal());
        }
        Ok(window)
    }

    /// Address of node 0's part.
    pub fn base(&self) -> u64 {
        self.mapping.as_ref().map_or(0, |mapping| mapping.base)
    }

    /// Bytes from one node's part to the next: `bytes`, rounded up to what the GPUs map at once (2 MiB).
    pub fn stride(&self) -> u64 {
        self.mapping.as_ref().map_or(0, |mapping| mapping.stride as u64)
    }

    /// Bytes of each part that were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Address of a node's part: `None` for a node that is not there.
    pub fn address(&self, node: usize) -> Option<u64> {
        (node < self.nodes.len()).then(|| self.base() + node as u64 * self.stride())
    }

    /// The GPU through which the host reaches a node's part: the one that holds it, or, for the part of another
    /// process, this process's. `None` for a node that is not there.
    pub fn gpu(&self, node: usize) -> Option<&Gpu> {
        self.nodes.get(node)
    }

    /// Copies host bytes into a node's part. Does not wait for running kernels.
    ///
    /// # Errors
    /// [`GpuError::Invalid`] for a node that is not there, [`GpuError::OutOfRange`], [`GpuError::Timeout`], driver
    /// errors.
    pub fn write(&self, node: usize, offset: u64, data: &[u8]) -> Result<(), GpuError> {
        let (gpu, part) = self.part(node, offset, data.len())?;
        memory::write(gpu, part + offset, data)
    }

    /// Copies bytes out of a node's part. Does not wait for running kernels.
    ///
    /// # Errors
    /// As [`GpuWindow::write`].
    pub fn read(&self, node: usize, offset: u64, data: &mut [u8]) -> Result<(), GpuError> {
        let (gpu, part) = self.part(node, offset, data.len())?;
        memory::read(gpu, part + offset, data)
    }

    fn part(&self, node: usize, offset: u64, len: usize) -> Result<(&Gpu, u64), GpuError> {
        let missing =
            || GpuError::Invalid(format!("there is no node {node} in a window of {}", self.nodes()));
        let part = self.address(node).ok_or_else(missing)?;
        check_range(offset, len, self.bytes as u64)?;
        Ok((&self.nodes[node], part))
    }
}

impl Drop for GpuWindow {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            if let Some(part) = self.address(node) {
                ranges::remove(part);
            }
        }
        // Its drop unmaps.
        let mapping = self.mapping.take();
        gate().defer(move || drop(mapping));
    }
}

impl Mapping {
    fn reserve(gpu: &Gpu, stride: usize, reserved: usize, align: usize) -> Result<Mapping, GpuError> {
        gpu.enter()?;
        let mut base = 0;
        // SAFETY: `base` is written on success.
        let result = unsafe { cuMemAddressReserve(&mut base, reserved, align, 0, 0) };
        gpu.check("cuMemAddressReserve", result)?;
        Ok(Mapping { base, stride, reserved, gpu: gpu.clone(), parts: Vec::new() })
    }

    /// Maps memory of `stride` bytes behind the parts so far; it is the mapping's from now on.
    fn add_part(&mut self, part: Physical) -> Result<(), GpuError> {
        self.gpu.enter()?;
        let address = self.base + (self.parts.len() * self.stride) as u64;
        // SAFETY: the addresses are reserved and not mapped yet.
        let result = unsafe { cuMemMap(address, self.stride, 0, part.handle, 0) };
        self.gpu.check("cuMemMap", result)?;
        self.parts.push(part);
        Ok(())
    }

    /// Lets all `gpus` read and write all parts.
    fn allow(&self, gpus: &[Gpu]) -> Result<(), GpuError> {
        let access: Vec<_> = gpus
            .iter()
            .map(|gpu| CUmemAccessDesc {
                location: location(gpu),
                flags: Access::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect();
        self.gpu.enter()?;
        for i in 0..self.parts.len() {
            let part = self.base + (i * self.stride) as u64;
            // SAFETY: the part is mapped; the descriptors are as many as said.
            let result = unsafe { cuMemSetAccess(part, self.stride, access.as_ptr(), access.len()) };
            self.gpu.check("cuMemSetAccess", result)?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.gpu.enter().is_err() {
            return;
        }
        for i in 0..self.parts.len() {
            let address = self.base + (i * self.stride) as u64;
            // SAFETY: mapped by `add_part`; nobody uses it any more: the window is gone and no kernel waits.
            let result = unsafe { cuMemUnmap(address, self.stride) };
            let _ = self.gpu.check("cuMemUnmap", result);
        }
        // SAFETY: reserved by `reserve`, and nothing is mapped there any more.
        let result = unsafe { cuMemAddressFree(self.base, self.reserved) };
        let _ = self.gpu.check("cuMemAddressFree", result);
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: created or imported by whoever made this value, and given up here only.
            let _ = self.gpu.check("cuMemRelease", unsafe { cuMemRelease(self.handle) });
        }
    }
}

/// Takes `bytes` of memory on `gpu`, a multiple of its granularity, that can be passed on in the way `export` says.
pub(crate) fn create(gpu: &Gpu, bytes: usize, export: HandleType) -> Result<Physical, GpuError> {
    gpu.enter()?;
    let mut handle = 0;
    // SAFETY: `handle` is written on success.
    let result = unsafe { cuMemCreate(&mut handle, bytes, &properties(gpu, export), 0) };
    gpu.check("cuMemCreate", result).map_err(|error| out_of_memory(gpu, bytes, error))?;
    Ok(Physical { gpu: gpu.clone(), handle })
}

/// Fails unless all GPUs have virtual memory and every one reaches every other.
fn check_access(gpus: &[Gpu]) -> Result<(), GpuError> {
    for gpu in gpus {
        if !gpu.info().virtual_memory {
            return Err(GpuError::Unsupported { gpu: gpu.ordinal(), what: "virtual memory management" });
        }
        if let Some(other) = gpus.iter().find(|other| !gpu.reaches(other)) {
            return Err(GpuError::NoPeerAccess { from: gpu.ordinal(), to: other.ordinal() });
        }
    }
    Ok(())
}

fn location(gpu: &Gpu) -> CUmemLocation {
    CUmemLocation { type_: LocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: gpu.ordinal() as i32 }
}

fn properties(gpu: &Gpu, export: HandleType) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: AllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: export,
        location: location(gpu),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

pub(crate) fn granularity_of(gpu: &Gpu, export: HandleType) -> Result<usize, GpuError> {
    gpu.enter()?;
    let mut granularity = 0;
    let minimum = Granularity::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: `granularity` is written; the properties are whole.
    let result =
        unsafe { cuMemGetAllocationGranularity(&mut granularity, &properties(gpu, export), minimum) };
    gpu.check("cuMemGetAllocationGranularity", result)?;
    Ok(granularity.max(1))
}

/// Stride and size of the whole; `None` where that overflows.
fn layout(bytes: usize, nodes: usize, granularity: usize) -> Option<(usize, usize)> {
    let stride = bytes.checked_next_multiple_of(granularity)?;
    Some((stride, stride.checked_mul(nodes).filter(|size| *size <= 1 << 47)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_granules() {
        assert_eq!(layout(1, 3, 2 << 20), Some((2 << 20, 6 << 20)));
        assert_eq!(layout(2 << 20, 2, 2 << 20), Some((2 << 20, 4 << 20)));
        assert_eq!(layout((2 << 20) + 1, 2, 2 << 20), Some((4 << 20, 8 << 20)));
        assert_eq!(layout(usize::MAX, 2, 2 << 20), None);
        assert_eq!(layout(1 << 40, 1 << 20, 2 << 20), None);
    }
}
