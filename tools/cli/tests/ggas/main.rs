//! The command `ggas`. One program: linking takes longer than compiling each of these.

mod command_line;
mod energy;
mod map;
mod networks;
mod paper;
mod processes;
mod run;
mod tune;
