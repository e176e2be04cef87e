//! GPU code: a fatbin, all of whose kernels are loaded at once.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::copier;
use crate::error::{GpuError, code};
use crate::gpu::{Gpu, Handle};
use crate::memory;
use crate::resident::gate;
use crate::sys::*;

/// The share of the L1 that kernels prefer as shared memory, in percent. One value for all but `Launch::cached`: a multiprocessor
/// changes its split only when it is empty, so kernels with different splits could not share one.
const SHARED_SHARE: i32 = 100;

/// Kernels loaded on one GPU. Cheap to clone. They stay loaded until the process ends: unloading waits for the GPU,
/// and a program has few images.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    gpu: Gpu,
    raw: Handle<CUmodule>,
    kernels: BTreeMap<String, Function>,
    /// Kernels that were given a share of shared memory of their own, in percent: saying it again would make each launch wait
    /// for the driver.
    shares: Mutex<BTreeMap<String, i32>>,
    /// Blocks that run on a multiprocessor at once, by kernel, threads of a block and shared memory that launches add: so that the driver
    /// is not asked at each launch.
    occupancy: Mutex<HashMap<(usize, u32, usize), u32>>,
}

/// One kernel of a module.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub raw: Handle<CUfunction>,
    /// Bytes of its parameter, 0 without one.
    pub argument_bytes: usize,
    pub max_threads: u32,
    pub local_bytes: usize,
    /// Shared memory of a block, without what a launch adds.
    shared_bytes: usize,
}

impl Gpu {
    /// Loads a fatbin (or cubin, or zero-terminated PTX) with all its kernels, whatever `CUDA_MODULE_LOADING` says:
    /// loading a kernel later could wait for kernels that run. Also sets the stack of this GPU's threads to what
    /// the kernels need, which a launch would otherwise do, waiting for the GPU. Loading an image again returns the
    /// same module.
    ///
    /// # Errors
    /// [`GpuError::NoImage`] for an empty image; [`GpuError::NotLoadable`] for one that does not fit this GPU or
    /// driver; driver errors.
    pub fn load(&self, image: &'static [u8]) -> Result<Module, GpuError> {
        static LOADED: Mutex<Vec<(usize, &'static [u8], Module)>> = Mutex::new(Vec::new());
        if image.is_empty() {
            return Err(GpuError::NoImage);
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |entry: &&(usize, &[u8], Module)| entry.0 == self.ordinal() && std::ptr::eq(entry.1, image);
        if let Some((.., module)) = loaded.iter().find(same) {
            return Ok(module.clone());
        }
        let module = self.load_new(image)?;
        if module.function(copier::KERNEL).is_ok() {
            self.offer_copier_module(&module);
        }
        loaded.push((self.ordinal(), image, module.clone()));
        Ok(module)
    }

    fn load_new(&self, image: &[u8]) -> Result<Module, GpuError> {
        self.enter()?;
        // A fatbin starts with 64-bit fields and PTX ends with a zero byte.
        let mut aligned = vec![0u64; image.len() / 8 + 2];
        // SAFETY: the vector has more bytes than the image, and they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), aligned.as_mut_ptr().cast(), image.len()) };
        let load = || {
            let mut raw = std::ptr::null_mut();
            // SAFETY: the image is readable and zero-terminated; the driver checks what it holds and keeps no pointer.
            let result = unsafe { cuModuleLoadData(&mut raw, aligned.as_ptr().cast()) };
            self.check("cuModuleLoadData", result).map_err(|error| self.not_loadable(error))?;
            Ok::<_, GpuError>((raw, self.functions(raw)?))
        };
        let (raw, kernels) = gate().without_copiers(load)?;
        let local = kernels.values().map(|kernel| kernel.local_bytes).max().unwrap_or(0);
        self.reserve_stack(local)?;
        let loaded = Loaded {
            gpu: self.clone(),
            raw: Handle(raw),
            kernels,
            shares: Mutex::default(),
            occupancy: Mutex::default(),
        };
        Ok(Module(Arc::new(loaded)))
    }

    fn not_loadable(&self, error: GpuError) -> GpuError {
        let GpuError::Driver(error) = error else { return error };
        match error.code {
            code::NO_BINARY | code::INVALID_IMAGE | code::INVALID_PTX | code::UNSUPPORTED_PTX => {
                let (major, minor) = self.info().sm;
                GpuError::NotLoadable { gpu: self.ordinal(), sm: format!("{major}.{minor}"), error }
            }
            _ => GpuError::Driver(error),
        }
    }

    /// Loads and describes all kernels of a module.
    fn functions(&self, module: CUmodule) -> Result<BTreeMap<String, Function>, GpuError> {
        let mut count = 0;
        // SAFETY: the module is loaded; `count` is written.
        self.check("cuModuleGetFunctionCount", unsafe { cuModuleGetFunctionCount(&mut count, module) })?;
        let mut raw = vec![std::ptr::null_mut(); count as usize];
        // SAFETY: the vector has room for `count` handles.
        let result = unsafe { cuModuleEnumerateFunctions(raw.as_mut_ptr(), count, module) };
        self.check("cuModuleEnumerateFunctions", result)?;
        raw.into_iter().map(|function| self.function(function)).collect()
    }

    fn function(&self, raw: CUfunction) -> Result<(String, Function), GpuError> {
        let mut name = std::ptr::null();
        // SAFETY: the handle comes from the driver; the name lives as long as the module.
        self.check("cuFuncGetName", unsafe { cuFuncGetName(&mut name, raw) })?;
        // SAFETY: the call succeeded, so `name` is a zero-terminated text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        // SAFETY: the handle comes from the driver.
        self.check("cuFuncLoad", unsafe { cuFuncLoad(raw) })?;
        let carveout = FuncAttr::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: as above; the attribute may be set.
        self.check("cuFuncSetAttribute", unsafe { cuFuncSetAttribute(raw, carveout, SHARED_SHARE) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: as above; `value` is written.
            let result = unsafe { cuFuncGetAttribute(&mut value, which, raw) };
            self.check("cuFuncGetAttribute", result).map(|()| value.max(0))
        };
        let function = Function {
            raw: Handle(raw),
            argument_bytes: self.argument_bytes(raw)?,
            max_threads: attribute(FuncAttr::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
            local_bytes: attribute(FuncAttr::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as usize,
            shared_bytes: attribute(FuncAttr::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as usize,
        };
        Ok((name, function))
    }

    /// Size of a kernel's only parameter, 0 if it has none.
    fn argument_bytes(&self, function: CUfunction) -> Result<usize, GpuError> {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the handle comes from the driver; both are written on success.
        match unsafe { cuFuncGetParamInfo(function, 0, &mut offset, &mut size) } {
            CUresult::CUDA_ERROR_INVALID_VALUE => Ok(0),
            result => self.check("cuFuncGetParamInfo", result).map(|()| size),
        }
    }

    /// Gives every thread of this GPU a stack of at least `bytes`.
    fn reserve_stack(&self, bytes: usize) -> Result<(), GpuError> {
        let mut present = 0;
        // SAFETY: `present` is written.
        let result = unsafe { cuCtxGetLimit(&mut present, Limit::CU_LIMIT_STACK_SIZE) };
        self.check("cuCtxGetLimit", result)?;
        if bytes <= present {
            return Ok(());
        }
        // The driver waits for the GPU here.
        // SAFETY: a limit that exists; the driver refuses sizes that it cannot give.
        let set = || unsafe { cuCtxSetLimit(Limit::CU_LIMIT_STACK_SIZE, bytes.next_multiple_of(256)) };
        let result = gate().exclusive("growing the stack of GPU threads", set)?;
        self.check("cuCtxSetLimit", result)
    }
}

impl Module {
    /// The GPU it is loaded on.
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// Names of its kernels, sorted.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.0.kernels.keys().map(String::as_str)
    }

    /// Whether it holds a kernel of this name.
    pub fn has(&self, kernel: &str) -> bool {
        self.0.kernels.contains_key(kernel)
    }

    /// Sets a constant or a variable of the module, which is as long as `words`. Not while its kernels run.
    ///
    /// # Errors
    /// Driver errors, as where there is none of this name.
    pub fn set_global(&self, name: &CStr, words: &[u64]) -> Result<(), GpuError> {
        let gpu = &self.0.gpu;
        gpu.enter()?;
        let (mut at, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, the name ends with a zero, and both are written.
        let result = unsafe { cuModuleGetGlobal_v2(&mut at, &mut bytes, self.0.raw.0, name.as_ptr()) };
        gpu.check("cuModuleGetGlobal", result)?;
        if bytes != size_of_val(words) {
            return Err(GpuError::Invalid(format!("{name:?} has {bytes} bytes, not {}", size_of_val(words))));
        }
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory::write(gpu, at, &data)
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function, GpuError> {
        self.0.kernels.get(name).copied().ok_or_else(|| GpuError::UnknownKernel {
            name: name.to_owned(),
            known: self.kernels().collect::<Vec<_>>().join(", "),
        })
    }

    /// Gives a kernel as much of the L1 as cache as there is beside what its blocks need, those of `block` threads and with
    /// `shared` bytes more of which as many as can run on a multiprocessor.
    pub(crate) fn prefer_cache(
        &self,
        name: &str,
        function: Function,
        block: u32,
        shared: usize,
    ) -> Result<(), GpuError> {
        let info = self.0.gpu.info();
        let each = match function.shared_bytes + shared {
            0 => 0,
            bytes => bytes + info.shared_reserved as usize,
        };
        let all = each * self.occupancy(function, block, shared)? as usize;
        let share = (100 * all).div_ceil(info.shared_of_multiprocessor.max(1) as usize).min(100) as i32;
        let mut shares = self.0.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.get(name) == Some(&share) {
            return Ok(());
        }
        let carveout = FuncAttr::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is loaded; the attribute may be set.
        let result = unsafe { cuFuncSetAttribute(function.raw.0, carveout, share) };
        self.0.gpu.check("cuFuncSetAttribute", result)?;
        shares.insert(name.to_owned(), share);
        // Another split of the L1 may have room for another number of blocks.
        self.counted().retain(|(kernel, ..), _| *kernel != function.raw.0.addr());
        Ok(())
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<(usize, u32, usize), u32>> {
        self.0.occupancy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many blocks of a kernel run on one multiprocessor at once.
    pub(crate) fn occupancy(&self, function: Function, block: u32, shared: usize) -> Result<u32, GpuError> {
        let key = (function.raw.0.addr(), block, shared);
        if let Some(blocks) = self.counted().get(&key) {
            return Ok(*blocks);
        }
        self.0.gpu.enter()?;
        let mut blocks = 0;
        // SAFETY: the function is loaded; `blocks` is written.
        let result = unsafe {
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function.raw.0, block as i32, shared)
        };
        self.0.gpu.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        let blocks = blocks.max(0) as u32;
        self.counted().insert(key, blocks);
        Ok(blocks)
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({} kernels on GPU {})", self.0.kernels.len(), self.gpu().ordinal())
    }
}
