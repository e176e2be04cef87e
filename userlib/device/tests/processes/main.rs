//! Processes of networks and jobs, which are all this one. One program: linking takes longer than compiling each of these.

mod job;
mod nodes;
mod windows;
