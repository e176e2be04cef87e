//! A stand-in for a GPU: a device whose BAR is memory.

use std::io;
use std::sync::Arc;

use crate::bar::SharedFile;
use crate::server::{Device, Region};
use crate::{Change, ConfigSpace, PeerBar};

/// Identity of a device that exists in virtual machines only: Red Hat's vendor id, a device id that QEMU leaves to experiments.
pub const VENDOR: u16 = 0x1af4;
/// As [`VENDOR`].
pub const DEVICE: u16 = 0x10f0;

/// The device. Its memory keeps its content over resets.
pub struct Gpu {
    config: ConfigSpace,
    bar: Arc<PeerBar>,
}

impl Gpu {
    /// A device with `bytes` of memory, a power of two of at least a page.
    ///
    /// # Errors
    /// The system's where there is no room; [`io::ErrorKind::InvalidInput`] for another size.
    pub fn new(bytes: u64) -> io::Result<Gpu> {
        if !bytes.is_power_of_two() || bytes < 4096 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "GPU memory is a power of two of pages"));
        }
        let bar = PeerBar::new(SharedFile::new("gpu memory", bytes)?);
        Ok(Gpu { config: ConfigSpace::gpu(bytes), bar })
    }

    /// Its BAR, for cards of the same guest.
    pub fn bar(&self) -> Arc<PeerBar> {
        self.bar.clone()
    }
}

impl Device for Gpu {
    fn regions(&self) -> Vec<Region<'_>> {
        let memory = self.bar.memory();
        vec![Region {
            index: 0,
            bytes: memory.len(),
            mapped: vec![(0, memory.len())],
            file: Some(memory.fd()),
        }]
    }

    fn irqs(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    fn config(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }

    fn changed(&mut self, change: Change) {
        if change.reset {
            self.config.reset();
        }
        self.bar.place(self.config.bar_address(0));
    }

    fn bar_read(&mut self, _bar: u32, offset: u64, out: &mut [u8]) {
        if !self.bar.memory().read(offset, out) {
            out.fill(0xff);
        }
    }

    fn bar_write(&mut self, _bar: u32, offset: u64, bytes: &[u8]) {
        // What leaves the BAR goes nowhere.
        self.bar.memory().write(offset, bytes);
    }
}
