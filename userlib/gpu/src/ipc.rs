//! Memory of a GPU that other processes of the host open, where it is: without another copy of it.
//!
//! CUDA names an allocation by a handle of 64 bytes (driver API, "cuIpcGetMemHandle"). What was opened stays until it is closed, also
//! when its owner has freed it or ended.

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::resident::gate;
use crate::sys::*;

/// Words of a handle.
const HANDLE: usize = 8;

/// Names an address in memory of a process's GPU to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcName {
    words: [u64; IpcName::WORDS],
}

impl IpcName {
    /// Words of it.
    pub const WORDS: usize = HANDLE + 2;

    /// For a message: the allocation's, and the offset in it last.
    pub fn words(&self) -> &[u64; IpcName::WORDS] {
        &self.words
    }

    /// From a message.
    pub fn from_words(words: [u64; IpcName::WORDS]) -> IpcName {
        IpcName { words }
    }

    /// The allocation that the address lies in, as its owner counts them.
    pub fn allocation(&self) -> &[u64] {
        &self.words[..HANDLE + 1]
    }

    fn offset(&self) -> u64 {
        self.words[HANDLE + 1]
    }
}

/// Memory of another process.
#[derive(Debug)]
pub struct IpcMemory {
    gpu: Gpu,
    base: u64,
    allocation: Vec<u64>,
}

impl Gpu {
    /// Names an address in memory that this process allocated on this GPU by `cudaMalloc`, or by this crate but for windows.
    ///
    /// # Errors
    /// [`GpuError::NotInMemory`]; [`GpuError::Unsupported`] where memory has no such name; driver errors.
    pub fn ipc_name(&self, address: u64) -> Result<IpcName, GpuError> {
        if Gpu::holder(address) != Some(self.ordinal()) {
            return Err(GpuError::NotInMemory { address, gpu: self.ordinal() });
        }
        if !Gpu::has_ipc_handle(address) {
            return Err(GpuError::Unsupported { gpu: self.ordinal(), what: "an IPC handle of this memory" });
        }
        self.enter()?;
        let (mut base, mut bytes, mut id) = (0, 0, 0_u64);
        // SAFETY: both are written on success.
        let result = unsafe { cuMemGetAddressRange_v2(&mut base, &mut bytes, address) };
        self.check("cuMemGetAddressRange", result)?;
        let attribute = PointerAttr::CU_POINTER_ATTRIBUTE_BUFFER_ID;
        // SAFETY: this attribute is a word of 8 bytes.
        let result = unsafe { cuPointerGetAttribute((&raw mut id).cast(), attribute, base) };
        self.check("cuPointerGetAttribute", result)?;
        let mut handle = CUipcMemHandle { reserved: [0; 8 * HANDLE] };
        // SAFETY: the handle is written on success.
        self.check("cuIpcGetMemHandle", unsafe { cuIpcGetMemHandle(&mut handle, base) })?;
        let mut words = [0; IpcName::WORDS];
        let bytes = handle.reserved.map(|byte| byte as u8);
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        (words[HANDLE], words[HANDLE + 1]) = (id, address - base);
        Ok(IpcName { words })
    }

    /// Opens what another process has named, for this GPU.
    ///
    /// # Errors
    /// Driver errors: of a process that has ended, of memory that is no more, of this process itself.
    pub fn open_ipc(&self, name: &IpcName) -> Result<IpcMemory, GpuError> {
        let mut handle = CUipcMemHandle { reserved: [0; 8 * HANDLE] };
        let bytes = name.words[..HANDLE].iter().flat_map(|word| word.to_ne_bytes());
        handle.reserved.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte as _);
        self.enter()?;
        let mut base = 0;
        let flags = CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the address is written on success; the driver checks the handle.
        let result = unsafe { cuIpcOpenMemHandle_v2(&mut base, handle, flags) };
        self.check("cuIpcOpenMemHandle", result)?;
        Ok(IpcMemory { gpu: self.clone(), base, allocation: name.allocation().to_vec() })
    }
}

impl IpcMemory {
    /// Where that is for this process, if it lies in this allocation.
    pub fn address_of(&self, name: &IpcName) -> Option<u64> {
        (name.allocation() == self.allocation).then(|| self.base + name.offset())
    }
}

impl Drop for IpcMemory {
    fn drop(&mut self) {
        let (gpu, base) = (self.gpu.clone(), self.base);
        gate().defer(move || {
            if gpu.enter().is_ok() {
                // SAFETY: nobody uses the address any more.
                let _ = gpu.check("cuIpcCloseMemHandle", unsafe { cuIpcCloseMemHandle(base) });
            }
        });
    }
}
