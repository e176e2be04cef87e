//! Scenarios on the software EXTOLL, written from the interface specification. See `tests/README.md`.

mod illegal;
mod lock;
mod notify;
mod transfer;
