//! Copies between ranks of a host whose GPUs reach each other: by the copy engine, from and to memory that a handle of CUDA opened.
//!
//! What was opened is kept, one for each allocation and GPU of this rank, until its owner takes the name back (`names.rs`). What has no
//! name, or cannot be opened, goes by the network, as does all between hosts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ggas_gpu::{IpcMemory, IpcName};

use super::names::{Held, Said, Table};
use super::{Network, Shared};
use crate::address::{Owner, owner};
use crate::context::Context;
use crate::copy::Copier;
use crate::error::HpeError;
use crate::objects::Place;

/// Copies of memory without a name before its owner is asked again.
const AGAIN: u32 = 256;

/// Rank, context of this rank's GPU, where it begins.
type Key = (u32, usize, u64);

/// An allocation of another rank.
pub(crate) struct Opened {
    len: u64,
    slot: u64,
    /// 0 of what has no name.
    id: u64,
    /// Where it begins for this rank's GPU; `None` where it has no name or cannot be opened.
    memory: Option<(u64, IpcMemory)>,
    /// Has its owner keep it meanwhile.
    held: Option<Held>,
    /// Copies until the owner is asked again, of what has no name.
    left: AtomicU32,
}

/// What owners keep until the driver has closed it here, which it does later where a kernel runs.
static CLOSING: Mutex<Vec<Held>> = Mutex::new(Vec::new());

impl Drop for Opened {
    fn drop(&mut self) {
        drop(self.memory.take());
        let mut closing = CLOSING.lock().unwrap_or_else(PoisonError::into_inner);
        closing.extend(self.held.take());
        if ggas_gpu::deferred_calls() == 0 {
            closing.clear();
        }
    }
}

/// The memory of other ranks that this one has asked for.
#[derive(Default)]
pub(crate) struct Handles(Mutex<BTreeMap<Key, Arc<Opened>>>);

impl Opened {
    /// Whether what was said of it still holds.
    fn holds(&self, table: &Table) -> bool {
        match self.id {
            0 => self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok(),
            id => table.holds(self.slot, id),
        }
    }

    fn holds_bytes(&self, start: u64, address: u64, len: usize) -> bool {
        self.len.checked_sub(len as u64).is_some_and(|room| address - start <= room)
    }
}

impl Handles {
    /// What holds these bytes, and where it begins, if that was asked for and still holds.
    fn find(
        &self,
        table: &Table,
        (rank, index): (u32, usize),
        (address, len): (u64, usize),
    ) -> Option<(u64, Arc<Opened>)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.range((rank, index, 0)..=(rank, index, address)).next_back();
        let (key, opened) = before.map(|(key, opened)| (*key, opened.clone()))?;
        if !opened.holds_bytes(key.2, address, len) {
            return None;
        }
        if opened.holds(table) {
            return Some((key.2, opened));
        }
        // What its owner freed is closed: given away anew, it does not open as long as it is open here.
        all.remove(&key);
        all.retain(|(other, ..), opened| {
            *other != rank || opened.id == 0 || table.holds(opened.slot, opened.id)
        });
        None
    }

    /// In place of what was there before.
    fn keep(&self, (rank, index, start): Key, opened: Arc<Opened>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = start + opened.len;
        all.retain(|(other, of, from), old| {
            (*other, *of) != (rank, index) || *from >= end || from + old.len <= start
        });
        all.insert((rank, index, start), opened);
    }
}

/// One side of a copy, and what was opened for it.
type Side = (Place, Option<Arc<Opened>>);

/// A copy as a GPU of this rank makes it.
pub(super) struct Reached {
    pub dst: Place,
    pub src: Place,
    /// What was opened for it.
    _opened: [Option<Arc<Opened>>; 2],
}

impl Network {
    /// Both sides of a copy as a GPU of this rank reaches them; `None` where it does not.
    pub(super) fn by_handles(
        &self,
        copier: &Copier<'_>,
        (dst, src): (&Place, &Place),
        len: usize,
    ) -> Result<Option<Reached>, HpeError> {
        let Some(index) = opener(copier, dst, src).filter(|_| copier.peers) else { return Ok(None) };
        let side = |place: &Place| match *place {
            Place::Remote { rank, address } => self.reached(copier, index, (rank, address), len),
            _ => Ok(Some((place.behind(0), None))),
        };
        let (Some((dst, to)), Some((src, from))) = (side(dst)?, side(src)?) else { return Ok(None) };
        Ok(Some(Reached { dst, src, _opened: [to, from] }))
    }

    /// Memory of another rank, as a GPU of this one reaches it.
    fn reached(
        &self,
        copier: &Copier<'_>,
        index: usize,
        (rank, address): (u32, u64),
        len: usize,
    ) -> Result<Option<Side>, HpeError> {
        let peer = self.shared.peer(rank)?;
        // In segments are shared objects, and memory of the executor.
        let Some(table) = peer.table.as_ref().filter(|_| owner(address) == Owner::Host) else {
            return Ok(None);
        };
        // What a rank that ended has named stays open here.
        if self.shared.is_lost(peer) {
            return Err(HpeError::PeerLost { rank });
        }
        let found = match self.handles.find(table, (rank, index), (address, len)) {
            Some(found) => Some(found),
            None => self.open(copier, (table, index), (rank, address), len)?,
        };
        let reached = found.and_then(|(start, opened)| {
            let (base, _) = opened.memory.as_ref()?;
            let address = base + (address - start);
            Some((Place::Device { index, address, _kept: None }, Some(opened)))
        });
        Ok(reached)
    }

    /// Asks for what holds these bytes, and opens it. `None`, too, for what the network has to refuse.
    fn open(
        &self,
        copier: &Copier<'_>,
        (table, index): (&Arc<Table>, usize),
        (rank, address): (u32, u64),
        len: usize,
    ) -> Result<Option<(u64, Arc<Opened>)>, HpeError> {
        let said: Said = match self.said(copier, (rank, address), len) {
            Err(HpeError::Refused { .. }) => return Ok(None),
            said => said?,
        };
        let [start, bytes, slot, id, ..] = said;
        let mut words = [0; IpcName::WORDS];
        words.copy_from_slice(&said[4..]);
        let name = IpcName::from_words(words);
        // Its owner keeps it until it was closed here.
        let held = table.hold(slot, id);
        let gpu = copier.contexts[index].device.gpu().filter(|_| held.is_some());
        let memory = gpu.and_then(|gpu| gpu.open_ipc(&name).ok());
        let memory = memory.and_then(|memory| Some((memory.address_of(&name)?, memory)));
        let held = held.filter(|_| memory.is_some());
        let opened = Arc::new(Opened { len: bytes, slot, id, memory, held, left: AtomicU32::new(AGAIN) });
        if !(start <= address && opened.holds_bytes(start, address, len)) {
            return Ok(None);
        }
        self.handles.keep((rank, index, start), opened.clone());
        Ok(Some((start, opened)))
    }
}

/// The context of the GPU that copies: of the device at this rank, or the first one where the host's memory is. `None` where the network has
/// to.
fn opener(copier: &Copier<'_>, dst: &Place, src: &Place) -> Option<usize> {
    let is_gpu = |context: &Context| context.device.gpu().is_some();
    let local = match (dst, src) {
        (Place::Remote { .. }, local) | (local, _) => local,
    };
    match local {
        Place::Device { index, .. } => Some(*index).filter(|index| is_gpu(&copier.contexts[*index])),
        Place::Host(_) | Place::Shared(..) | Place::Remote { .. } => copier.contexts.iter().position(is_gpu),
        Place::Spread(..) => None,
    }
}

impl Shared {
    /// Whether a rank has ended.
    fn is_lost(&self, peer: &super::Peer) -> bool {
        self.port.device().lost_peer(peer.address.node, Some(peer.address.vpid)).is_some()
    }
}
