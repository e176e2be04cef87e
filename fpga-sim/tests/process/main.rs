//! Cards of several processes: the members of a job, all in this process, joined by shared memory.

#[path = "../common/mod.rs"]
mod common;

mod cables;
mod crowd;
mod departures;
mod meeting;
mod members;
mod packets;
mod rings;
