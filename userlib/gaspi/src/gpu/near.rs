//! Segments that this process's kernels and copy engines reach by address: its own, and those of others that it maps.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Begun, Gpus, Memory};
use crate::GaspiError;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::wire::{Ask, Message, Place};

/// A segment by its addresses.
#[derive(Debug)]
pub(crate) struct Near {
    pub data: u64,
    pub bytes: u64,
    pub flags: u64,
    /// The program asked for GPU memory.
    pub is_gpu: bool,
    /// Its memory.
    kept: Kept,
}

/// What has to stay as long as the segment is used.
#[derive(Debug)]
enum Kept {
    Own { _segment: Arc<Segment> },
    Other { _memory: Vec<Memory> },
}

/// By rank and id, and those that wait for this process to initialise its GPUs.
#[derive(Debug, Default)]
pub(crate) struct Nears {
    known: HashMap<(usize, u8), Arc<Near>>,
    waiting: HashMap<(usize, u8), (Place, Vec<OwnedFd>)>,
}

impl Near {
    /// Of this process.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.kept, Kept::Own { .. })
    }
}

impl Gpus {
    pub(crate) fn near(&self, rank: usize, id: u8) -> Option<Arc<Near>> {
        self.begun()?;
        self.nears().known.get(&(rank, id)).cloned()
    }

    /// A segment of this process that was passed on, or `None`.
    pub(crate) fn own(&self, me: usize, id: u8, segment: Option<&Arc<Segment>>) -> Result<(), GaspiError> {
        let Some(begun) = self.begun() else { return Ok(()) };
        let near = segment.and_then(|segment| {
            let told = segment.told()?;
            let (data, flags) = segment.addresses()?;
            Some(Near {
                data,
                bytes: segment.data.len() as u64,
                flags,
                is_gpu: told.is_gpu,
                kept: Kept::Own { _segment: segment.clone() },
            })
        });
        self.set(begun, (me, id), near)
    }

    fn set(&self, begun: &Begun, key: (usize, u8), near: Option<Near>) -> Result<(), GaspiError> {
        let mut nears = self.nears_mut();
        nears.waiting.remove(&key);
        if near.is_none() && !nears.known.contains_key(&key) {
            return Ok(());
        }
        begun.show(key.0, key.1, near.as_ref())?;
        // Copies to the former one are over before it goes.
        begun.settle_all();
        match near {
            Some(near) => nears.known.insert(key, Arc::new(near)),
            None => nears.known.remove(&key),
        };
        Ok(())
    }

    /// A rank has told of a segment, with descriptors where it passes it on. One that cannot be mapped is reached through the
    /// card.
    pub(crate) fn told(&self, rank: usize, id: u8, place: Place, fds: Vec<OwnedFd>) {
        let done = match self.begun() {
            Some(begun) => self.set(begun, (rank, id), map(begun, place, fds)),
            None => {
                let mut nears = self.nears_mut();
                nears.waiting.remove(&(rank, id));
                if !fds.is_empty() {
                    nears.waiting.insert((rank, id), (place, fds));
                }
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!("kernels are not told of segment {id} of rank {rank}: {error}");
        }
    }

    /// Maps what others told of before this process initialised its GPUs.
    pub(super) fn catch_up(&self) {
        let waiting = std::mem::take(&mut self.nears_mut().waiting);
        for ((rank, id), (place, fds)) in waiting {
            self.told(rank, id, place, fds);
        }
    }
}

fn map(begun: &Begun, place: Place, fds: Vec<OwnedFd>) -> Option<Near> {
    let told = place.told?;
    let mut fds = fds.into_iter();
    let mut received = |bytes: u64, on_device| {
        let fd = fds.next()?;
        let memory = Memory::received(&begun.processor, fd, bytes as usize, on_device);
        memory.inspect_err(|error| tracing::info!("a segment goes through the card: {error}")).ok()
    };
    let data = received(told.bytes, told.on_device)?;
    let (flags, kept) = match told.flags_at {
        Some(at) => (data.address() + at, None),
        None => {
            let flags = received(told.flag_bytes, false)?;
            (flags.address(), Some(flags))
        }
    };
    let address = data.address();
    let kept = Kept::Other { _memory: std::iter::once(data).chain(kept).collect() };
    Some(Near { data: address, bytes: place.size, flags, is_gpu: told.is_gpu, kept })
}

impl Shared {
    /// Maps what came with a message.
    pub(crate) fn map_passed(&self, rank: usize, message: &Message, fds: Vec<OwnedFd>) {
        match message {
            Message::Ask { ask: Ask::Register { segment, place }, .. } => {
                self.gpu.told(rank, *segment, *place, fds);
            }
            Message::Arena { board } => self.stores.met(rank, *board, fds),
            _ => {}
        }
    }
}
