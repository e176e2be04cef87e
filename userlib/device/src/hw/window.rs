//! Windows of a card's SMFU (spec 6).

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use extoll_abi::bindings::{EXTOLL_MAP_WINDOW, EXTOLL_WINDOW_NODES, extoll_window_close, extoll_window_open};
use nix::errno::Errno;

use super::file::{CardFile, failed};
use super::map::Mapping;
use super::unit::flush_stores;
use crate::{DeviceError, SmfuMap, SmfuWindow};

/// An open window: its pages are the card's.
#[derive(Debug)]
struct Window {
    /// Given back before the window is closed.
    pages: Option<Mapping>,
    file: CardFile,
    node: u16,
    map: SmfuMap,
    /// One access at a time: words of one must not mix with words of another in a write-combining buffer.
    turn: Mutex<()>,
}

/// Takes the card's unit for `map`. This node's part must be a mapping of device memory (gpumap): the unit reaches
/// its target without translation, so the pages must lie in a row.
pub(super) fn open(file: CardFile, node: u16, map: &SmfuMap) -> Result<Box<dyn SmfuWindow>, DeviceError> {
    let refuse = |problem: String| DeviceError::Smfu { node, problem };
    let count = map.nodes.len();
    if count == 0 || count > EXTOLL_WINDOW_NODES as usize {
        return Err(refuse(format!("{count} parts; it has intervals for 1 to {EXTOLL_WINDOW_NODES}")));
    }
    let mut argument = extoll_window_open {
        count: count as u32,
        stride: map.stride,
        part_bytes: map.part_bytes,
        target_address: map.local.address,
        ..Default::default()
    };
    argument.nodes[..count].copy_from_slice(&map.nodes);
    file.window_open(&mut argument).map_err(|errno| match errno {
        Errno::EBUSY => refuse("another window uses it; drop that one first".to_owned()),
        Errno::EINVAL => refuse(format!(
            "{count} parts of {} bytes at a stride of {}: use multiples of 4096 that fit the window",
            map.part_bytes, map.stride
        )),
        Errno::EPERM | Errno::EFAULT => {
            refuse("this node's part is not device memory that gpumap mapped, in a row".to_owned())
        }
        errno => failed("opening a window", errno),
    })?;
    let bytes = (count as u64 - 1) * map.stride + map.part_bytes;
    let pages = Mapping::new(&file, EXTOLL_MAP_WINDOW + argument.window_offset, bytes as usize, "a window")?;
    Ok(Box::new(Window { pages: Some(pages), file, node, map: map.clone(), turn: Mutex::default() }))
}

impl Window {
    /// The bytes of an access that lies within one part.
    fn inside(&self, offset: u64, len: usize) -> Result<(&Mapping, Range<usize>), DeviceError> {
        let SmfuMap { nodes, stride, part_bytes, .. } = &self.map;
        let fits = offset / stride < nodes.len() as u64
            && (offset % stride).checked_add(len as u64).is_some_and(|end| end <= *part_bytes);
        match &self.pages {
            Some(pages) if fits => Ok((pages, offset as usize..offset as usize + len)),
            _ => {
                let problem = format!("outside of the window's {} parts of {part_bytes} bytes", nodes.len());
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
}

impl Drop for Window {
    fn drop(&mut self) {
        drop(self.pages.take());
        if let Err(errno) = self.file.window_close(&mut extoll_window_close::default()) {
            tracing::error!("closing a window: {}", failed("closing a window", errno));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_whole_words_and_single_bytes_at_its_ends() {
        let parts: Vec<_> = words(6..17).map(|part| (part.start, part.len())).collect();
        assert_eq!(parts, [(6, 1), (7, 1), (8, 8), (16, 1)]);
        assert_eq!(words(8..8).count(), 0);
        assert_eq!(words(0..7).count(), 7);
    }
}
