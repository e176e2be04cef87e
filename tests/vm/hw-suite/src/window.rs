//! Windows of the card's SMFU, whose parts are GPU memory that gpumap mapped.

use std::error::Error;
use std::time::Instant;

use ggas_device::hw::GpuMapping;
use ggas_device::{Place, SmfuMap, SmfuWindow, Span};
use ggas_rma::{Connection, Node, Port};

use crate::meet::sync;
use crate::{Outcome, SOON, check, part, pattern};

/// Bytes of a part.
const PART: usize = 2 << 16;
/// "GPU address" of the stand-in's first byte (kmod/uapi/gpumap/stub.h).
pub const GPU_BASE: u64 = 0x7000_0000_0000;

/// GPU memory in this process.
struct GpuMemory(GpuMapping);

impl GpuMemory {
    fn map() -> Result<GpuMemory, Box<dyn Error>> {
        Ok(GpuMemory(GpuMapping::new(GPU_BASE, PART)?))
    }

    fn write(&self, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate().take(PART) {
            // SAFETY: inside the mapping.
            unsafe { self.0.as_ptr().add(i).write_volatile(*byte) };
        }
    }

    fn read(&self) -> Vec<u8> {
        // SAFETY: inside the mapping.
        (0..PART).map(|i| unsafe { self.0.as_ptr().add(i).read_volatile() }).collect()
    }

    /// Waits until it holds these bytes, and nothing else.
    fn holds(&self, wanted: &[u8]) -> Outcome {
        let end = Instant::now() + SOON;
        loop {
            let found = self.read();
            let Some(at) = found.iter().zip(wanted).position(|(found, wanted)| found != wanted) else {
                return Ok(());
            };
            if Instant::now() > end {
                let (found, wanted) = (found[at], wanted[at]);
                return Err(format!("byte {at} of the part is {found:#x}, not {wanted:#x}").into());
            }
        }
    }
}

/// A window of `nodes`; this one's part is `memory`.
fn window(node: &Node, nodes: &[u16], memory: &GpuMemory) -> Result<Box<dyn SmfuWindow>, Box<dyn Error>> {
    let local = Span { address: memory.0.as_ptr() as u64, len: PART, place: Place::Host };
    let bytes = PART as u64;
    let map = SmfuMap {
        nodes: nodes.to_vec(),
        stride: 2 * bytes,
        part_bytes: bytes,
        local: Some(local),
        uncached: false,
        window: None,
    };
    // SAFETY: callers drop the window before the memory.
    Ok(unsafe { node.device().map_smfu(&map)? })
}

/// Where a part is stored to: at its ends and inside.
const STORES: [(usize, usize); 5] = [(0, 8), (13, 3), (4096, 100), (70_001, 30), (PART - 9, 9)];

/// Stores to a part.
fn stores(window: &dyn SmfuWindow, part: usize) -> Outcome {
    for (at, len) in STORES {
        window.store((part * 2 * PART + at) as u64, &pattern(len, at as u8))?;
    }
    Ok(())
}

/// What a part holds after that, whatever node it belongs to.
fn stored(mut bytes: Vec<u8>) -> Vec<u8> {
    for (at, len) in STORES {
        bytes[at..at + len].copy_from_slice(&pattern(len, at as u8));
    }
    bytes
}

/// Loads from a few places of a part, which holds `wanted`.
fn loads(window: &dyn SmfuWindow, part: usize, wanted: &[u8]) -> Outcome {
    for (at, len) in [(0, 8), (5, 20), (4090, 30), (PART - 11, 11)] {
        let mut found = vec![0; len];
        window.load((part * 2 * PART + at) as u64, &mut found, SOON)?;
        check(found == wanted[at..at + len], format!("{len} bytes at {at} are others"))?;
    }
    Ok(())
}

/// Loads and stores of the own part go by the unit too.
pub fn alone(node: &Node) -> Outcome {
    let memory = GpuMemory::map()?;
    memory.write(&pattern(PART, 1));
    let window = window(node, &[node.id()], &memory)?;
    stores(&*window, 0)?;
    let wanted = stored(pattern(PART, 1));
    memory.holds(&wanted)?;
    loads(&*window, 0, &wanted)
}

/// Each machine stores to the other one's memory, which sees exactly that, and loads what is there.
pub fn across(node: &Node, port: &Port, there: &Connection) -> Outcome {
    let (own, peer) = (node.id(), there.remote().node);
    let nodes = [own.min(peer), own.max(peer)];
    let far = usize::from(peer > own);
    let memory = GpuMemory::map()?;
    memory.write(&pattern(PART, own as u8));
    let window = window(node, &nodes, &memory)?;
    sync(port, there, 70)?;
    part("stores through the window", || {
        stores(&*window, far)?;
        memory.holds(&stored(pattern(PART, own as u8)))?;
        sync(port, there, 71)
    })?;
    part("loads through the window", || loads(&*window, far, &stored(pattern(PART, peer as u8))))?;
    sync(port, there, 72)
}
