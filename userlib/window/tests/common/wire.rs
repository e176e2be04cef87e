//! Whether tests over hosts are possible.

use ggas_wire::{WireError, choose};

/// Whether some library carries packets between hosts here; why not is on standard error.
pub fn is_there() -> bool {
    match choose() {
        Err(error @ (WireError::Nothing { .. } | WireError::Missing { .. } | WireError::NotBuilt { .. })) => {
            eprintln!("skipped: {error}");
            false
        }
        _ => true,
    }
}
