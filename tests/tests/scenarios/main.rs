//! Scenarios on the software EXTOLL, written from the interface specification. See `tests/README.md`.

mod hostile;
mod illegal;
mod life;
mod lock;
mod notify;
mod order;
mod pressure;
mod soak;
mod transfer;
mod words;
