//! Units of the card as state machines, without threads, clocks or sockets; what each takes and gives is in `README.md`.

pub mod atu;
pub mod bits;
pub mod bq;
pub mod completer;
pub mod counters;
pub mod fragment;
pub mod lock;
pub mod notify;
pub mod report;
pub mod requester;
pub mod responder;
pub mod smfu;
pub mod snq;
pub(crate) mod timer;
pub mod trigger;
pub mod velo;
pub mod vpid;
pub mod wcb;
