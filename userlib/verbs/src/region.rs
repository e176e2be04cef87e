//! Memory regions.

use std::sync::Arc;

use ggas_hca::Access;
use ggas_kernels::KernelMem;

use crate::layout::ggas_ibv_mr;
use crate::memory::Declared;
use crate::{Pd, RemoteRegion, VerbsError};

/// Registered memory; its keys end with it.
pub struct Mr {
    context: Arc<crate::Context>,
    declared: Declared,
    key: u32,
}

impl Pd {
    /// Registers kernel memory.
    ///
    /// # Errors
    /// [`VerbsError::Bus`], [`VerbsError::Region`].
    pub fn register(&self, buffer: Arc<KernelMem>, access: Access) -> Result<Mr, VerbsError> {
        let declared = Declared::new(&self.context.memory, buffer)?;
        let (address, len) = (declared.address(), declared.buffer.len() as u64);
        let key =
            self.context.front(|front| front.hca.register(self.domain, address, address, len, access))?;
        Ok(Mr { context: self.context.clone(), declared, key })
    }
}

impl Mr {
    /// The memory.
    pub fn buffer(&self) -> &Arc<KernelMem> {
        &self.declared.buffer
    }

    /// Address of its first byte.
    pub fn address(&self) -> u64 {
        self.declared.address()
    }

    /// The key for local use.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// What a peer needs to use it.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion { address: self.address(), len: self.declared.buffer.len() as u64, rkey: self.key }
    }

    /// As kernels see it.
    pub fn export(&self) -> ggas_ibv_mr {
        ggas_ibv_mr {
            address: self.address(),
            bytes: self.declared.buffer.len() as u64,
            lkey: self.key,
            rkey: self.key,
            lkey_be: self.key.to_be(),
            rkey_be: self.key.to_be(),
        }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let _ = self.context.front(|front| front.hca.deregister(self.key));
    }
}
