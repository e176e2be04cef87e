//! What says that a message goes in pieces.

/// Bytes of a head. Few messages of programs have just as many.
pub const HEAD: usize = 61;

const MARK: u64 = u64::from_le_bytes(*b"in parts");

/// The message that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its bytes.
    pub total: usize,
    /// Of a piece.
    pub piece: usize,
    /// The tag of its pieces.
    pub tag: i32,
}

impl Head {
    pub fn bytes(&self) -> Box<[u8; HEAD]> {
        let mut bytes = Box::new([0; HEAD]);
        let words = [MARK, self.total as u64, self.piece as u64, u64::from(self.tag as u32)];
        words
            .iter()
            .zip(bytes.chunks_exact_mut(8))
            .for_each(|(word, at)| at.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// `None`: it is none, which our own daemons do not send.
    pub fn of(bytes: &[u8; HEAD]) -> Option<Head> {
        let mut words = bytes.chunks_exact(8).filter_map(|at| at.try_into().ok().map(u64::from_le_bytes));
        let mut next = || words.next().and_then(|word| usize::try_from(word).ok());
        let (mark, total, piece, tag) = (next()?, next()?, next()?, next()?);
        (mark as u64 == MARK).then_some(Head { total, piece, tag: i32::try_from(tag).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_what_it_is_of() {
        let head = Head { total: 5 << 30, piece: 65_536, tag: i32::MAX };
        let mut bytes = head.bytes();
        assert_eq!(Head::of(&bytes), Some(head));
        bytes[3] ^= 1;
        assert_eq!(Head::of(&bytes), None);
    }
}
