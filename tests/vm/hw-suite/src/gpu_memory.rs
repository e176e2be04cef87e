//! GPU memory as target and source: as a dma-buf of its driver, and as a mapping by gpumap.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ggas_device::hw::GpuMapping;
use ggas_device::{Access, DeviceError, DmaBuf, Place, Span};
use ggas_rma::{Node, Port, Region, Spec};

use crate::window::GPU_BASE;
use crate::{Outcome, SOON, check, holds, patient, pattern, region};

/// Bytes of the GPU memory.
const BYTES: usize = 3 << 16;
/// Where what is registered begins: not on a page, not on a page of the GPU's.
const AT: usize = 70_003;
const LEN: usize = 100_001;

/// `struct gpustub_export` of kmod/uapi/gpumap/stub.h.
#[repr(C)]
struct Export {
    gpu_address: u64,
    length: u64,
}

nix::ioctl_write_ptr!(gpustub_export, 0xe9, 0, Export);

/// As `cuMemGetHandleForAddressRange` does of a GPU's.
fn exported() -> Result<OwnedFd, Box<dyn std::error::Error>> {
    let stub = File::options().read(true).write(true).open("/dev/gpustub")?;
    let range = Export { gpu_address: GPU_BASE, length: BYTES as u64 };
    // SAFETY: the structure is the one that the call's number names.
    let fd = unsafe { gpustub_export(stub.as_raw_fd(), &range) }?;
    // SAFETY: the call opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn all(node: &Node) -> Outcome {
    let port = node.open_port(patient())?;
    let host = region(&port, LEN, 1)?;
    // What the CPU sees of it, whichever way the card goes.
    let seen = GpuMapping::new(GPU_BASE, BYTES)?;
    let buffer = Place::DmaBuf(DmaBuf::from(exported()?));
    through(&port, &host, &seen, Span { address: AT as u64, len: LEN, place: buffer.clone() }, 2)?;
    let mapping = GpuMapping::new(GPU_BASE + AT as u64, LEN)?;
    check(
        mapping.len() == LEN && mapping.as_ptr() as usize % 4096 == AT % 4096,
        "a mapping begins where it is asked to",
    )?;
    let mapped = Span { address: mapping.as_ptr() as u64, len: LEN, place: Place::Host };
    through(&port, &host, &seen, mapped, 3)?;
    let beyond = Span { address: AT as u64, len: BYTES, place: buffer };
    // SAFETY: it is refused.
    let refused = unsafe { port.device().register(beyond, Access::ALL) };
    check(
        matches!(refused, Err(DeviceError::BadSpan { .. })),
        format!("beyond a buffer's end: {refused:?}"),
    )?;
    let nowhere = GpuMapping::new(0x1000, 8);
    check(matches!(nowhere, Err(DeviceError::BadSpan { .. })), format!("no GPU memory: {nowhere:?}"))
}

/// Puts to the GPU memory and gets from it.
fn through(port: &Port, host: &Region, seen: &GpuMapping, span: Span, seed: u8) -> Outcome {
    // SAFETY: the GPU stand-in's memory outlives the region.
    let nla = unsafe { port.device().register(span, Access::ALL)? };
    let this = port.connect(port.address());
    host.write(0, &pattern(LEN, seed))?;
    this.put(host, 0, LEN, nla, Spec::COMPLETER)?;
    check(port.wait(SOON)?.error().is_empty(), "a put to GPU memory")?;
    // SAFETY: inside the mapping; the card has written.
    let there: Vec<u8> = (0..LEN).map(|i| unsafe { seen.as_ptr().add(AT + i).read_volatile() }).collect();
    check(there == pattern(LEN, seed), "what is in GPU memory")?;
    host.write(0, &vec![0; LEN])?;
    this.get(host, 0, LEN, nla, Spec::COMPLETER)?;
    check(port.wait(SOON)?.error().is_empty(), "a get from GPU memory")?;
    holds(host, 0, &pattern(LEN, seed))?;
    port.device().unregister(nla)?;
    Ok(())
}
