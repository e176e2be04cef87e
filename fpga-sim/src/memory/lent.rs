//! Buffers that a transport lends to whoever fills them with a payload.

use std::sync::Arc;

/// What lends buffers, and takes them back.
pub trait Lender: Send + Sync {
    /// A buffer is not needed any more.
    fn give_back(&self, token: u32);
}

/// A buffer that others can copy from, the borrower's until it is dropped.
pub struct Lent {
    address: *mut u8,
    len: u32,
    token: u32,
    lender: Arc<dyn Lender>,
}

// SAFETY: memory that belongs to whoever has this value, whichever thread that is.
unsafe impl Send for Lent {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Lent {}

impl Lent {
    /// `len` bytes at `address`, which `lender` knows by `token`.
    ///
    /// # Safety
    /// They stay mapped while `lender` lives, and nobody of this process has them until `token` was given back.
    pub unsafe fn new(address: *mut u8, len: u32, token: u32, lender: Arc<dyn Lender>) -> Lent {
        Lent { address, len, token, lender }
    }

    /// First byte, for the transport that lent it.
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: promised in `new`; written by this process only, through `bytes_mut`.
        unsafe { std::slice::from_raw_parts(self.address, self.len as usize) }
    }

    /// The bytes, to be filled before the buffer is sent.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody else has the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len as usize) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.lender.give_back(self.token);
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("token", &self.token).field("len", &self.len).finish()
    }
}
