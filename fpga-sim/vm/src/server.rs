//! Devices on sockets: the vfio-user protocol's side of them.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ggas_clock::Clock;
use vfio_bindings::bindings::vfio::*;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend};

use crate::protocol::{RegionInfo, Server};
use crate::{Change, ConfigSpace, GuestMemory, Interrupts};

/// Interrupts by MSI, in [`Device::irqs`].
pub const MSI: u32 = VFIO_PCI_MSI_IRQ_INDEX;
/// Interrupts by MSI-X, in [`Device::irqs`].
pub const MSIX: u32 = VFIO_PCI_MSIX_IRQ_INDEX;

/// A BAR.
pub struct Region<'a> {
    /// BAR.
    pub index: u32,
    /// Bytes.
    pub bytes: u64,
    /// Offset and bytes of what the guest maps; all else is trapped.
    pub mapped: Vec<(u64, u64)>,
    /// Where that lies, at the same offsets.
    pub file: Option<BorrowedFd<'a>>,
}

/// A device of a guest. Its calls come from one thread, in the order of the guest's accesses.
pub trait Device {
    /// Its BARs.
    fn regions(&self) -> Vec<Region<'_>>;
    /// Kinds of interrupt, and vectors of each.
    fn irqs(&self) -> Vec<(u32, u32)>;
    /// Its configuration space.
    fn config(&mut self) -> &mut ConfigSpace;
    /// The guest wrote configuration space.
    fn changed(&mut self, change: Change);
    /// The guest reads a BAR.
    fn bar_read(&mut self, bar: u32, offset: u64, out: &mut [u8]);
    /// The guest writes a BAR.
    fn bar_write(&mut self, bar: u32, offset: u64, bytes: &[u8]);
    /// The guest's memory, for devices that reach it.
    fn guest_memory(&self) -> Option<&Arc<GuestMemory>> {
        None
    }
    /// Its interrupt lines.
    fn lines(&self) -> Option<&Arc<Interrupts>> {
        None
    }
    /// The machine resets the device.
    fn reset_device(&mut self) {
        self.config().reset();
        self.changed(Change { reset: false, decoding: true });
    }
}

/// A device as the protocol's library calls it.
pub struct Backend<'a, D: ?Sized>(pub &'a mut D);

impl<D: Device + ?Sized> ServerBackend for Backend<'_, D> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => self.0.config().read(offset, data),
            bar => self.0.bar_read(bar, offset, data),
        }
        tracing::trace!("read region {region} {offset:#x} {data:02x?}");
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        tracing::trace!("write region {region} {offset:#x} {data:02x?}");
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                let change = self.0.config().write(offset, data);
                if change != Change::default() {
                    self.0.changed(change);
                }
            }
            bar => self.0.bar_write(bar, offset, data),
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        tracing::debug!("map {address:#x} +{size:#x} {flags:?} file: {}", fd.is_some());
        let Some(memory) = self.0.guest_memory() else { return Ok(()) };
        // What has no file is another device's BAR or firmware; what is read only is firmware.
        let Some(file) = fd.filter(|_| flags.contains(DmaMapFlags::WRITE)) else { return Ok(()) };
        memory
            .map(address, size, &file, offset)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        tracing::debug!("unmap {address:#x} +{size:#x} {flags:?}");
        let Some(memory) = self.0.guest_memory() else { return Ok(()) };
        match flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            true => memory.unmap_all(),
            false => memory.unmap(address, size),
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        tracing::debug!("reset");
        self.0.reset_device();
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, flags: u32, start: u32, count: u32, fds: Vec<File>) -> io::Result<()> {
        tracing::debug!("set_irqs {index} flags {flags:#x} {start}+{count}, {} files", fds.len());
        let Some(lines) = self.0.lines() else { return Ok(()) };
        if ![MSI, MSIX].contains(&index) || flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Ok(());
        }
        match flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            true => lines.set(start, count, fds)?,
            false if count == 0 => lines.clear(),
            // The machine's own test of the lines.
            false => (start..start.saturating_add(count.min(64))).for_each(|vector| {
                lines.raise(vector);
            }),
        }
        Ok(())
    }
}

fn region(region: &Region<'_>) -> io::Result<RegionInfo> {
    let mut flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    if !region.mapped.is_empty() {
        flags |= VFIO_REGION_INFO_FLAG_MMAP;
    }
    let file = region.file.filter(|_| !region.mapped.is_empty());
    let file = file.map(|file| file.try_clone_to_owned()).transpose()?;
    Ok(RegionInfo { flags, bytes: region.bytes, mapped: region.mapped.clone(), file })
}

/// All regions that a PCI device can have.
fn regions(device: &(impl Device + ?Sized)) -> io::Result<Vec<RegionInfo>> {
    let bars = device.regions();
    let config = Region { index: VFIO_PCI_CONFIG_REGION_INDEX, bytes: 4096, mapped: Vec::new(), file: None };
    let absent = || RegionInfo { flags: 0, bytes: 0, mapped: Vec::new(), file: None };
    let there = |index| bars.iter().chain([&config]).find(|region| region.index == index);
    (0..VFIO_PCI_NUM_REGIONS).map(|index| there(index).map_or_else(|| Ok(absent()), region)).collect()
}

fn irqs(device: &(impl Device + ?Sized)) -> Vec<IrqInfo> {
    let kinds = device.irqs();
    let vectors = |index| kinds.iter().find(|(kind, _)| *kind == index).map_or(0, |(_, vectors)| *vectors);
    let flags = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE;
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| match vectors(index) {
            0 => IrqInfo { index, flags: 0, count: 0 },
            count => IrqInfo { index, flags, count },
        })
        .collect()
}

/// A socket for a device, to be served by [`serve`]. One that a dead server left is replaced.
///
/// # Errors
/// The system's; [`io::ErrorKind::AddrInUse`] where a live server has the socket, [`io::ErrorKind::AlreadyExists`] where
/// something lies there that is no socket.
pub fn listen(path: &Path, device: &(impl Device + ?Sized)) -> io::Result<Server> {
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            let text = "something that is no socket lies there: name another place, or remove it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    Ok(Server { listener, irqs: irqs(device), regions: regions(device)? })
}

/// Serves one virtual machine after the other, for ever. Between two the device is reset and has no memory.
pub fn serve(server: &Server, device: &mut (impl Device + ?Sized)) -> ! {
    loop {
        if let Err(error) = server.run(&mut Backend(device)) {
            tracing::error!("no client can connect: {error}");
            // Such as too many open files: others may close theirs.
            Clock::REAL.sleep(Duration::from_millis(100));
        }
        // Before the reset, which would move each part to the next card, and needs mappings that these may have used up.
        if let Some(memory) = device.guest_memory() {
            memory.unmap_all();
        }
        device.reset_device();
        if let Some(lines) = device.lines() {
            lines.clear();
        }
    }
}
