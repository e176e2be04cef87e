//! Which adapters there are.

use crate::error::RdmaError;

/// An adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the kernel calls it: `mlx5_0`.
    pub name: String,
    /// Its rings can be shown to kernels.
    pub direct: bool,
}

/// The adapters of this host, at least one.
///
/// # Errors
/// [`RdmaError::NotBuilt`], [`RdmaError::Missing`], [`RdmaError::NoDevice`].
pub fn devices() -> Result<Vec<Device>, RdmaError> {
    let all = listed()?;
    if all.is_empty() { Err(RdmaError::NoDevice) } else { Ok(all) }
}

/// The adapter of this name, if its rings can be shown.
pub(crate) fn named(name: &str) -> Result<Device, RdmaError> {
    let all = devices()?;
    match all.iter().find(|device| device.name == name) {
        None => {
            let there: Vec<&str> = all.iter().map(|device| device.name.as_str()).collect();
            Err(RdmaError::Unknown { name: name.to_owned(), there: there.join(", ") })
        }
        Some(device) if !device.direct => Err(RdmaError::Indirect(name.to_owned())),
        Some(device) => Ok(device.clone()),
    }
}

#[cfg(not(rdma_core))]
fn listed() -> Result<Vec<Device>, RdmaError> {
    Err(RdmaError::NotBuilt)
}

#[cfg(rdma_core)]
fn listed() -> Result<Vec<Device>, RdmaError> {
    use crate::raw::{DEVICES, NAME, RawDevice, ggas_rdma_list};
    loaded()?;
    let mut all = [RawDevice { name: [0; NAME], direct: 0, reserved: 0 }; DEVICES];
    // SAFETY: the libraries are loaded, and there is room for as many devices as the shim fills in.
    let count = unsafe { ggas_rdma_list(all.as_mut_ptr()) };
    let count = usize::try_from(count).map_err(|_| RdmaError::Call {
        device: "(all)".into(),
        call: "ibv_get_device_list".into(),
        why: std::io::Error::from_raw_os_error(-count),
    })?;
    let name = |device: &RawDevice| {
        let bytes = device.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    Ok(all[..count].iter().map(|device| Device { name: name(device), direct: device.direct != 0 }).collect())
}

/// Opens rdma-core's libraries, once.
#[cfg(rdma_core)]
fn loaded() -> Result<(), RdmaError> {
    use std::ffi::CStr;
    use std::sync::OnceLock;
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let load = || {
        // SAFETY: names that end with 0; called once, by the cell's lock.
        let why =
            unsafe { crate::raw::ggas_rdma_load(c"libibverbs.so.1".as_ptr(), c"libmlx5.so.1".as_ptr()) };
        if why.is_null() {
            return Ok(());
        }
        // SAFETY: a text that ends with 0 and stays until this thread's next dlopen.
        Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
    };
    LOADED.get_or_init(load).clone().map_err(RdmaError::Missing)
}
