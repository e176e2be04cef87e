//! Stretches of bus memory that one transfer reads or writes.

/// A contiguous run of bus memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Bus address of the first byte.
    pub address: u64,
    /// Bytes.
    pub len: u32,
}

/// Contiguous runs, in order; most transfers have one.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// First run.
    pub first: Run,
    /// Further runs.
    pub more: Vec<Run>,
}

impl Runs {
    /// One run.
    pub fn one(address: u64, len: u32) -> Runs {
        Runs { first: Run { address, len }, more: Vec::new() }
    }

    /// All runs.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// Lengthens the last run.
    pub fn extend(&mut self, len: u32) {
        self.more.last_mut().unwrap_or(&mut self.first).len += len;
    }

    /// Appends bytes, to the last run where they follow it.
    pub fn push(&mut self, address: u64, len: u32) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.len == 0 {
            *last = Run { address, len };
        } else if last.address.wrapping_add(u64::from(last.len)) == address {
            last.len += len;
        } else {
            self.more.push(Run { address, len });
        }
    }
}

/// A place in [`Runs`] that moves on.
#[derive(Clone, Debug)]
pub struct Cursor {
    runs: Runs,
    /// Index of the run, and bytes of it that are done.
    index: usize,
    within: u32,
    position: u32,
}

impl Cursor {
    /// At the first byte.
    pub fn new(runs: Runs) -> Cursor {
        Cursor { runs, index: 0, within: 0, position: 0 }
    }

    /// All of them, those that were passed included.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Bytes passed so far.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The next contiguous piece, at most `max` bytes; `None` at the end, or for `max` 0.
    pub fn piece(&self, max: u32) -> Option<Run> {
        let run = match self.index {
            0 => self.runs.first,
            i => *self.runs.more.get(i - 1)?,
        };
        let len = (run.len - self.within).min(max);
        (len > 0).then(|| Run { address: run.address + u64::from(self.within), len })
    }

    /// Passes `len` bytes, no more than the last piece had.
    pub fn advance(&mut self, len: u32) {
        self.position += len;
        self.within += len;
        let run = match self.index {
            0 => Some(self.runs.first),
            i => self.runs.more.get(i - 1).copied(),
        };
        if run.is_some_and(|run| self.within >= run.len) {
            self.index += 1;
            self.within = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_walks_every_byte(
            lens in proptest::collection::vec(1u32..50, 1..8),
            steps in proptest::collection::vec(1u32..20, 1..200),
        ) {
            let mut runs = Runs::default();
            lens.iter().enumerate().for_each(|(i, len)| runs.push(1000 * i as u64, *len));
            let expected: Vec<u64> =
                runs.iter().flat_map(|r| (0..u64::from(r.len)).map(move |i| r.address + i)).collect();
            let mut cursor = Cursor::new(runs);
            let mut seen = Vec::new();
            for step in steps {
                if let Some(piece) = cursor.piece(step) {
                    prop_assert!(piece.len <= step);
                    seen.extend((0..u64::from(piece.len)).map(|i| piece.address + i));
                    cursor.advance(piece.len);
                    prop_assert_eq!(cursor.position() as usize, seen.len());
                }
            }
            prop_assert_eq!(&seen[..], &expected[..seen.len()]);
        }
    }
}
