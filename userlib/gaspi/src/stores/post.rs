//! The post of a request by stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ggas::Spec;

use super::There;
use super::board::Visit;
use super::copy::copy;
use crate::ledger::Ledger;
use crate::request::{Checked, End};
use crate::segment::{FLAG, Segment, Words};
use crate::shared::{Link, Shared};

/// Bytes of a request that is carried out by stores. What is longer goes through the card, whose work does not hold up the
/// poster.
const STORES_MAX: u64 = 4096;

/// Bytes of a notification.
const WORD: u64 = 8;

/// The remote side of a part, or of a notification.
pub(crate) enum Target {
    /// Of this process.
    Own(Arc<Segment>),
    Other(Arc<There>),
}

impl Target {
    /// Bytes from an offset on, for host memory that has so many: the segment may be a later one than that whose size was asked.
    fn data(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let (base, size) = match self {
            Target::Own(segment) => (segment.host_address()?, segment.data.len() as u64),
            Target::Other(there) => (there.data.base(), there.data.len() as u64),
        };
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
        is_inside.then(|| base.wrapping_add(offset as usize))
    }

    fn is_other(&self) -> Option<&There> {
        match self {
            Target::Own(_) => None,
            Target::Other(there) => Some(there),
        }
    }

    /// Sets a notification, whose id was checked.
    fn tell(&self, id: u32, value: u32) {
        let at = id as usize * FLAG as usize;
        match self {
            Target::Own(segment) => {
                if let Words::Own(words) = &segment.words {
                    words.word(at).store(value.into(), Ordering::Release);
                }
            }
            Target::Other(there) => {
                // SAFETY: an atomic, which is inside since the id was checked.
                let word: &AtomicU64 = unsafe { there.flags.at(at) };
                word.store(value.into(), Ordering::Release);
            }
        }
    }

    fn has_flags(&self) -> bool {
        match self {
            Target::Own(segment) => matches!(segment.words, Words::Own(_)),
            Target::Other(_) => true,
        }
    }
}

/// A part by its addresses.
struct Piece {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

impl Shared {
    /// The segment of a rank where this process can store to it.
    #[inline]
    pub(crate) fn target(&self, rank: usize, id: u8) -> Option<Target> {
        if rank == self.me {
            return self.segments.get(id).ok().map(Target::Own);
        }
        self.segments.there(rank, id).map(Target::Other)
    }

    /// Carries a write out, and what it tells behind it; `false`: it has to go through the card. With the ledger's lock: a
    /// process makes one visit at a time.
    pub(crate) fn store(
        &self,
        ledger: &mut Ledger,
        rank: usize,
        parts: &[Checked],
        end: Option<&End<'_>>,
    ) -> bool {
        if !is_short(parts) || self.has_departed(rank) {
            return false;
        }
        if ledger.order(rank).is_probed() {
            self.take_notifications(ledger);
        }
        if !ledger.order(rank).is_settled() {
            return false;
        }
        let notice = match end {
            None => None,
            Some(End::Tell { value, id, target: Some(target), .. }) if target.has_flags() => {
                Some((target, *id, *value))
            }
            Some(_) => return false,
        };
        let filled = || parts.iter().filter(|part| part.bytes > 0);
        if !filled().all(|part| part.piece().is_some()) {
            return false;
        }
        let targets = filled().filter_map(|part| part.target.as_ref()).chain(notice.map(|notice| notice.0));
        let mut visit = None;
        for there in targets.filter_map(Target::is_other) {
            let visit = visit
                .get_or_insert_with(|| Visit::new(&there.board, there.id.into(), (self.me, self.size())));
            if !visit.finds(there.id.into(), there.life) {
                return false;
            }
        }
        for Piece { from, to, bytes } in filled().filter_map(Checked::piece) {
            // SAFETY: both ranges were checked, and are of segments that are there: of this process as long as the request
            // has them, of the other one as long as the visit lasts.
            unsafe { copy(from, to, bytes) };
        }
        if let Some((target, id, value)) = notice {
            target.tell(id, value);
        }
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        self.moved(rank, bytes + if notice.is_some() { WORD } else { 0 }, false);
        true
    }

    /// A request has gone through the card. A get behind short ones finds out when stores may follow.
    pub(crate) fn went_through_card(
        &self,
        ledger: &mut Ledger,
        rank: usize,
        parts: &[Checked],
        end: Option<&End<'_>>,
    ) {
        let is_told = !matches!(end, Some(End::Tell { target: None, .. } | End::Fetch { .. }));
        let could_store = is_told && is_short(parts) && parts.iter().all(|part| part.piece().is_some());
        if !ledger.order(rank).sends(could_store) || ledger.under_way() >= self.notifications {
            return;
        }
        let Link { data: link, one, .. } = &self.links[rank];
        // What finds no room now is asked behind a later one.
        if link.try_get(&self.one, 0, 8, *one, Spec::COMPLETER).is_ok() {
            ledger.probe(rank);
        }
    }
}

fn is_short(parts: &[Checked]) -> bool {
    parts.iter().map(|part| part.bytes).sum::<u64>() <= STORES_MAX
}

impl Checked {
    /// `None`: not by stores.
    fn piece(&self) -> Option<Piece> {
        let to = self.target.as_ref()?.data(self.remote_offset, self.bytes)?;
        let from = self.segment.host_address()?.wrapping_add(self.offset).cast_const();
        Some(Piece { from, to, bytes: self.bytes as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas::members::memory::Mapping;

    /// The size of a segment was asked before it was made anew, smaller.
    #[test]
    fn what_leaves_a_segment_is_not_stored() {
        let mapping = |bytes| Mapping::private(bytes).unwrap();
        let (data, flags, board) = (mapping(4096), mapping(4096), Arc::new(mapping(4096)));
        let base = data.base();
        let target = Target::Other(Arc::new(There { id: 1, life: 1, data, flags, board }));
        assert_eq!(target.data(0, 4096), Some(base));
        assert_eq!(target.data(4088, 8), Some(base.wrapping_add(4088)));
        for (offset, bytes) in [(4089, 8), (0, 4097), (1 << 20, 8), (u64::MAX, 8), (4096, 1)] {
            assert_eq!(target.data(offset, bytes), None, "{bytes} bytes at {offset}");
        }
    }
}
