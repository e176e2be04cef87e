//! facts
fn main() {}
