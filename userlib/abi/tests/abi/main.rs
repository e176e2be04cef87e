//! Words of the card: as others compute them, of any fields, and those that are none. One program: linking takes longer than compiling each of these.

mod golden;
mod properties;
mod rejects;
