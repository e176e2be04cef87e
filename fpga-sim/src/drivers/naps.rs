//! When cards that moved nothing are looked at again, in virtual time.

use crate::card::Need;

/// Nanoseconds: the first time, and the longest after doubling. A card that waits for a device or to be polled is looked
/// at more often.
const NAP: (u64, u64) = (10_000, 20_000_000);
const POLL: (u64, u64) = (500, 50_000);

/// Nanoseconds until a card is looked at again that has run, and napped for so long before; 0 where it moved anything, `None`
/// where it need not be.
pub(crate) fn next(before: u64, moved: bool, need: Need) -> Option<u64> {
    let (first, longest) = match need {
        Need::Nothing => return None,
        Need::Told | Need::Nap => NAP,
        Need::Poll => POLL,
    };
    Some(if moved { 0 } else { (before * 2).clamp(first, longest) })
}
