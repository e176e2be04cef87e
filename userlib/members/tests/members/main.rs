//! Members, jobs and launchers, from outside. One program: linking takes longer than compiling each of these.

#[path = "../common/mod.rs"]
mod common;

mod churn;
mod deaths;
mod directories;
mod forks;
mod hostile;
mod hosts;
mod jobs;
mod launching;
mod limits;
mod messages;
mod namespaces;
mod networks;
mod together;
