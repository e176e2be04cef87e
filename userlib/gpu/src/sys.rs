//! The driver calls that this crate makes, and the check that they are there.
//!
//! All other files import driver functions from here only, so that [`load`] can promise that none of them is
//! missing: cudarc panics on a missing library or symbol, and a process must not.

use std::ffi::CStr;
use std::sync::OnceLock;

use cudarc::driver::sys as cu;

use crate::error::{DriverError, NoGpu};

pub(crate) use cu::{
    CU_GRAPH_COND_ASSIGN_DEFAULT, CUDA_CONDITIONAL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice,
    CUdevice_P2PAttribute_enum as P2p, CUdevice_attribute_enum as Attr, CUevent, CUfunction,
    CUfunction_attribute_enum as FuncAttr, CUgraph, CUgraphConditionalHandle,
    CUgraphConditionalNodeType_enum as ConditionalType, CUgraphExec, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType_enum as NodeType, CUipcMem_flags_enum, CUipcMemHandle, CUlimit_enum as Limit,
    CUmemAccess_flags_enum as Access, CUmemAccessDesc, CUmemAllocationGranularity_flags_enum as Granularity,
    CUmemAllocationHandleType_enum as HandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType_enum as AllocationType, CUmemAttach_flags_enum, CUmemGenericAllocationHandle,
    CUmemLocation, CUmemLocationType_enum as LocationType, CUmemRangeHandleType_enum, CUmodule,
    CUpointer_attribute_enum as PointerAttr, CUresult, CUstream, CUuuid,
};

/// Lists each driver function once: as an import and as a symbol that [`load`] looks up.
macro_rules! driver_calls {
    ($($name:ident),* $(,)?) => {
        pub(crate) use cu::{$($name),*};
        const SYMBOLS: &[&str] = &[$(concat!(stringify!($name), "\0")),*];
    };
}

driver_calls! {
    cuCtxEnablePeerAccess, cuCtxGetCurrent, cuCtxGetDevice, cuCtxGetLimit, cuCtxGetStreamPriorityRange, cuCtxSetCurrent,
    cuCtxSetLimit, cuCtxSynchronize,
    cuDeviceCanAccessPeer, cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetCount, cuDeviceGetName,
    cuDeviceGetP2PAttribute, cuDeviceGetPCIBusId, cuDeviceGetUuid_v2, cuDevicePrimaryCtxRetain,
    cuDeviceTotalMem_v2, cuDriverGetVersion,
    cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime_v2, cuEventQuery, cuEventRecord, cuEventSynchronize,
    cuFuncGetAttribute, cuFuncGetName, cuFuncGetParamInfo, cuFuncLoad, cuFuncSetAttribute,
    cuGetErrorName, cuGetErrorString, cuGraphAddKernelNode_v2, cuGraphAddNode_v2,
    cuGraphConditionalHandleCreate, cuGraphCreate, cuGraphDestroy, cuGraphExecDestroy, cuGraphInstantiateWithFlags, cuGraphLaunch,
    cuInit, cuIpcCloseMemHandle, cuIpcGetMemHandle, cuIpcOpenMemHandle_v2, cuLaunchCooperativeKernel, cuLaunchKernel,
    cuMemAddressFree, cuMemAddressReserve, cuMemAllocManaged, cuMemAlloc_v2, cuMemCreate, cuMemFreeHost, cuMemFree_v2,
    cuMemGetAddressRange_v2,
    cuMemGetHandleForAddressRange,
    cuMemExportToShareableHandle, cuMemGetAllocationGranularity, cuMemHostAlloc, cuMemHostGetDevicePointer_v2,
    cuMemHostRegister_v2, cuMemHostUnregister, cuMemImportFromShareableHandle, cuMemMap, cuMemRelease,
    cuMemSetAccess, cuMemUnmap,
    cuMemcpyAsync, cuMemsetD8Async,
    cuModuleEnumerateFunctions, cuModuleGetFunctionCount, cuModuleGetGlobal_v2, cuModuleLoadData,
    cuPointerGetAttribute,
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
    cuStreamCreateWithPriority, cuStreamDestroy_v2, cuStreamQuery, cuStreamSynchronize, cuStreamWaitEvent,
    cuStreamWaitValue64_v2,
    cuStreamWriteValue32_v2, cuStreamWriteValue64_v2,
}

/// The oldest driver that loads what nvcc 13.0 makes, as `cuDriverGetVersion` counts (1000 × major + 10 × minor).
pub(crate) const NEEDED_DRIVER: i32 = 13_000;

/// Loads libcuda and initialises it, once in a process.
///
/// After `Ok(())` every function of this module may be called.
pub(crate) fn load() -> Result<(), NoGpu> {
    static LOADED: OnceLock<Result<(), NoGpu>> = OnceLock::new();
    LOADED.get_or_init(load_once).clone()
}

fn load_once() -> Result<(), NoGpu> {
    // SAFETY: only opens the library; its initialisers are the driver's own.
    if !unsafe { cu::is_culib_present() } {
        return Err(NoGpu::NotInstalled);
    }
    require(&["cuDriverGetVersion\0", "cuInit\0", "cuGetErrorName\0", "cuGetErrorString\0"])?;
    let mut version = 0;
    // SAFETY: the symbol is there (checked above) and `version` is an int to write to.
    let result = unsafe { cuDriverGetVersion(&mut version) };
    refuse(check("cuDriverGetVersion", result))?;
    if version < NEEDED_DRIVER {
        return Err(NoGpu::OldDriver { found: version, needed: NEEDED_DRIVER });
    }
    require(SYMBOLS)?;
    // SAFETY: the symbol is there; 0 is the only flag word that exists.
    refuse(check("cuInit", unsafe { cuInit(0) }))?;
    let mut count = 0;
    // SAFETY: as above.
    refuse(check("cuDeviceGetCount", unsafe { cuDeviceGetCount(&mut count) }))?;
    if count < 1 {
        return Err(NoGpu::NoDevice);
    }
    Ok(())
}

/// Fails unless libcuda has all `symbols` (each ends with a zero byte).
fn require(symbols: &[&'static str]) -> Result<(), NoGpu> {
    // SAFETY: `is_culib_present` found the library, so this cannot panic.
    let library = unsafe { cu::culib() };
    for symbol in symbols {
        // SAFETY: the symbol is only looked up, never used through this type.
        let found = unsafe { library.get::<*const std::ffi::c_void>(symbol.as_bytes()) };
        if found.is_err() {
            return Err(NoGpu::BrokenLibrary { symbol: symbol.trim_end_matches('\0') });
        }
    }
    Ok(())
}

/// What a failing initialisation means.
fn refuse(result: Result<(), DriverError>) -> Result<(), NoGpu> {
    result.map_err(|error| match error.code {
        code if code == CUresult::CUDA_ERROR_STUB_LIBRARY as u32 => NoGpu::StubLibrary,
        code if code == CUresult::CUDA_ERROR_NO_DEVICE as u32 => NoGpu::NoDevice,
        _ => NoGpu::Driver(error),
    })
}

/// Turns a driver status into a result that names the call.
pub(crate) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both symbols are there (`load` came first); unknown codes leave the pointers null.
    unsafe {
        let _ = cuGetErrorName(result, &mut name);
        let _ = cuGetErrorString(result, &mut text);
    }
    Err(DriverError { call, code: result as u32, name: driver_text(name), text: driver_text(text) })
}

/// A text that the driver keeps for the life of the process.
fn driver_text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: not null, and the driver returns zero-terminated static texts.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
