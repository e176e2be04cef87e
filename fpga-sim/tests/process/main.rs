//! Cards of several processes: the members of a job, all in this process, joined by shared memory.

#[path = "../common/mod.rs"]
mod common;

mod cables;
mod crowd;
mod departures;
mod ends;
mod meeting;
mod members;
mod node;
mod packets;
mod rings;
mod unopened;
