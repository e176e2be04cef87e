//! What is allocated, and what a pointer means.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ggas_gpu::Gpu;

use crate::address::{DeviceId, Owner, RANK_SHIFT, is_memory, owner};
use crate::context::Context;
use crate::device::{Device, Memory};
use crate::error::HpeError;
use crate::network::names::{self, Named, Names};
use crate::segment::{Room, Segment, is_reserved};
use crate::shared::object::Object;
use crate::shared::table;
use crate::spread::Spread;

/// Memory of a device alone, of a device and the host, or of several devices.
pub(crate) enum Kind {
    Plain(Memory, Arc<dyn Device>, Room),
    Shared(Arc<Object>),
    Spread(Arc<Spread>),
}

/// What one call allocated. It lives until it was freed and no copy uses it.
pub(crate) struct Allocation {
    pub len: usize,
    /// By which other processes have opened it: then the memory goes when they have closed it.
    named: OnceLock<Option<Named>>,
    pub kind: Kind,
}

impl Allocation {
    pub fn new(len: usize, kind: Kind) -> Allocation {
        Allocation { len, named: OnceLock::new(), kind }
    }

    /// Its name for other processes, if it can have one.
    pub fn named(&self, names: &Arc<Names>, gpu: &Gpu) -> Option<&Named> {
        self.named.get_or_init(|| names.give(gpu, self.inside())).as_ref()
    }

    /// Where the host says it begins.
    pub fn start(&self) -> u64 {
        match &self.kind {
            Kind::Plain(memory, ..) => memory.address,
            Kind::Shared(object) => object.start,
            Kind::Spread(object) => object.start(),
        }
    }

    /// The context of the one device that has it.
    fn index(&self, contexts: &[Context]) -> usize {
        let device = match &self.kind {
            Kind::Plain(_, _, room) => room.device(),
            // Told by its bits; the other by its offset.
            Kind::Shared(_) | Kind::Spread(_) => return 0,
        };
        contexts.iter().position(|context| context.id() == device).unwrap_or_default()
    }

    /// What its devices call the beginning.
    pub fn inside(&self) -> u64 {
        match &self.kind {
            Kind::Plain(memory, ..) => memory.inside,
            Kind::Shared(object) => object.memory.inside,
            Kind::Spread(object) => object.inside(),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let named = self.named.take().flatten();
        match &mut self.kind {
            Kind::Plain(memory, device, room) => {
                device.unmap(memory, room.size);
                if let (Some(named), Some(buffer)) = (named, memory.buffer.take()) {
                    named.free(buffer);
                }
            }
            // Copies may still use the object, which goes with the last of them.
            Kind::Shared(object) => table::remove(object),
            // The same.
            Kind::Spread(_) => {}
        }
    }
}

/// What bytes are, for a copy.
pub(crate) enum Place {
    /// Memory of the host.
    Host(u64),
    /// Memory of a device, at its own address. Kept while it is used, unless others allocated it.
    Device {
        /// Of its context.
        index: usize,
        address: u64,
        _kept: Option<Arc<Allocation>>,
    },
    /// Bytes of a shared object from an offset.
    Shared(Arc<Object>, usize),
    /// Bytes of a distributed object from an offset.
    Spread(Arc<Spread>, usize),
    /// Memory of another rank, as that one calls it.
    Remote { rank: u32, address: u64 },
}

impl Place {
    /// The place so many bytes further on, within what it was checked for.
    pub fn behind(&self, bytes: usize) -> Place {
        match self {
            Place::Host(address) => Place::Host(address + bytes as u64),
            Place::Device { index, address, _kept } => {
                Place::Device { index: *index, address: address + bytes as u64, _kept: _kept.clone() }
            }
            Place::Shared(object, offset) => Place::Shared(object.clone(), offset + bytes),
            Place::Spread(object, offset) => Place::Spread(object.clone(), offset + bytes),
            Place::Remote { rank, address } => Place::Remote { rank: *rank, address: address + bytes as u64 },
        }
    }
}

#[derive(Default)]
pub(crate) struct Objects {
    all: RwLock<BTreeMap<u64, Arc<Allocation>>>,
    /// Of distributed objects of the executor's devices; reserved for the first of them.
    spread: OnceLock<Arc<Segment>>,
}

impl Objects {
    pub fn insert(&self, allocation: Allocation) -> u64 {
        let start = allocation.start();
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(start, Arc::new(allocation));
        start
    }

    /// Takes an allocation out. Copies that use it keep it until they end.
    pub fn remove(&self, start: u64) -> Result<Arc<Allocation>, HpeError> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(Kind::Shared(object)) = all.get(&start).map(|allocation| &allocation.kind)
            && object.is_launched()
        {
            return Err(HpeError::InUse { address: start });
        }
        let removed = all.remove(&start).ok_or(HpeError::NotAllocated { address: start })?;
        if let Kind::Shared(object) = &removed.kind {
            object.freed.store(true, Ordering::Release);
        }
        removed.named.get().into_iter().flatten().for_each(Named::take_back);
        Ok(removed)
    }

    /// The segment of distributed objects.
    pub fn spread_segment(&self) -> Result<&Arc<Segment>, HpeError> {
        if self.spread.get().is_none() {
            let segment = Arc::new(Segment::reserve()?);
            // Another thread may have been quicker: then this one goes back.
            let _ = self.spread.set(segment);
        }
        self.spread.get().ok_or(HpeError::Devices { asked: 1, free: 0 })
    }

    /// Whether a segment is that of distributed objects.
    fn are_spread_in(&self, device: DeviceId) -> bool {
        self.spread.get().is_some_and(|segment| segment.device() == device)
    }

    /// The context of the device that has a byte of a distributed object.
    pub fn owner_of_part(&self, address: u64) -> Option<usize> {
        match &self.at(address)?.kind {
            Kind::Spread(object) => object.owner((address - object.start()) as usize),
            _ => None,
        }
    }

    /// Frees all.
    pub fn clear(&mut self) {
        drop(std::mem::take(self.all.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }

    /// The allocation that an address lies in.
    pub fn at(&self, address: u64) -> Option<Arc<Allocation>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let (start, found) = all.range(..=address).next_back()?;
        (address - start < found.len.max(1) as u64).then(|| found.clone())
    }

    /// What `len` bytes at `address` are.
    pub fn place(&self, address: u64, len: usize, contexts: &[Context]) -> Result<Place, HpeError> {
        if address == 0 || address >> RANK_SHIFT != 0 || address.checked_add(len as u64).is_none() {
            return Err(HpeError::NoMemory { address, len });
        }
        match owner(address) {
            Owner::Device(device, _) if is_reserved(device) => {
                let index = contexts.iter().position(|context| context.id() == device);
                if index.is_none() && !self.are_spread_in(device) {
                    return Err(HpeError::NoDevice { device, count: contexts.len() });
                }
                let device = index.map(|_| device);
                let found = self.at(address).ok_or(HpeError::Unknown { address, device })?;
                within(address, len, index.unwrap_or_default(), found)
            }
            _ if !has_gpu(contexts) => Ok(Place::Host(address)),
            // What was allocated here is known without the driver, whose answer takes longer.
            _ => match self.at(address) {
                Some(found) => within(address, len, found.index(contexts), found),
                None => match of_gpu(address, contexts) {
                    // What was freed on a GPU is not told from the host's by its bits, and a read of it would end the process.
                    None if is_memory(address) == Some(false) => Err(HpeError::NoMemory { address, len }),
                    None => Ok(Place::Host(address)),
                    Some(_) if names::was_freed(address) => Err(HpeError::NoMemory { address, len }),
                    // Others allocated it.
                    Some(index) => Ok(Place::Device { index, address, _kept: None }),
                },
            },
        }
    }
}

/// The context of the GPU that holds an address, as CUDA's driver says, who is asked only where there are GPUs.
pub(crate) fn of_gpu(address: u64, contexts: &[Context]) -> Option<usize> {
    has_gpu(contexts).then_some(())?;
    let holder = Gpu::holder(address)?;
    contexts.iter().position(|context| context.device.gpu().is_some_and(|gpu| gpu.ordinal() == holder))
}

fn has_gpu(contexts: &[Context]) -> bool {
    contexts.iter().any(|context| context.device.gpu().is_some())
}

/// Checks the bounds of a range that begins in an allocation.
fn within(address: u64, len: usize, index: usize, found: Arc<Allocation>) -> Result<Place, HpeError> {
    let offset = (address - found.start()) as usize;
    let left = found.len.max(1) - offset;
    if len > left {
        return Err(HpeError::AcrossObjects { address, len, left });
    }
    let inside = match &found.kind {
        Kind::Shared(object) => return Ok(Place::Shared(object.clone(), offset)),
        Kind::Spread(object) => return Ok(Place::Spread(object.clone(), offset)),
        Kind::Plain(memory, ..) => memory.inside,
    };
    Ok(Place::Device { index, address: inside + offset as u64, _kept: Some(found) })
}
