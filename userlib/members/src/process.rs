//! Identity of a process of this host, unique even when ids are reused: id, start time, and PID namespace of the id.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It does.
    Here,
    /// It has ended.
    Over,
    /// Its id is of another namespace, or this process cannot look now: only its socket can tell.
    Elsewhere,
}

/// What /proc says of a process id.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// A process that began then, in clock ticks since boot.
    Began(u64),
    /// There is none, or only what its parent has to reap.
    Nobody,
    /// It cannot be read: no descriptor is left, say. That is nobody's death.
    Unknown,
}

/// Id, start time and namespace of this process; namespace 0 where it cannot be looked up. Not kept: a fork has its own.
pub(crate) fn this() -> (u32, u64, u64) {
    let pid = std::process::id();
    match (namespace(), look(pid)) {
        (Some(namespace), Seen::Began(start)) => (pid, start, namespace),
        _ => (pid, 0, 0),
    }
}

/// This process's namespace of ids; `None` where /proc is missing or shows another one.
fn namespace() -> Option<u64> {
    let shown = std::fs::read_link("/proc/self").ok()?;
    if shown.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    Some(std::fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// What became of the process that began then.
pub(crate) fn life(pid: u32, start: u64, its_namespace: u64) -> Life {
    if its_namespace == 0 || namespace() != Some(its_namespace) {
        return Life::Elsewhere;
    }
    match look(pid) {
        Seen::Began(at) if at == start => Life::Here,
        Seen::Began(_) | Seen::Nobody => Life::Over,
        Seen::Unknown => Life::Elsewhere,
    }
}

/// Number of this program in its process: another one after exec, which keeps id and start time.
pub(crate) fn program() -> u32 {
    // No lock: a fork's copy of one might be held for ever.
    static PROGRAM: AtomicU32 = AtomicU32::new(0);
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    let new = now.map_or(1, |now| now.tv_nsec() as u32 ^ (now.tv_sec() as u32).rotate_left(20)).max(1);
    match PROGRAM.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(before) => before,
    }
}

fn look(pid: u32) -> Seen {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse(&stat).unwrap_or(Seen::Unknown),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Seen::Nobody,
        Err(_) => Seen::Unknown,
    }
}

/// Of the line in /proc. In bytes: the program's name in it may be anything, cut in the middle of a letter, too.
fn parse(stat: &[u8]) -> Option<Seen> {
    // Behind the name, which may hold parentheses.
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields: Vec<&str> = std::str::from_utf8(stat.get(behind..)?).ok()?.split_ascii_whitespace().collect();
    // Fields 3, 20 and 22 of proc(5).
    let (state, threads, start) = (*fields.first()?, fields.get(17)?, fields.get(19)?);
    match state {
        // Its first thread has ended; with others it goes on.
        "Z" if threads.parse::<u32>().ok()? <= 1 => Some(Seen::Nobody),
        "X" => Some(Seen::Nobody),
        _ => Some(Seen::Began(start.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_of(pid: u32) -> u64 {
        match look(pid) {
            Seen::Began(start) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_process_is_itself_and_nobody_else() {
        let (pid, start, namespace) = this();
        assert_eq!(life(pid, start, namespace), Life::Here);
        assert_eq!(life(pid, start + 1, namespace), Life::Over, "a later process with its id");
        assert_eq!(life(pid, start, namespace + 1), Life::Elsewhere);
        assert_eq!(life(pid, start, 0), Life::Elsewhere, "it could not look itself up");
        assert_eq!(life(0, 0, namespace), Life::Over);
        assert_eq!(program(), program());
    }

    #[test]
    fn who_waits_to_be_reaped_is_over() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (start, (_, _, namespace)) = (start_of(child.id()), this());
        assert_eq!(life(child.id(), start, namespace), Life::Here);
        child.kill().unwrap();
        while life(child.id(), start, namespace) == Life::Here {
            std::thread::yield_now();
        }
        assert!(child.wait().is_ok());
    }

    #[test]
    fn lines_of_any_name_are_read() {
        let rest = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 THREADS 17 4711 19";
        let line = |name: &[u8], state: &str, threads: &str| {
            let rest = rest.replace("THREADS", threads);
            [b"7 (".as_slice(), name, b") ", state.as_bytes(), b" ", rest.as_bytes()].concat()
        };
        assert_eq!(parse(&line(b"sleep", "S", "1")), Some(Seen::Began(4711)));
        assert_eq!(parse(&line(b"a) Z (", "R", "1")), Some(Seen::Began(4711)));
        assert_eq!(parse(&line(b"gr\xc3", "S", "1")), Some(Seen::Began(4711)), "cut in a letter");
        assert_eq!(parse(&line(b"main has ended", "Z", "3")), Some(Seen::Began(4711)));
        assert_eq!(parse(&line(b"dead", "Z", "1")), Some(Seen::Nobody));
        assert_eq!(parse(b"7 (short) S 1 2"), None);
        assert_eq!(parse(b""), None);
    }
}
