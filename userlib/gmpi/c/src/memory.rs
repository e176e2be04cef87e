//! Memory that kernels name in calls.

use std::ffi::c_void;
use std::sync::Arc;

use ggas::kernels::{KernelMem, MemoryError};
use ggas_gmpi::{Class, GmpiError};

use crate::error::Failure;
use crate::ffi::{bytes, bytes_mut, export, get, put};
use crate::host::{CHost, Host, host, locked};

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Failure {
        GmpiError::from(error).into()
    }
}

impl Host {
    fn keep(&self, memory: KernelMem) -> Result<*mut c_void, Failure> {
        let memory = Arc::new(memory);
        self.gmpi.attach(&memory)?;
        let address = memory.address();
        locked(&self.memory).insert(address, memory);
        Ok(address as *mut c_void)
    }

    /// Attached memory that holds all of these bytes, and where they begin in it.
    pub fn find(&self, address: u64, len: usize) -> Result<(Arc<KernelMem>, usize), Failure> {
        let memory = locked(&self.memory);
        let found = memory.range(..=address).next_back();
        let offset = |start: u64, size: usize| {
            let offset = usize::try_from(address - start).ok()?;
            offset.checked_add(len).filter(|end| *end <= size).map(|_| offset)
        };
        let inside = found.and_then(|(start, memory)| Some((memory.clone(), offset(*start, memory.len())?)));
        inside.ok_or_else(|| {
            let why = format!("{len} bytes at {address:#x} are not in memory of gmpi_alloc or gmpi_attach");
            Failure::new(Class::BUFFER, why)
        })
    }
}

export! {
    fn gmpi_alloc(gmpi: *mut CHost, len: usize, memory: *mut *mut c_void) {
        let host = host(gmpi)?;
        get(memory)?;
        put(memory, host.keep(host.processor.alloc(len.max(1))?)?)
    }

    fn gmpi_attach(gmpi: *mut CHost, memory: *mut c_void, len: usize) {
        let host = host(gmpi)?;
        if memory.is_null() || !(memory as usize).is_multiple_of(8) || len == 0 {
            let why = format!("{len} bytes at {memory:p}: attach at least one, at a multiple of 8");
            return Err(Failure::new(Class::ARG, why));
        }
        // SAFETY: the interface's contract: it is the program's, and stays until gmpi_close.
        let borrowed = unsafe { host.processor.borrow(memory.cast(), len)? };
        host.keep(borrowed).map(drop)
    }

    fn gmpi_write(gmpi: *mut CHost, to: *mut c_void, from: *const c_void, len: usize) {
        let (memory, offset) = host(gmpi)?.find(to as u64, len)?;
        Ok(memory.write(offset, bytes(from.cast(), len)?)?)
    }

    fn gmpi_read(gmpi: *mut CHost, to: *mut c_void, from: *const c_void, len: usize) {
        let (memory, offset) = host(gmpi)?.find(from as u64, len)?;
        Ok(memory.read(offset, bytes_mut(to.cast(), len)?)?)
    }
}
