//! Tests in processes of their own: a test binary has an ignored test `case` that does what `HPE_CASE` names.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Runs a case in a child.
fn run(name: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["--exact", "case", "--ignored", "--nocapture", "--test-threads=1"])
        .env("HPE_CASE", name)
        .output()
        .unwrap()
}

/// The case ends well.
pub fn passes(name: &str) {
    let output = run(name);
    assert!(
        output.status.success(),
        "{name}: {:?}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The case ends by SIGSEGV, with this text on standard error.
pub fn dies(name: &str, text: &str) {
    let output = run(name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.signal(), Some(libc::SIGSEGV | libc::SIGABRT)),
        "{name}: {:?} {said}",
        output.status
    );
    assert!(said.contains(text), "{said}");
}

/// Has a handler for a signal, with these flags and those of [`libc::SA_SIGINFO`].
pub fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: a handler of a test.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// What a child of a fork ends with; one that takes a minute is ended.
pub fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `work` and ends; no other thread of this process holds a lock of the test's that it needs.
    unsafe {
        match libc::fork() {
            0 => {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(60);
                libc::_exit(work())
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            }
        }
    }
}
