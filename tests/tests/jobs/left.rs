//! What jobs could leave behind: processes, names in shared memory and temporary folders, open descriptors.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// What there is at one time.
#[derive(Debug)]
pub struct Left(BTreeSet<String>);

impl Left {
    pub fn now() -> Left {
        let mut all = BTreeSet::new();
        let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
        let cache = std::env::var("HOME").map(|home| home + "/.cache/ggas").unwrap_or_default();
        for folder in ["/dev/shm", "/tmp", &runtime, &cache] {
            let names = fs::read_dir(folder).into_iter().flatten().flatten();
            let ours = names.map(|entry| entry.path().display().to_string());
            all.extend(ours.filter(|name| name.contains("ggas")));
        }
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        all.extend((0..descriptors).map(|i| format!("descriptor {i} of this process")));
        all.extend(threads());
        all.extend(processes());
        Left(all)
    }

    /// Fails if there is anything that was not there before. Processes that are ending get some time, and so do other
    /// tests' files.
    pub fn assert_nothing_more(&self, after: &str) {
        let began = Instant::now();
        loop {
            let now = Left::now();
            let more: Vec<_> = now.0.difference(&self.0).collect();
            if more.is_empty() {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "left behind by {after}: {more:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The launcher's threads in this process.
fn threads() -> impl Iterator<Item = String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let ours = tasks.filter_map(name).filter(|name| name.starts_with("ggas-"));
    ours.enumerate().map(|(i, name)| format!("thread {i}, {}", name.trim()))
}

/// Processes of the suite, dead ones that nobody waited for included.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        stat.contains("(job-suite)").then(|| format!("process {pid}: {}", stat.trim()))
    })
}
