//! Which message a receiver wants.

use std::fmt;

use extoll_abi::{Address, VeloStatus};

/// Conditions on a message; what is not said matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageMatch {
    source: Option<Address>,
    tag: Option<u8>,
    mtt: Option<u8>,
}

impl MessageMatch {
    /// Every message.
    pub const fn any() -> MessageMatch {
        MessageMatch { source: None, tag: None, mtt: None }
    }

    /// Only those of this port.
    pub const fn from(self, source: Address) -> MessageMatch {
        MessageMatch { source: Some(source), ..self }
    }

    /// Only those with this tag.
    pub const fn tag(self, tag: u8) -> MessageMatch {
        MessageMatch { tag: Some(tag), ..self }
    }

    /// Only those of this type.
    pub const fn mtt(self, mtt: u8) -> MessageMatch {
        MessageMatch { mtt: Some(mtt), ..self }
    }

    /// The port that it names.
    pub fn source(&self) -> Option<Address> {
        self.source
    }

    /// Whether a message with this status is wanted.
    #[inline]
    pub fn accepts(&self, status: VeloStatus) -> bool {
        self.source.is_none_or(|source| source == status.source())
            && self.tag.is_none_or(|tag| tag == status.tag())
            && self.mtt.is_none_or(|mtt| mtt == status.mtt())
    }
}

impl fmt::Display for MessageMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, " with tag {tag}")?;
        }
        if let Some(mtt) = self.mtt {
            write!(f, " of type {mtt}")?;
        }
        Ok(())
    }
}
