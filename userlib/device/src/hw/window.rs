//! Windows of a card's SMFU (spec 6).

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use extoll_abi::Atomic;
use extoll_abi::bindings::{
    EXTOLL_MAP_TARGET, EXTOLL_MAP_WINDOW, EXTOLL_WINDOW_MASK, EXTOLL_WINDOW_NODES, EXTOLL_WINDOW_UNCACHED,
    extoll_window_close, extoll_window_open,
};
use nix::errno::Errno;

use super::GpuMapping;
use super::file::{CardFile, failed};
use super::map::Mapping;
use super::unit::flush_stores;
use crate::{DeviceError, Place, SmfuMap, SmfuWindow};

/// An open window: its pages are the card's.
#[derive(Debug)]
struct Window {
    /// Given back before the window is closed.
    pages: Option<Mapping>,
    /// This node's part in the driver's memory.
    own: Option<Mapping>,
    file: CardFile,
    /// This node's part in GPU memory.
    _gpu: Option<GpuMapping>,
    node: u16,
    map: SmfuMap,
    /// One access at a time: words of one must not mix with words of another in a write-combining buffer.
    turn: Mutex<()>,
}

/// Takes the card's unit for `map`. The unit reaches its target without translation, so this node's part must lie in a
/// row as the card sees it: memory of the driver, or device memory (gpumap).
pub(super) fn open(file: CardFile, node: u16, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let gpu = match &map.local {
        Some(span) if matches!(span.place, Place::Gpu(_)) => Some(GpuMapping::new(span.address, span.len)?),
        _ => None,
    };
    let local = map.local.as_ref().map_or(0, |span| span.address);
    let local = gpu.as_ref().map_or(local, |mapping| mapping.as_ptr() as u64);
    let mut argument = argument(node, map, local)?;
    file.window_open(&mut argument).map_err(|errno| refused(errno, node, map, &file))?;
    // From here on dropping it closes the window.
    let turn = Mutex::default();
    let mut window = Window { pages: None, own: None, file, _gpu: gpu, node, map: map.clone(), turn };
    let offset = EXTOLL_MAP_WINDOW + argument.window_offset;
    window.pages = Some(Mapping::new(&window.file, offset, map.bytes() as usize, "a window")?);
    if map.local.is_none() {
        let bytes = map.part_bytes as usize;
        window.own = Some(Mapping::new(&window.file, EXTOLL_MAP_TARGET, bytes, "a window's part")?);
    }
    Ok(Box::new(window))
}

/// Nodes by intervals as long as there are some for all, then by address bits.
fn argument(node: u16, map: &SmfuMap, local: u64) -> Result<extoll_window_open, DeviceError> {
    let count = map.nodes.len();
    let mut ids = map.nodes.clone();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        let id = pair[0];
        let problem =
            format!("node {id} has several parts, and its driver has memory for one: use --per-node 1");
        return Err(DeviceError::Smfu { node, problem });
    }
    let by_mask = count > EXTOLL_WINDOW_NODES as usize;
    if count == 0 || by_mask && !map.fits_mask() {
        let problem = format!(
            "{count} parts; it has intervals for {EXTOLL_WINDOW_NODES}, and more need consecutive node ids and parts \
             of a power of two of bytes"
        );
        return Err(DeviceError::Smfu { node, problem });
    }
    let mut argument = extoll_window_open {
        count: count as u32,
        stride: map.stride,
        part_bytes: map.part_bytes,
        target_address: local,
        ..Default::default()
    };
    let named = if by_mask { 1 } else { count };
    argument.nodes[..named].copy_from_slice(&map.nodes[..named]);
    for (flag, wanted) in [(EXTOLL_WINDOW_UNCACHED, map.uncached), (EXTOLL_WINDOW_MASK, by_mask)] {
        argument.flags |= if wanted { flag as u32 } else { 0 };
    }
    Ok(argument)
}

fn refused(errno: Errno, node: u16, map: &SmfuMap, file: &CardFile) -> DeviceError {
    let problem = match errno {
        Errno::EBUSY => "another window uses it; drop that one first".to_owned(),
        Errno::EINVAL => {
            let SmfuMap { nodes, stride, part_bytes, .. } = map;
            let (room, most) = file.info().map_or((0, 0), |info| (info.window_bytes, info.target_bytes));
            let parts = nodes.len();
            format!(
                "{parts} parts of {part_bytes} bytes at a stride of {stride}: use multiples of 4096, together at most \
                 {room} bytes, and in host memory at most {most} each"
            )
        }
        Errno::EOPNOTSUPP => {
            "the card has no window (BAR 2), or the driver no memory for its target".to_owned()
        }
        Errno::EPERM => "longer parts than every node has memory for need CAP_SYS_RAWIO".to_owned(),
        Errno::EFAULT => "this node's part is not device memory that gpumap mapped".to_owned(),
        Errno::EREMOTEIO => {
            "the card has no way to this node's part: put card and GPU behind one switch".to_owned()
        }
        errno => return failed("opening a window", errno),
    };
    DeviceError::Smfu { node, problem }
}

impl Window {
    fn no_atomics(&self, offset: u64, atomic: Atomic) -> DeviceError {
        let problem =
            "a card has no atomics on other nodes' memory; use loads and stores, or locks of RMA".to_owned();
        DeviceError::SmfuAccess { node: self.node, offset, len: atomic.width().bytes(), problem }
    }

    /// The bytes of an access that lies within one part.
    fn inside(&self, offset: u64, len: usize) -> Result<(&Mapping, Range<usize>), DeviceError> {
        match &self.pages {
            Some(pages) if self.map.has(offset, len) => Ok((pages, offset as usize..offset as usize + len)),
            _ => {
                let (parts, bytes) = (self.map.nodes.len(), self.map.part_bytes);
                let problem = format!("outside of the window's {parts} parts of {bytes} bytes");
                Err(DeviceError::SmfuAccess { node: self.node, offset, len, problem })
            }
        }
    }
}

/// Splits a range into single bytes and aligned words of 8 bytes.
fn words(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let step = if at.is_multiple_of(8) && at + 8 <= range.end { 8 } else { 1 };
        let part = (at < range.end).then(|| at..at + step);
        at += step;
        part
    })
}

impl SmfuWindow for Window {
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), DeviceError> {
        let (pages, range) = self.inside(offset, from.len())?;
        let start = range.start;
        let _turn = self.turn.lock();
        for part in words(range) {
            let bytes = &from[part.start - start..part.end - start];
            match bytes.try_into().map(u64::from_ne_bytes) {
                // SAFETY: memory of the window's nodes takes any value.
                Ok(word) => unsafe { pages.register(part.start).write(word) },
                // SAFETY: as above.
                Err(_) => unsafe { pages.register(part.start).write(bytes[0]) },
            }
        }
        flush_stores();
        Ok(())
    }

    fn load(&self, offset: u64, into: &mut [u8], _timeout: Duration) -> Result<(), DeviceError> {
        let (pages, range) = self.inside(offset, into.len())?;
        let start = range.start;
        let _turn = self.turn.lock();
        for part in words(range) {
            let bytes = &mut into[part.start - start..part.end - start];
            if bytes.len() == 8 {
                bytes.copy_from_slice(&pages.register::<u64>(part.start).read().to_ne_bytes());
            } else {
                bytes[0] = pages.register(part.start).read();
            }
        }
        Ok(())
    }

    fn atomics(&self) -> bool {
        false
    }

    fn atomic(&self, offset: u64, atomic: Atomic, _timeout: Duration) -> Result<u64, DeviceError> {
        Err(self.no_atomics(offset, atomic))
    }

    fn reduce(&self, offset: u64, atomic: Atomic) -> Result<(), DeviceError> {
        Err(self.no_atomics(offset, atomic))
    }

    fn pages(&self) -> Option<NonNull<u8>> {
        self.pages.as_ref().map(|pages| pages.at(0))
    }

    fn own(&self) -> Option<NonNull<u8>> {
        self.own.as_ref().map(|own| own.at(0))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        drop((self.pages.take(), self.own.take()));
        if let Err(errno) = self.file.window_close(&mut extoll_window_close::default()) {
            tracing::error!("closing a window: {}", failed("closing a window", errno));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_one_part() {
        let map = |nodes: &[u16]| SmfuMap {
            nodes: nodes.to_vec(),
            stride: 4096,
            part_bytes: 4096,
            local: None,
            uncached: false,
            window: None,
        };
        assert_eq!(argument(0, &map(&[2, 0, 1]), 0).unwrap().count, 3);
        let refused = argument(0, &map(&[1, 0, 1]), 0).unwrap_err();
        assert!(refused.to_string().contains("node 1 has several parts"), "{refused}");
    }

    #[test]
    fn an_access_is_whole_words_and_single_bytes_at_its_ends() {
        let parts: Vec<_> = words(6..17).map(|part| (part.start, part.len())).collect();
        assert_eq!(parts, [(6, 1), (7, 1), (8, 8), (16, 1)]);
        assert_eq!(words(8..8).count(), 0);
        assert_eq!(words(0..7).count(), 7);
    }
}
