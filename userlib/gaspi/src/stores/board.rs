//! The board of a process: which of its segments are there, and who stores to them now. All processes map it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ggas::HostBuffer;
use ggas::members::memory::Mapping;
use ggas_clock::Clock;

use crate::error::because;
use crate::{GaspiError, Timeout};

/// Segments by their ids, then parts of groups.
const SEGMENTS: usize = 256;
const ROOMS: usize = SEGMENTS + 256;
/// A line of the cache for each process that stores.
const LINE: usize = 64;
const VISITS: usize = 8 * ROOMS;

/// The part of a group.
pub(super) fn room_of(group: u8) -> usize {
    SEGMENTS + usize::from(group)
}

/// The word of a process that stores to a room. Those of all segments have one, since it stores to one at a time; those of groups one
/// each.
fn visit_at(room: usize, rank: usize, ranks: usize) -> usize {
    let column = (room + 1).saturating_sub(SEGMENTS);
    VISITS + LINE * (column * ranks + rank)
}
/// How long a store of another process may take. It takes less than a microsecond where the process runs.
const PATIENCE: Timeout = Timeout::Within(Duration::from_secs(10));

/// A word for each room, which is its life or 0; then words for each process, which are odd while it stores.
///
/// Who stores makes its word odd, then looks at the life. Who deletes makes the life 0, then looks at the words. All four are
/// sequentially consistent, so at least one of the two sees the other.
pub(super) struct Board {
    words: HostBuffer,
    ranks: usize,
}

impl Board {
    pub(super) fn new(ranks: usize) -> Result<Board, GaspiError> {
        let words = HostBuffer::zeroed(Board::bytes(ranks)).map_err(because(GaspiError::Memory))?;
        Ok(Board { words, ranks })
    }

    pub(super) fn bytes(ranks: usize) -> usize {
        visit_at(ROOMS, 0, ranks)
    }

    /// Address and bytes.
    pub(super) fn memory(&self) -> (u64, usize) {
        (self.words.address(), self.words.len())
    }

    pub(super) fn begin(&self, room: usize, life: u64) {
        self.words.word(8 * room).store(life, Ordering::SeqCst);
    }

    pub(super) fn end(&self, room: usize, is_gone: impl Fn(usize) -> bool) -> Result<(), GaspiError> {
        self.words.word(8 * room).store(0, Ordering::SeqCst);
        for rank in 0..self.ranks {
            let word = self.words.word(visit_at(room, rank, self.ranks));
            let visit = word.load(Ordering::SeqCst);
            let is_over = || visit.is_multiple_of(2) || word.load(Ordering::SeqCst) != visit || is_gone(rank);
            PATIENCE.wait(Clock::REAL, || Ok(is_over().then_some(())))?;
        }
        Ok(())
    }
}

/// Stores of this process to segments of another one; over when dropped.
pub(super) struct Visit<'a> {
    board: &'a Mapping,
    word: &'a AtomicU64,
}

fn word(board: &Mapping, offset: usize) -> &AtomicU64 {
    // SAFETY: an atomic.
    unsafe { board.at(offset) }
}

impl Visit<'_> {
    /// Of process `me` of so many, to segments or to this group's part: one at a time.
    pub(super) fn new(board: &Mapping, room: usize, (me, ranks): (usize, usize)) -> Visit<'_> {
        let word = word(board, visit_at(room, me, ranks));
        word.store(word.load(Ordering::Relaxed).wrapping_add(1) | 1, Ordering::SeqCst);
        Visit { board, word }
    }

    /// Whether this room is there, until the visit is over.
    pub(super) fn finds(&self, room: usize, life: u64) -> bool {
        word(self.board, 8 * room).load(Ordering::SeqCst) == life
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.word.store(self.word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggas::members::memory::Arena;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn words_do_not_meet() {
        let rooms = [0, 255, 256, 257, 511];
        let all: Vec<usize> =
            rooms.iter().flat_map(|room| (0..3).map(|rank| visit_at(*room, rank, 3))).collect();
        assert_eq!(all[..3], all[3..6], "of segments");
        let mut others = all[3..].to_vec();
        others.dedup();
        assert!(others.is_sorted() && others.len() == 12);
        assert!(others.iter().all(|at| (VISITS..Board::bytes(3)).contains(at)));
    }

    /// Two threads as two processes: each deletes segments under the other one's stores.
    #[test]
    fn nothing_is_stored_behind_the_end_of_a_segment() {
        let arena = Arena::create(1 << 20).unwrap();
        let words = HostBuffer::in_arena(&arena, Board::bytes(2)).unwrap();
        let offset = arena.offset_of(words.address(), words.len()).unwrap();
        let board = Board { words, ranks: 2 };
        let (target, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mapped = Mapping::new(arena.fd(), offset, Board::bytes(2), true).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let visit = Visit::new(&mapped, 7, (1, 2));
                    let life = word(&mapped, 8 * 7).load(Ordering::Relaxed);
                    if life != 0 && visit.finds(7, life) {
                        target.store(life, Ordering::Relaxed);
                    }
                }
            });
            for life in 1..20_000 {
                board.begin(7, life);
                if life % 8 == 0 {
                    std::thread::yield_now();
                }
                board.end(7, |_| false).unwrap();
                target.store(0, Ordering::Relaxed);
                std::hint::spin_loop();
                assert_eq!(target.load(Ordering::Relaxed), 0, "life {life}");
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn who_has_gone_in_the_midst_is_not_waited_for() {
        let board = Board::new(3).unwrap();
        board.words.store_u64(visit_at(0, 2, 3), 5);
        assert_eq!(board.end(0, |rank| rank == 2), Ok(()));
    }
}
