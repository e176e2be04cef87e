//! Scenarios run on every device kind.
