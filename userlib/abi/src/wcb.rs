//! State of a VPID's write-combining buffer (spec 2.4).

use crate::bindings as facts;
use crate::bits::Field;

const COMMITTED: Field = Field::new(facts::EXTOLL_WCB_COMMITTED_SHIFT, facts::EXTOLL_WCB_COMMITTED_BITS);
const RETRY: Field = Field::new(facts::EXTOLL_WCB_RETRY_SHIFT, facts::EXTOLL_WCB_RETRY_BITS);
const ASSEMBLY: Field = Field::new(facts::EXTOLL_WCB_ASSEMBLY_SHIFT, facts::EXTOLL_WCB_ASSEMBLY_BITS);
const STREAM_OUT: Field = Field::new(facts::EXTOLL_WCB_STREAM_OUT_SHIFT, facts::EXTOLL_WCB_STREAM_OUT_BITS);
const REJECTED: Field = Field::new(facts::EXTOLL_WCB_REJECTED_SHIFT, facts::EXTOLL_WCB_REJECTED_BITS);

/// The WCB state register: how software sees congestion. Plain value; the register is an atomic elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct WcbState(pub u64);

impl WcbState {
    /// Descriptors accepted, modulo 256.
    #[inline]
    pub const fn committed(self) -> u8 {
        COMMITTED.get(self.0) as u8
    }

    /// The card rejected descriptors and rejects all later ones until this is cleared \[inferred\].
    #[inline]
    pub const fn retry(self) -> bool {
        RETRY.is_set(self.0)
    }

    /// Descriptors rejected since software last cleared the count.
    #[inline]
    pub const fn rejected(self) -> u8 {
        REJECTED.get(self.0) as u8
    }

    /// No descriptor is half written or on its way into the unit: the two toggles are equal.
    #[inline]
    pub const fn idle(self) -> bool {
        ASSEMBLY.is_set(self.0) == STREAM_OUT.is_set(self.0)
    }

    /// Toggle of the side that assembles descriptors.
    #[inline]
    pub const fn assembly(self) -> bool {
        ASSEMBLY.is_set(self.0)
    }

    /// Toggle of the side that hands descriptors to the unit.
    #[inline]
    pub const fn stream_out(self) -> bool {
        STREAM_OUT.is_set(self.0)
    }

    /// With this count of accepted descriptors.
    #[inline]
    pub const fn with_committed(self, committed: u8) -> WcbState {
        WcbState(COMMITTED.with(self.0, committed as u64))
    }

    /// With the retry flag so.
    #[inline]
    pub const fn with_retry(self, retry: bool) -> WcbState {
        WcbState(RETRY.with(self.0, retry as u64))
    }

    /// With the assembly toggle so.
    #[inline]
    pub const fn with_assembly(self, toggle: bool) -> WcbState {
        WcbState(ASSEMBLY.with(self.0, toggle as u64))
    }

    /// With the stream-out toggle so.
    #[inline]
    pub const fn with_stream_out(self, toggle: bool) -> WcbState {
        WcbState(STREAM_OUT.with(self.0, toggle as u64))
    }

    /// With this count of rejected descriptors.
    #[inline]
    pub const fn with_rejected(self, rejected: u8) -> WcbState {
        WcbState(REJECTED.with(self.0, rejected as u64))
    }

    /// What software writes back before it posts the rejected descriptors again.
    #[inline]
    pub const fn acknowledged(self) -> WcbState {
        self.with_retry(false).with_rejected(0)
    }
}
