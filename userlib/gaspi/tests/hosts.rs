//! The tests of one host, with the ranks on two, by turns: each is next to one that it shares no memory with.

#[path = "processes.rs"]
mod processes;
