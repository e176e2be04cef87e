//! The limit on locked memory (spec 4.2): registered pages are pinned, and the
//! system bounds how much of its memory a user may pin.

use crate::DeviceError;

/// How much memory the regions of one node may lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockedMemory {
    /// What a kernel driver does: `RLIMIT_MEMLOCK` of this process, and no limit with `CAP_IPC_LOCK`.
    /// On the model every node is a machine of its own, so each has the whole limit.
    #[default]
    System,
    /// This many bytes.
    Bytes(u64),
    /// No limit. The model pins nothing, so this is safe there.
    Unlimited,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// `RLIMIT_MEMLOCK` of the process.
    Rlimit,
    /// The configuration of the cluster or device.
    Config,
}

impl LimitSource {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            LimitSource::Rlimit => {
                "RLIMIT_MEMLOCK: raise it with `ulimit -l`, or on the model build the cluster with \
                 locked_memory(LockedMemory::Unlimited)"
            }
            LimitSource::Config => "set by locked_memory(LockedMemory::Bytes(..)): raise it there",
        }
    }
}

/// Bytes that one node's regions have locked, against a limit that was read once.
#[derive(Debug)]
pub(crate) struct LockedPages {
    limit: Option<(u64, LimitSource)>,
    locked: u64,
}

impl LockedPages {
    pub(crate) fn new(limit: LockedMemory) -> LockedPages {
        let limit = match limit {
            LockedMemory::System if may_lock_anything() => None,
            LockedMemory::System => rlimit().map(|bytes| (bytes, LimitSource::Rlimit)),
            LockedMemory::Bytes(bytes) => Some((bytes, LimitSource::Config)),
            LockedMemory::Unlimited => None,
        };
        LockedPages { limit, locked: 0 }
    }

    /// Accounts for `bytes` more, or says which limit is in the way.
    pub(crate) fn lock(&mut self, bytes: u64) -> Result<(), DeviceError> {
        let locked = self.locked.saturating_add(bytes);
        if let Some((limit, origin)) = self.limit
            && locked > limit
        {
            return Err(DeviceError::LockedMemory { requested: bytes, locked: self.locked, limit, origin });
        }
        self.locked = locked;
        Ok(())
    }

    pub(crate) fn unlock(&mut self, bytes: u64) {
        self.locked = self.locked.saturating_sub(bytes);
    }
}

/// The soft limit in bytes; `None` when there is none.
fn rlimit() -> Option<u64> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft != RLIM_INFINITY => Some(soft),
        _ => None,
    }
}

/// The error for `bytes` that the kernel refused to pin: the limit if it is that, else that there is no memory.
pub(crate) fn memory_refused(requested: u64) -> DeviceError {
    let locked = status_value("VmPin:").unwrap_or(0) << 10;
    match rlimit() {
        Some(limit) if !may_lock_anything() && locked + requested > limit => {
            DeviceError::LockedMemory { requested, locked, limit, origin: LimitSource::Rlimit }
        }
        _ => DeviceError::Memory {
            what: "a region",
            bytes: requested as usize,
            source: std::io::ErrorKind::OutOfMemory.into(),
        },
    }
}

/// A number of /proc/self/status.
fn status_value(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether the process holds `CAP_IPC_LOCK` (bit 14 of the effective set).
fn may_lock_anything() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_limit_counts_and_names_itself() {
        let mut locked = LockedPages::new(LockedMemory::Bytes(8192));
        locked.lock(4096).unwrap();
        locked.lock(4096).unwrap();
        let error = locked.lock(1).unwrap_err();
        assert!(error.to_string().contains("locked_memory(LockedMemory::Bytes(..))"), "{error}");
        locked.unlock(4096);
        locked.lock(4096).unwrap();
    }

    #[test]
    fn the_systems_limit_names_ulimit() {
        let mut locked = LockedPages { limit: Some((0, LimitSource::Rlimit)), locked: 0 };
        let error = locked.lock(4096).unwrap_err();
        assert!(error.to_string().contains("ulimit -l"), "{error}");
    }
}
