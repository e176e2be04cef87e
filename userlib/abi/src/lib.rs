//! Bit layouts of the EXTOLL card and of the structures shared with kernels.
//!
//! The facts stand once in the C headers `kmod/uapi/extoll/*.h`; [`bindings`] and [`layout`] are their
//! generated Rust view (`cargo xtask facts`). The encoders and decoders here are written by hand and
//! checked against the C ones by the golden vectors in `tests/golden`. "(spec n)" cites the clean-room
//! interface specification of the card.
//!
//! Encoders reject what the card could not carry out; decoders accept every bit pattern and report what is
//! illegal as a typed value, because a model of the card must answer hostile words too.

mod atomic;
mod atu;
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)] // as bindgen writes
pub mod bindings;
mod bits;
mod bq;
mod desc;
mod display;
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)] // as bindgen writes
pub mod layout;
mod noti;
pub mod regs;
pub mod smfu;
mod velo;
mod vocab;
mod wcb;

pub use atomic::{Atomic, Operation, Width};
pub use atu::{Access, AtuCommand, AtuError, GatRegister, Gate, Nla, PageSize};
pub use bits::{Field, OutOfRange};
pub use bq::{BqError, BqReadPointer, BqSegment, BqTable, BqWritePointer, SlotSize};
pub use desc::{DecodeError, Descriptor, EncodeError, Header, MAX_TRANSFER, Request};
pub use display::DescriptorDisplay;
pub use noti::{Body, Kind, Notification, NotificationError, NotificationHeader};
pub use velo::{
    VELO_LINE_WORDS, VELO_MAX_BYTES, VeloError, VeloHeader, VeloStatus, velo_page, velo_page_at, velo_slots,
};
pub use vocab::{Address, Command, CommandCode, ErrorUnits, Mode, Modifier, PageOption, Spec};
pub use wcb::WcbState;
