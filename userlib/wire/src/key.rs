//! What a peer needs to access a region.

use crate::error::WireError;
use crate::table::KEY_MAX;

/// What a peer needs to access a [region](crate::Region): passed on as bytes, and given to
/// [`import`](crate::Endpoint::import).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(Vec<u8>);

/// Bytes in front of the library's: how long the region is.
const HEAD: usize = 8;

impl Key {
    pub(crate) fn new(region_len: u64, of_library: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(HEAD + of_library.len());
        bytes.extend_from_slice(&region_len.to_le_bytes());
        bytes.extend_from_slice(of_library);
        Key(bytes)
    }

    /// Of memory that no peer accesses.
    pub(crate) fn none() -> Key {
        Key(Vec::new())
    }

    /// As it travels.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of the region.
    pub fn region_len(&self) -> u64 {
        self.0.first_chunk().map_or(0, |len| u64::from_le_bytes(*len))
    }

    pub(crate) fn of_library(&self) -> &[u8] {
        self.0.get(HEAD..).unwrap_or_default()
    }
}

impl TryFrom<&[u8]> for Key {
    type Error = WireError;

    fn try_from(bytes: &[u8]) -> Result<Key, WireError> {
        if (HEAD + 1..=HEAD + KEY_MAX).contains(&bytes.len()) {
            Ok(Key(bytes.to_vec()))
        } else {
            Err(WireError::Foreign { what: "key", len: bytes.len() })
        }
    }
}
