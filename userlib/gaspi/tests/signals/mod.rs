//! Signals from one rank to another.

use ggas_gaspi::{GROUP_ALL, Gaspi};

use crate::jobs::{BLOCK, part};

/// Each process writes its id to its segment.
pub fn say_pid(gaspi: &Gaspi) {
    gaspi.store(0, 0, &u64::from(std::process::id()).to_ne_bytes()).unwrap();
    gaspi.barrier(GROUP_ALL, BLOCK).unwrap();
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let state = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default()
    };
    tasks.map(state).all(|stat| stat.contains(") T "))
}

/// Sends signals to rank 1, which has said its id; the one that stops it is waited for.
pub fn signals(gaspi: &Gaspi) -> impl Fn(&str) {
    gaspi.read(&part(8, 0, 8), 1, 0).unwrap();
    gaspi.wait(0, BLOCK).unwrap();
    let mut pid = [0; 8];
    gaspi.load(0, 8, &mut pid).unwrap();
    let pid = u64::from_ne_bytes(pid).to_string();
    move |name| {
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([name, &pid]).status().unwrap().success());
        while name == "-STOP" && !is_stopped(&pid) {
            std::thread::yield_now();
        }
    }
}
